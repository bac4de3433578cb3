"""Any image in memory -> encoded bytes, or 8-bit numbers (height, width[, 1, 3 or 4])."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ImageError
from unskew.records.pool import RawImage, eight_bits

_CHANNELS = (1, 3, 4)
_ORIENTATION = 0x0112
# Pillow's modes -> the closest of the three that every stage knows. Sixteen bits are handled as
# numbers.
_CLOSEST_MODE = {
    "1": "L",
    "P": "RGBA",
    "PA": "RGBA",
    "LA": "RGBA",
    "La": "RGBA",
    "RGBa": "RGBA",
    "RGBX": "RGB",
}


def as_pixels(image: Any) -> RawImage:
    """Return bytes and 8-bit numbers unchanged, other images in their closest 8-bit form.

    Takes encoded bytes, NumPy arrays, tensors of torch (channels first), Pillow images, and the
    ``{"bytes", "path"}`` of Hugging Face; raises `ImageError` for anything else. Floating numbers
    are in [0, 1] and are multiplied by 255; of 16 bits the upper 8 are kept. Pillow images are
    turned upright by their EXIF, and what they declare transparent is. All as in
    `unskew.represent.decode`: an image has the same pixels as its file.
    """
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if isinstance(image, Mapping):
        return _stored(image)
    if hasattr(image, "convert") and hasattr(image, "getbands"):
        return _from_pillow(image)
    if hasattr(image, "detach"):
        return eight_bits(_channels_last(np.asarray(image.detach().cpu()), tensor=True))
    if image is None:
        raise ImageError("there is no image")
    array = np.asarray(image)
    if array.dtype == object:
        raise ImageError(f"not an image: {type(image).__name__}")
    return eight_bits(_channels_last(array, tensor=False))


def _stored(image: Mapping[str, Any]) -> bytes:
    from unskew.sources.files import FileImages

    if image.get("bytes"):
        return bytes(image["bytes"])
    if image.get("path"):
        return FileImages(".", [str(image["path"])]).read(0)
    raise ImageError("there is no image: neither bytes nor a path")


def _from_pillow(image: Any) -> npt.NDArray[np.uint8]:
    if image.width == 0 or image.height == 0:
        raise ImageError(f"the image has no pixels: {image.width} × {image.height}")
    try:
        return _pixels_of(_upright(image))
    except (OSError, ValueError, SyntaxError) as error:  # Pillow decodes only now
        if isinstance(error, ImageError):
            raise
        raise ImageError(f"the image cannot be decoded: {error}") from error


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    # A copy that was made in memory has no EXIF any more, nor the format that says how deep its
    # numbers are.
    return ImageOps.exif_transpose(image) if image.getexif().get(_ORIENTATION, 1) != 1 else image


def _pixels_of(image: Any) -> npt.NDArray[np.uint8]:
    if image.mode.startswith("I") or image.mode == "F":
        numbers = np.asarray(image)
        # Files of these formats hold 16 bits at most, and older Pillows open them with 32.
        return eight_bits(
            numbers.astype(np.uint16)
            if image.mode == "I" and image.format in ("PNG", "PPM")
            else numbers
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
    elif image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert(_CLOSEST_MODE.get(image.mode, "RGB"))
    return np.asarray(image, dtype=np.uint8)


def _channels_last(array: npt.NDArray[Any], tensor: bool) -> npt.NDArray[Any]:
    if array.ndim not in (2, 3):
        raise ImageError(
            f"an image has two dimensions, or three with channels; got shape {array.shape}"
        )
    if array.size == 0:
        raise ImageError(f"the image has no pixels: shape {array.shape}")
    if array.ndim == 2:
        return array
    first, last = array.shape[0] in _CHANNELS, array.shape[-1] in _CHANNELS
    if not first and not last:
        raise ImageError(f"an image has 1, 3 or 4 channels, first or last; got shape {array.shape}")
    # Where both could be: tensors have them first, arrays last.
    return np.moveaxis(array, 0, -1) if first and (tensor or not last) else array
