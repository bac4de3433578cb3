"""The contract of a representation: an image as a few numbers.

A representation is a frozen dataclass whose fields are its settings. It says what it `needs` of an
image, turns a batch of images into one row of values each (`compute`), and, where the values of one
image depend on all the others (a PCA), what follows (`finish`)::

    @dataclass(frozen=True)
    class Redness(Representation):
        name: ClassVar[str] = "redness"
        needs: ClassVar[Needs] = "reduced"

        def compute(self, batch):                      # (m, h, w, 3) uint8, all of one size
            return batch[..., 0].mean(axis=(1, 2))[:, None] / 255

What is remembered of an image is the row that `compute` returned for it, under the hash of the
image and `to_dict()`, which holds the name, the `version` and the settings: **raise `version` when
the numbers change.** The value of an image must not depend on the other images of its batch, nor on
the size of the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

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
    enough_side : where `prepare` makes the image small: the shorter side of a copy that serves as
        well as the whole, so that a very large JPEG need not be decoded in full; None: none does.
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
    def enough_side(self) -> int | None:
        return None

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

    def placed(self, jobs: int) -> Representation:
        """Return the representation to work with, by default itself; called once, before all else.

        ``jobs``: how many threads `compute` may use.
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


def column_names(name: str, parts: Iterable[str]) -> tuple[str, ...]:
    """Join the parts to a name: ``border_hsv_h``, ``border_hsv_s``, ``border_hsv_v``."""
    return tuple(f"{name}_{part}" for part in parts)
