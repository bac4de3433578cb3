"""The size of an image in pixels and its aspect ratio: from the header, nothing is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.records.arrays import Floats
from unskew.represent.base import Header, Needs, Pixels, Representation, column_names
from unskew.represent.color import check_pixels


def image_size(images: Pixels) -> Floats:
    """Return width and height in pixels, (n, 2), of upright images."""
    height, width = check_pixels(images).shape[1:3]
    return np.tile([float(width), float(height)], (len(images), 1))


def aspect_ratio(images: Pixels) -> Floats:
    """Divide width by height, (n,)."""
    size = image_size(images)
    return np.asarray(size[:, 0] / size[:, 1])


@dataclass(frozen=True)
class Size(Representation):
    """`image_size`: width and height in pixels."""

    name: ClassVar[str] = "size"
    needs: ClassVar[Needs] = "header"

    @property
    def columns(self) -> tuple[str, ...]:
        return column_names(self.name, ("width", "height"))

    def compute(self, batch: Sequence[Header]) -> Floats:
        return np.array([(header.width, header.height) for header in batch], dtype=np.float64)


@dataclass(frozen=True)
class AspectRatio(Representation):
    """`aspect_ratio`: width divided by height."""

    name: ClassVar[str] = "aspect_ratio"
    needs: ClassVar[Needs] = "header"

    def compute(self, batch: Sequence[Header]) -> Floats:
        return np.array([[header.width / header.height] for header in batch])
