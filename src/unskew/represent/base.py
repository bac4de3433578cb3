"""The contract of a representation, and names, settings and functions as representations."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, did_you_mean, first_few
from unskew.represent.user_functions import OwnFunction

Pixels = npt.NDArray[np.uint8]
# "header": size and EXIF, nothing is decoded. "reduced": a copy whose shorter side has at least
# `side` pixels, each the average of f × f pixels, f the largest power of two that leaves so many (f
# = 1 for small images). "pixels": the whole image.
Needs = Literal["header", "reduced", "pixels"]
# The shorter side of the reduced copy: 64 × 64 pixels give the mean colour of a photograph to about
# 1/255.
REDUCED_SIDE = 64


@dataclass(frozen=True)
class Header:
    """What a file tells about its image before the pixels.

    Attributes
    ----------
    width, height : in pixels, as the image is looked at (EXIF orientation applied).
    format : "JPEG", "PNG" …; None for an array.
    exif : EXIF tags by number, those of the Exif part among them; empty where there are none.
    gps : EXIF tags of the GPS part by number.
    """

    width: int
    height: int
    format: str | None = None
    exif: Mapping[int, Any] = field(default_factory=dict)
    gps: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Representation(ABC):
    """An image as a few numbers; the fields of a subclass are its settings.

    Attributes
    ----------
    name : what it is called in ``features``, and how its columns begin.
    version : raised whenever the same image gives other numbers than before, so that remembered
        values are no longer used.
    needs : "header", "reduced" or "pixels": what `compute` receives.
    side : of the reduced copy, the least length of the shorter side (with ``needs = "reduced"``
        only).
    batch_size : images in a batch; None: as many as stay in the processor's cache.
    one_at_a_time : `compute` uses all cores by itself (a neural network), so two threads never call
        it at once.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    needs: ClassVar[Needs] = "pixels"
    side: ClassVar[int] = REDUCED_SIDE
    batch_size: ClassVar[int | None] = None
    one_at_a_time: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Full names of the columns that the pool gets.

        Empty where they follow from the number of values: name, or name_0, name_1 …
        """
        return (self.name,)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Those that hold text (or None); all others hold float64 numbers (or NaN)."""
        return ()

    def placed(self, jobs: int, folder: Path | None) -> Representation:
        """Return the representation to work with, by default itself; called once, before all else.

        ``jobs``: how many threads `compute` may use; ``folder``: where it may keep files of its own
        (None: nowhere).
        """
        return self

    def prepare(self, pixels: Pixels) -> npt.NDArray[Any]:
        """Prepare one upright image (h, w, 3) for a batch: resizing or cropping belongs here.

        Called in the threads that decode. Batches hold images of the same shape only; a
        representation that brings all to one shape gets full batches.
        """
        return pixels

    @abstractmethod
    def compute(self, batch: Any) -> npt.NDArray[Any]:
        """Compute one row for each image, (m, d).

        ``batch`` is a sequence of m `Header` where the header is all that is needed, otherwise an
        array (m, …) of what `prepare` returned: by default (m, h, w, 3) uint8. The d values are
        what is remembered; without a `finish` of its own they are the `columns`. Text columns make
        it an array of objects. A value that does not exist is NaN (None for text).
        """

    def finish(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn what `compute` gave for all images of all pools, (n, d), into `columns`, (n, c).

        By default these are the same. ``values`` has the dtype that `compute` returned and may be
        mapped from a file: read it in blocks of rows.
        """
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return name, version and settings as plain JSON.

        They are part of the key under which values are remembered; settings that change `finish`
        alone may be left out.
        """
        return {
            "name": self.name,
            "version": self.version,
            **{item.name: getattr(self, item.name) for item in fields(self)},
        }


def column_names(name: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Join the parts to a name: ``border_hsv_h``, ``border_hsv_s``, ``border_hsv_v``."""
    return tuple(f"{name}_{part}" for part in parts)


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
