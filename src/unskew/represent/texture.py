"""Fine structure: `sharpness` (variance of the Laplacian) and `noise` (film grain).

Both need the whole image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.engine.arguments import checked
from unskew.records.arrays import Floats
from unskew.represent.base import Needs, Pixels, Representation
from unskew.represent.color import check_pixels
from unskew.represent.kernels_pixels import laplacian_sums

# The median of |X| for a standard normal X.
_NORMAL_QUARTILE = 0.6744897501960817


@checked
def sharpness(images: Pixels) -> Floats:
    """Compute the variance over the pixels of the Laplacian of the grey image, (n,).

    It is high where edges are sharp, low where all is blurred. The grey value g (0 … 255, whole:
    Pillow's rounding of 0.299 R + 0.587 G + 0.114 B) of a pixel and of its four neighbours give L =
    g_up + g_down + g_left + g_right − 4 g; pixels at the edge have no L. NaN for images under 3
    pixels on a side. It depends on the resolution: compare images of a similar size.
    """
    images = check_pixels(images)
    if min(images.shape[1:3]) < 3:
        return np.full(len(images), np.nan)
    count = (images.shape[1] - 2) * (images.shape[2] - 2)
    return np.array(
        [(count * second - first * first) / count**2 for first, second in laplacian_sums(images)]
    )


@checked
def noise(images: Pixels) -> Floats:
    """Estimate the standard deviation of the noise, (n,), as a share of the full range.

    0.02 are 5 of 255 grey levels. This is the number that `skimage.restoration.estimate_sigma`
    gives for the grey image (as for `sharpness`), computed without the wavelet bands that it does
    not use: the median of the absolute diagonal detail coefficients of the finest level (db2),
    divided by 0.6745 (Donoho & Johnstone 1994). Coefficients that are exactly 0 do not count; if
    all are, the noise is 0. NaN for images under 2 pixels on a side.
    """
    import pywt
    from PIL import Image

    images = check_pixels(images)
    if min(images.shape[1:3]) < 2:
        return np.full(len(images), np.nan)
    result = np.zeros(len(images))
    for at, image in enumerate(images):
        grey = np.asarray(Image.fromarray(image).convert("L"), dtype=np.float64)
        _, detail = pywt.dwt(grey, "db2", axis=1)
        _, detail = pywt.dwt(detail, "db2", axis=0)
        size = np.abs(detail[detail != 0.0])
        # The coefficients of an image of one colour are 0 but for rounding.
        if size.size and grey.min() < grey.max():
            result[at] = np.median(size) / _NORMAL_QUARTILE / 255.0
    return result


@dataclass(frozen=True)
class Sharpness(Representation):
    """`sharpness`: variance of the Laplacian."""

    name: ClassVar[str] = "sharpness"
    needs: ClassVar[Needs] = "pixels"

    def compute(self, batch: Pixels) -> Floats:
        return sharpness(batch)[:, None]


@dataclass(frozen=True)
class Noise(Representation):
    """`noise`: standard deviation of the noise by scikit-image's wavelet estimator."""

    name: ClassVar[str] = "noise"
    needs: ClassVar[Needs] = "pixels"

    def compute(self, batch: Pixels) -> Floats:
        return noise(batch)[:, None]
