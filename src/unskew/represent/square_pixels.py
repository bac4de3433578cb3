"""Images as small squares of pixels, all of one size: what a network is trained on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Amount, CountOrZero, Jobs, Share, Side, checked
from unskew.errors import wrong_option
from unskew.records import Pool
from unskew.represent.base import Needs, Pixels, Representation
from unskew.represent.decode import MAX_PIXELS
from unskew.represent.embedding import ENOUGH, RESIZE_RULES, fit_to_square
from unskew.represent.pool_features import compute_rows


@dataclass(frozen=True)
class Squares(Representation):
    """The pixels of a square copy, (size, size, 3), as one row of size × size × 3 bytes.

    Parameters
    ----------
    size : side in pixels.
    resize : "crop" (the largest square in the middle), "stretch" (the whole image, its aspect ratio
        lost) or "pad" (the whole image with grey margins). An image that is such a square already
        stays as it is.
    """

    name: ClassVar[str] = "squares"
    needs: ClassVar[Needs] = "pixels"

    size: int = 32
    resize: str = "crop"

    def __post_init__(self) -> None:
        if type(self.size) is not int or self.size < 1:
            raise wrong_option(
                "the side of the squares is a whole number of pixels, 1 or more", size=self.size
            )
        if self.resize not in RESIZE_RULES:
            known = " or ".join(map(repr, RESIZE_RULES))
            raise wrong_option(f"resize is {known}", resize=self.resize, allowed=list(RESIZE_RULES))

    @property
    def enough_side(self) -> int:
        return ENOUGH * self.size

    def prepare(self, pixels: Pixels) -> Pixels:
        """Resize (h, w, 3) to (size, size, 3)."""
        if pixels.shape[:2] == (self.size, self.size):
            return pixels
        return fit_to_square(pixels, self.size, self.resize)

    def compute(self, batch: Any) -> npt.NDArray[np.uint8]:
        """Flatten (m, size, size, 3) to (m, size × size × 3)."""
        return np.ascontiguousarray(batch).reshape(len(batch), -1)


@checked
def square_images(
    pool: Pool,
    size: Side = 32,
    resize: str = "crop",
    *,
    cache: str | os.PathLike[str] | None = None,
    jobs: Jobs | None = None,
    tolerance: Share = 0.01,
    max_pixels: Amount | None = MAX_PIXELS,
    progress: bool | None = None,
    memory: CountOrZero = 1024,
) -> tuple[Pool, npt.NDArray[np.uint8]]:
    """Decode all images into squares of one size.

    Returns the pool without images that cannot be decoded, and (n, size, size, 3) uint8 pixels of
    the others, in its order. Where they need more than ``memory`` megabytes, they are a `RowFile`,
    read as they are needed. The settings are those of `unskew.represent_images`.
    """
    kept, table = compute_rows(
        pool,
        Squares(size, resize),
        cache=cache,
        jobs=jobs,
        tolerance=tolerance,
        max_pixels=max_pixels,
        progress=progress,
        label="Reading pixels",
        memory=memory,
    )
    return kept, table.reshape(-1, size, size, 3)
