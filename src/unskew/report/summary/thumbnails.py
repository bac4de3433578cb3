"""Images as small pictures inside a page: data URIs that are made here and nowhere else."""

from __future__ import annotations

import base64
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.records import Pool

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDE = 96
_QUALITY = 70
# Larger images are not decoded for a thumbnail; the header tells their size before any pixel is
# read.
_MOST_PIXELS = 100_000_000
_MOST_BYTES = 200_000_000
# What databases of images hold, as in `unskew.represent.decode`: other formats would start other
# programs (EPS starts Ghostscript).
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "DIB", "QOI")

logger = logging.getLogger(__name__)


def make_thumbnail(pool: Pool, row: int) -> str | None:
    """Return the image of a row as a data URI of a JPEG of at most 96 × 96.

    None where there is no image, or it cannot be read.
    """
    if pool.images is None:
        return None
    try:
        with warnings.catch_warnings():
            # No warning about an odd file here: its first reader gave one.
            warnings.simplefilter("ignore")
            return _encoded(_opened(pool.images.read(row)))
    except Exception as error:  # a decoder raises whatever a broken file makes it raise
        logger.debug("no thumbnail of row %d: %s", row, error)
        return None


def _opened(raw: Any) -> Image:
    from PIL import Image, ImageOps

    if not isinstance(raw, bytes | bytearray | memoryview):
        return Image.fromarray(_eight_bits(np.asarray(raw)))
    if len(raw) > _MOST_BYTES:
        raise ValueError("too many bytes for a thumbnail")
    Image.init()
    image = Image.open(io.BytesIO(raw), formats=[name for name in _FORMATS if name in Image.OPEN])
    if image.width * image.height > _MOST_PIXELS:
        raise ValueError("too many pixels for a thumbnail")
    image.draft("RGB", (2 * _SIDE, 2 * _SIDE))
    if image.mode.startswith(("I", "F")):
        return Image.fromarray(_eight_bits(np.asarray(image)))
    return ImageOps.exif_transpose(image)


def _eight_bits(pixels: Any) -> Any:
    """Return (h, w) or (h, w, 3 or 4) of 0 … 255, whatever the depth.

    Numbers beyond 8 bits are scaled to their own range.
    """
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * 255
    number = np.nan_to_num(pixels.astype(np.float64))
    low, high = float(number.min()), float(number.max())
    if pixels.dtype.kind == "f" and low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    return np.round((number - low) * (255.0 / (high - low) if high > low else 0.0)).astype(np.uint8)


def _encoded(image: Image) -> str:
    from PIL import Image as Images

    image.thumbnail((_SIDE, _SIDE))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        # Transparent parts are shown on grey, which is neither of the two backgrounds of the page.
        image = Images.new("RGB", layer.size, (128, 128, 128))
        image.paste(layer, mask=layer.getchannel("A"))
    written = io.BytesIO()
    image.convert("RGB").save(written, format="JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(written.getvalue()).decode('ascii')}"
