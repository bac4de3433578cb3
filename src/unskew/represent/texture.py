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
_STRIP_PIXELS = 2_000_000
# The high-pass filter of Daubechies' wavelet of two vanishing moments, db2.
_HIGH_PASS = np.array([-1 - 3**0.5, 3 + 3**0.5, 3**0.5 - 3, 1 - 3**0.5]) / 32**0.5


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
    images = check_pixels(images)
    if min(images.shape[1:3]) < 2:
        return np.full(len(images), np.nan)
    return np.array([_noise(image) for image in images])


def _noise(image: Pixels) -> float:
    from PIL import Image

    height, width = image.shape[:2]
    size, count = np.empty((height + 3) // 2 * ((width + 3) // 2)), 0
    lowest, highest = 255.0, 0.0
    # A strip of a large image at a time. Coefficient k of db2 is of the lines 2k − 2 … 2k + 1: a
    # strip begins two lines early, and its first coefficient, of the lines before, is left out.
    lines = max(2, _STRIP_PIXELS // width // 2 * 2)
    for top in range(0, height, lines):
        is_last = top + 2 * lines > height  # not a rest of a line
        stop = height if is_last else top + lines
        part = Image.fromarray(image[max(top - 2, 0) : stop]).convert("L")
        grey = np.asarray(part, dtype=np.float64)
        detail = _high_pass(_high_pass(grey.T).T)
        detail = detail[int(top > 0) : None if is_last else (stop - max(top - 2, 0)) // 2]
        nonzero = np.abs(detail[detail != 0.0])
        size[count : count + nonzero.size] = nonzero
        count += nonzero.size
        lowest, highest = min(lowest, grey.min()), max(highest, grey.max())
        if is_last:
            break
    # The coefficients of an image of one colour are 0 but for rounding.
    if count == 0 or lowest == highest:
        return 0.0
    return float(np.median(size[:count], overwrite_input=True)) / _NORMAL_QUARTILE / 255.0


def _high_pass(x_nm: Floats) -> Floats:
    """Compute Σ_j h_j x_{2k+1−j} for k = 0 … (n+1)//2, x mirrored beyond its first and last row."""
    x_nm = np.pad(x_nm, ((2, 3), (0, 0)), mode="symmetric")
    n_out = (len(x_nm) - 2) // 2
    detail_km = np.zeros((n_out, x_nm.shape[1]))
    for j, part in enumerate(_HIGH_PASS):
        detail_km += part * x_nm[3 - j :: 2][:n_out]
    return detail_km


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
