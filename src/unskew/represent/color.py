"""Colour and light: `border_hsv`, `mean_hsv`, `brightness`, `contrast`, `colourfulness`.

Each is a function of a batch of images, (n, h, w, 3) uint8, and a `Representation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.engine.arguments import ReducedSide, Side, checked
from unskew.errors import DataError, wrong_option
from unskew.records.arrays import Floats
from unskew.represent.base import REDUCED_SIDE, Needs, Pixels, Representation, column_names
from unskew.represent.decode import reduce_images
from unskew.represent.kernels_pixels import combination_sums, hsv_means

# 1000 × the weights of Rec. 601, as JPEG and Pillow have them.
_LUMA = (299, 587, 114)


@checked
def border_hsv(images: Pixels, width: Side = 2) -> Floats:
    """Compute the mean hue, saturation and value of each border, (n, h, w, 3) -> (n, 3).

    Each is in [0, 1] (the article's 4.3). The border is the pixels that are at most ``width``
    pixels away from an edge; an image no wider than twice that is all border. x̄_C = (1/|B|)
    Σ_{p ∈ B} C(p) for C ∈ {H, S, V}: the plain mean, of the hue as well (0 and 1 are the same red,
    so the mean hue of reds is anywhere; that is the article's definition).
    """
    return hsv_means(check_pixels(images), width)


@checked
def mean_hsv(images: Pixels, side: ReducedSide = REDUCED_SIDE) -> Floats:
    """Compute the mean hue, saturation and value of each image, (n, h, w, 3) -> (n, 3).

    Each is in [0, 1]; on the reduced copy of `reduce_images`.
    """
    return hsv_means(reduce_images(check_pixels(images), side))


@checked
def brightness(images: Pixels, side: ReducedSide = REDUCED_SIDE) -> Floats:
    """Compute the mean luma of each image, (n,), in [0, 1].

    This is the mean of Y = (0.299 R + 0.587 G + 0.114 B)/255, on the reduced copy.
    """
    mean, _ = _mean_and_deviation(reduce_images(check_pixels(images), side), _LUMA)
    return mean / 255_000.0


@checked
def contrast(images: Pixels, side: ReducedSide = REDUCED_SIDE) -> Floats:
    """Compute the standard deviation of the luma over the pixels of each image, (n,).

    It is in [0, 0.5] (root-mean-square contrast), and computed on the reduced copy.
    """
    _, deviation = _mean_and_deviation(reduce_images(check_pixels(images), side), _LUMA)
    return deviation / 255_000.0


@checked
def colourfulness(images: Pixels, side: ReducedSide = REDUCED_SIDE) -> Floats:
    """Compute the colourfulness of each image, (n,), M⁽³⁾ of Hasler & Süsstrunk (2003).

    On the reduced copy, with rg = R − G and yb = (R + G)/2 − B on the scale 0 … 255: √(σ²_rg +
    σ²_yb) + 0.3 √(μ²_rg + μ²_yb). 0 is grey; their observers called 15 slightly, 33 moderately, 59
    quite and 109 extremely colourful.
    """
    small = reduce_images(check_pixels(images), side)
    mean_rg, spread_rg = _mean_and_deviation(small, (1, -1, 0))
    mean_yb, spread_yb = _mean_and_deviation(small, (1, 1, -2))
    return np.hypot(spread_rg, spread_yb / 2) + 0.3 * np.hypot(mean_rg, mean_yb / 2)


@dataclass(frozen=True)
class BorderHsv(Representation):
    """`border_hsv`: mean hue, saturation and value of a border of ``width`` pixels."""

    name: ClassVar[str] = "border_hsv"
    needs: ClassVar[Needs] = "pixels"
    width: int = 2

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width < 1:
            raise wrong_option(
                "border_hsv: width is a whole number of pixels, at least 1", width=self.width
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return column_names(self.name, "hsv")

    def compute(self, batch: Pixels) -> Floats:
        return border_hsv(batch, self.width)


@dataclass(frozen=True)
class MeanHsv(Representation):
    """`mean_hsv`: mean hue, saturation and value of the whole image."""

    name: ClassVar[str] = "mean_hsv"
    needs: ClassVar[Needs] = "reduced"

    @property
    def columns(self) -> tuple[str, ...]:
        return column_names(self.name, "hsv")

    def compute(self, batch: Pixels) -> Floats:
        return mean_hsv(batch)


@dataclass(frozen=True)
class Brightness(Representation):
    """`brightness`: mean luma."""

    name: ClassVar[str] = "brightness"
    needs: ClassVar[Needs] = "reduced"

    def compute(self, batch: Pixels) -> Floats:
        return brightness(batch)[:, None]


@dataclass(frozen=True)
class Contrast(Representation):
    """`contrast`: standard deviation of the luma."""

    name: ClassVar[str] = "contrast"
    needs: ClassVar[Needs] = "reduced"

    def compute(self, batch: Pixels) -> Floats:
        return contrast(batch)[:, None]


@dataclass(frozen=True)
class Colourfulness(Representation):
    """`colourfulness` of Hasler & Süsstrunk."""

    name: ClassVar[str] = "colourfulness"
    needs: ClassVar[Needs] = "reduced"

    def compute(self, batch: Pixels) -> Floats:
        return colourfulness(batch)[:, None]


def check_pixels(images: Pixels) -> Pixels:
    """Return the images if they are a batch (n, height, width, 3) of uint8, else `DataError`."""
    images = np.asarray(images)
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise DataError(
            f"images are a uint8 array of shape (n, height, width, 3); got {images.dtype} of shape "
            f"{images.shape}. One image is a batch of one, image[None]; decode other types and "
            "files by unskew.represent.decode.decode_image.",
            value=list(images.shape),
        )
    if 0 in images.shape[1:3]:
        raise DataError(
            f"images without pixels have no colour; got shape {images.shape}.",
            value=list(images.shape),
        )
    return images


def _mean_and_deviation(images: Pixels, weight_c: tuple[int, int, int]) -> tuple[Floats, Floats]:
    """Compute mean and standard deviation over the pixels of w_R R + w_G G + w_B B.

    From exact sums: (n Σy² − (Σy)²)/n², nothing cancels.
    """
    n_pixels = images.shape[1] * images.shape[2]
    sums = combination_sums(images, weight_c)
    mean = np.array([first / n_pixels for first, _ in sums])
    variance = np.array(
        [(n_pixels * second - first * first) / n_pixels**2 for first, second in sums]
    )
    return mean, np.sqrt(variance)
