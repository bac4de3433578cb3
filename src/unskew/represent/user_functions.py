"""Names, settings and functions as representations; a function of the user: `module:function`."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.user_code import import_reference
from unskew.represent.base import Needs, Pixels, Representation


@dataclass(frozen=True)
class OwnFunction(Representation):
    """A function of the user's: ``function(images, **options)`` gives (m,) or (m, d) numbers.

    ``images`` are (m, h, w, 3) uint8, all of one size. The columns are named like the function:
    ``edges``, or ``edges_0``, ``edges_1`` … Values are remembered as long as the file of the
    function does not change; those of a lambda, a closure or a method are not remembered.

    Attributes
    ----------
    reference : ``module:function``.
    options : keyword arguments, as JSON.
    reduced : give it reduced copies (shorter side of at least 64 pixels) instead of the whole
        images.
    """

    reference: str
    options: str = "{}"
    reduced: bool = False
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_mapping(
        cls, reference: str, options: Mapping[str, Any], function: Callable[..., Any] | None = None
    ) -> OwnFunction:
        """Make the representation; options other than ``reduced`` go to the function."""
        rest = {key: value for key, value in options.items() if key != "reduced"}
        return cls(
            reference,
            json.dumps(rest, sort_keys=True),
            bool(options.get("reduced", False)),
            function or import_reference(reference),
        )

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.reference.partition(":")[2].replace(".", "_")

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        return "reduced" if self.reduced else "pixels"

    @cached_property
    def _source(self) -> str:
        """A hash of the function's file; a unique value where the function depends on more.

        Lambdas, functions within functions and methods of objects depend on what they were made
        with, not only on their file.
        """
        try:
            named = import_reference(self.reference)
            if self.function is not None and self.function is not named:
                return uuid.uuid4().hex
            file = inspect.getsourcefile(inspect.unwrap(named))
            with open(file or "", "rb") as source:
                return hashlib.blake2b(source.read(), digest_size=16).hexdigest()
        except (OSError, TypeError, ConfigError):
            return uuid.uuid4().hex

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.reference,
            "version": self._source,
            "options": self.options,
            "reduced": self.reduced,
        }

    def compute(self, batch: Pixels) -> npt.NDArray[Any]:
        function = self.function or import_reference(self.reference)
        values = np.asarray(function(batch, **json.loads(self.options)))
        if (
            values.dtype.kind not in "fiub"
            or values.ndim not in (1, 2)
            or len(values) != len(batch)
        ):
            raise DataError(
                f"{self.reference} must return one row of numbers for each image, an array "
                f"({len(batch)},) or ({len(batch)}, d); got {values.dtype} of shape "
                f"{values.shape}.",
                value=list(values.shape),
            )
        return values.astype(np.float64).reshape(len(batch), -1)


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
