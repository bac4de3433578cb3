"""Names, tables of settings and functions -> representations."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from unskew.errors import ConfigError, did_you_mean, first_few
from unskew.represent.base import Representation
from unskew.represent.user_functions import OwnFunction

# Name in a configuration -> its class, loaded when it is asked for.
REPRESENTATIONS = {
    "border_hsv": "unskew.represent.color:BorderHsv",
    "mean_hsv": "unskew.represent.color:MeanHsv",
    "brightness": "unskew.represent.color:Brightness",
    "contrast": "unskew.represent.color:Contrast",
    "colourfulness": "unskew.represent.color:Colourfulness",
    "sharpness": "unskew.represent.texture:Sharpness",
    "noise": "unskew.represent.texture:Noise",
    "size": "unskew.represent.dimensions:Size",
    "aspect_ratio": "unskew.represent.dimensions:AspectRatio",
    "exif": "unskew.represent.exif:Exif",
    "embedding": "unskew.represent.embedding:Embedding",
}
Feature = str | Mapping[str, Any] | Representation | Callable[..., Any]


def read_representations(features: Feature | Iterable[Feature]) -> tuple[Representation, ...]:
    """Read representations: names, ``{"name": …, settings}``, ``"module:function"``, functions.

    Representations are returned unchanged.
    """
    if isinstance(features, str | Mapping | Representation) or callable(features):
        features = [features]
    read = tuple(_read(feature) for feature in features)
    seen: dict[str, Representation] = {}
    for representation in read:
        if seen.setdefault(representation.name, representation) is not representation:
            raise ConfigError(
                f"the representation {representation.name!r} is named twice; their columns would "
                "have the same names. Leave one out.",
                value=representation.name,
            )
    return read


def _read(feature: Feature) -> Representation:
    if isinstance(feature, Representation):
        return feature
    if isinstance(feature, str):
        return _from_name(feature, {})
    if isinstance(feature, Mapping):
        if not isinstance(feature.get("name"), str):
            raise ConfigError(
                f'a representation with settings is written as {{name = "border_hsv", width = 4}}; '
                f"got {dict(feature)!r}.",
                value=dict(feature),
            )
        return _from_name(
            feature["name"], {key: value for key, value in feature.items() if key != "name"}
        )
    if callable(feature):
        name = getattr(feature, "__qualname__", type(feature).__name__)
        name = name.replace("<lambda>", "function").replace("<locals>.", "")
        return OwnFunction.from_mapping(f"{feature.__module__}:{name}", {}, feature)
    raise ConfigError(
        f"a representation is a name, a table with a name, or module:function; got {feature!r}.",
        value=repr(feature),
    )


def _from_name(name: str, settings: Mapping[str, Any]) -> Representation:
    if name in REPRESENTATIONS:
        module, _, kind = REPRESENTATIONS[name].partition(":")
        made: type[Representation] = getattr(importlib.import_module(module), kind)
        known = [item.name for item in fields(made) if item.init]
        unknown = [key for key in settings if key not in known]
        if unknown:
            allowed = f"it takes {first_few(known, 20)}" if known else "it takes none"
            raise ConfigError(
                f"{name} has no setting {unknown[0]!r}; "
                f"{allowed}.{did_you_mean(unknown[0], known)}",
                option=unknown[0],
                allowed=known,
            )
        return made(**settings)
    if ":" in name:
        return OwnFunction.from_mapping(name, settings)
    raise ConfigError(
        f"there is no representation {name!r}; there are {first_few(list(REPRESENTATIONS), 20)}, "
        f"or module:function of your own.{did_you_mean(name, REPRESENTATIONS)}",
        value=name,
        allowed=list(REPRESENTATIONS),
    )
