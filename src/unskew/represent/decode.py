"""The bytes of a file, or an array -> pixels: upright, RGB, 8 bits, in full or reduced.

- EXIF orientation is applied. Colour profiles are not.
- Grey becomes R = G = B; palettes are looked up; CMYK is converted by Pillow (R = (1 − C)(1 − K)
  …).
- Transparent pixels are put on white.
- Of 16 bits the upper 8 are kept (whole numbers of another type than uint16 are 8 bits deep if none
  is above 255); floating-point pixels must be in [0, 1] and are multiplied by 255.
- Of an animation or a file with several pages the first image is used.
"""

from __future__ import annotations

import io
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Amount, ReducedSide, checked
from unskew.errors import ImageError, UnskewError, wrong_option
from unskew.files.reading import LIMIT_VARIABLE, unpacked_limit
from unskew.records.pool import RawImage, eight_bits
from unskew.represent.base import REDUCED_SIDE, Header, Pixels

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_LOG = logging.getLogger(__name__)
# 10,000 × 10,000: three times the largest sensor on sale; decoded, such an image takes 400 MB.
MAX_PIXELS = 100_000_000
# What databases of images hold. Pillow knows more (EPS would start Ghostscript), but those are
# unsafe on files of unknown origin.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "DIB", "QOI")
# The decoder of JPEG gives the mean of every 8 × 8 block by itself, without decoding the rest. At
# 1/2 and 1/4 it saves little.
_JPEG_FACTOR = 8
# Larger ones, which few cameras make, are read reduced where a small copy is wanted.
_LARGE_PIXELS = 25_000_000
_STRIP_PIXELS = 2_000_000
# 4 in Pillow, and 3 as an array.
_BYTES_PER_PIXEL = 7
# Coefficients of all blocks, which the decoder keeps, however small the copy that it is to make.
_PROGRESSIVE_BYTES = 6
# A block of 8 × 8 pixels takes a bit at the least: a shorter file ends before its pixels do.
_JPEG_PIXELS_PER_BYTE = 8 * 64
_ORIENTATION, _EXIF_PART, _GPS_PART = 0x0112, 0x8769, 0x8825
# EXIF orientation -> steps along the lines and columns of the upright image, and whether the
# camera's lines are its columns.
_UPRIGHT = {
    **{2: (1, -1, False), 3: (-1, -1, False), 4: (-1, 1, False)},
    **{5: (1, 1, True), 6: (1, -1, True), 7: (-1, -1, True), 8: (-1, 1, True)},
}


@checked
def decode_image(
    raw: RawImage,
    *,
    side: ReducedSide | None = None,
    max_pixels: Amount | None = MAX_PIXELS,
) -> Pixels:
    """Decode the bytes of a file, or an array, into pixels (h, w, 3).

    Parameters
    ----------
    raw : bytes of an encoded image; or (h, w), (h, w, 1), (h, w, 3) or (h, w, 4) of uint8, uint16,
        bool, or floats in [0, 1].
    side : reduce to a copy whose shorter side has at least this many pixels (`reduce_images`);
        None: the whole image.
    max_pixels : larger images are refused before they are decoded; None: no limit.

    Raises
    ------
    ImageError : the image cannot be used; the message says why.
    """
    with pillow_unlimited(), reasons():
        picture = Picture(raw, max_pixels)
        return picture.pixels if side is None else picture.reduced(side)


def reduce_images(images: Pixels, side: int = REDUCED_SIDE) -> Pixels:
    """Reduce images (n, h, w, 3) to copies whose shorter side has at least ``side`` pixels.

    Every pixel is the mean of f × f pixels (of fewer at the right and lower edge), rounded; f is
    the largest power of two with ⌈min(h, w)/f⌉ ≥ ``side``. Images that are small already stay as
    they are, so reducing twice changes nothing.
    """
    from PIL import Image

    factor = reduction_factor(images.shape[2], images.shape[1], side)
    if factor == 1:
        return images
    return np.stack([np.asarray(Image.fromarray(image).reduce(factor)) for image in images])


def reduction_factor(width: int, height: int, side: int) -> int:
    """Return the largest power of two f with ⌈min(width, height)/f⌉ ≥ side; 1 for small images."""
    if side < 2:
        raise wrong_option(
            "the side of a reduced copy is a whole number of at least 2 pixels", side=side
        )
    factor = 1
    while -(-min(width, height) // (2 * factor)) >= side:
        factor *= 2
    return factor


class Picture:
    """One image, opened; header, pixels and reduced copies are read when they are asked for.

    Used within `reasons`: damaged files make Pillow raise nearly anything.
    """

    def __init__(self, raw: RawImage, max_pixels: int | None = MAX_PIXELS) -> None:
        self._raw = raw
        self._reduced: dict[int, Pixels] = {}
        if isinstance(raw, np.ndarray):
            self._array: Pixels | None = _array_pixels(raw, max_pixels)
            self._size: tuple[int, int] = (self._array.shape[1], self._array.shape[0])
        else:
            self._array = None
            self._image = open_image(raw)
            self._size = self._image.size
            _check_size(*self._size, max_pixels)
            _check_unpacked(*self._size, len(raw), max_pixels)
            self._check_bytes(len(raw))

    def _check_bytes(self, count: int) -> None:
        """Refuse, before memory is reserved, a JPEG too short for a quarter of its pixels."""
        if self._is_jpeg and self.n_pixels > 4 * _JPEG_PIXELS_PER_BYTE * count:
            raise ImageError(
                f"the file is truncated ({count:,} bytes cannot hold {self._size[0]} × "
                f"{self._size[1]} pixels)"
            )

    @property
    def _is_jpeg(self) -> bool:
        return self._array is None and self._image.format in ("JPEG", "MPO")

    @property
    def n_pixels(self) -> int:
        """Width times height."""
        return self._size[0] * self._size[1]

    @property
    def pixels_held(self) -> int:
        """How many pixels of other images take as much memory while this one is decoded."""
        if not self._is_jpeg or not self._image.info.get("progressive"):
            return self.n_pixels
        return self.n_pixels * (_PROGRESSIVE_BYTES + _BYTES_PER_PIXEL) // _BYTES_PER_PIXEL

    @cached_property
    def header(self) -> Header:
        """Size and EXIF."""
        width, height = self._size
        if self._array is not None:
            return Header(width, height)
        tags, gps = self._exif
        if self._orientation >= 5:
            width, height = height, width
        return Header(width, height, self._image.format, tags, gps)

    @cached_property
    def pixels(self) -> Pixels:
        """The whole image, (h, w, 3)."""
        if self._array is not None:
            return self._array
        pixels = self._turned(self._full)
        if self.n_pixels > _STRIP_PIXELS:
            del self._full
        return pixels

    def pixels_of(self, enough: int | None) -> Pixels:
        """Return the whole image, or of a very large one a reduced copy; a JPEG is read reduced.

        Its shorter side has at least ``enough`` pixels; None: always the whole.
        """
        if enough is None or self._array is not None or self.n_pixels <= _LARGE_PIXELS:
            return self.pixels
        shorter = min(self._size)
        if not self._is_jpeg:
            return self._turned(self._full.reduce(reduction_factor(*self._size, max(2, enough))))
        copy = open_image(self._raw)  # type: ignore[arg-type]
        width, height = (-(-length * enough // shorter) for length in self._size)
        copy.draft(None, (width, height))
        return self._turned(_as_rgb(copy))

    def reduced(self, side: int) -> Pixels:
        """Return the reduced copy of `reduce_images`.

        A JPEG file reduced eightfold or more is read from the block means that it holds.
        """
        factor = reduction_factor(*self._size, side)
        if factor == 1:
            return self.pixels
        if side not in self._reduced:
            self._reduced[side] = self._reduce(side, factor)
        return self._reduced[side]

    def _reduce(self, side: int, factor: int) -> Pixels:
        if self._array is not None:
            small: Pixels = reduce_images(self._array[None], side)[0]
            return small
        if factor >= _JPEG_FACTOR and self._is_jpeg:
            copy = open_image(self._raw)  # type: ignore[arg-type]
            copy.draft(None, (self._size[0] // _JPEG_FACTOR, self._size[1] // _JPEG_FACTOR))
            drafted = self._size[0] > copy.size[0]
            copy = _as_rgb(copy)
            factor //= _JPEG_FACTOR if drafted else 1
        else:
            copy = self._full
        return self._turned(copy.reduce(factor) if factor > 1 else copy)

    @cached_property
    def _full(self) -> PillowImage:
        image = self._image
        if self.n_pixels > _STRIP_PIXELS:
            # What is opened again holds no pixels, and tells the same about the file.
            self._image = open_image(self._raw)  # type: ignore[arg-type]
        return _as_rgb(image)

    def _turned(self, image: PillowImage) -> Pixels:
        """Copy an RGB image upright to (h, w, 3), in strips: Pillow would hold it three times."""
        width, height = image.size
        lines, columns, swapped = _UPRIGHT.get(self._orientation, (1, 1, False))
        upright = np.empty((width, height, 3) if swapped else (height, width, 3), dtype=np.uint8)
        lying = upright[::lines, ::columns]
        lying = lying.swapaxes(0, 1) if swapped else lying
        for top, strip in _strips(image):
            lying[top : top + strip.height] = np.asarray(strip)
        return upright

    @cached_property
    def _exif(self) -> tuple[Mapping[int, Any], Mapping[int, Any]]:
        if not self._may_have_exif():
            return {}, {}
        try:
            exif = self._image.getexif()
            return {**exif, **exif.get_ifd(_EXIF_PART)}, dict(exif.get_ifd(_GPS_PART))
        # Damaged EXIF, which raises nearly anything, is no reason to lose the image.
        except Exception as error:
            _LOG.debug("EXIF cannot be read: %s", error)
            return {}, {}

    def _may_have_exif(self) -> bool:
        """Search the bytes of a PNG for EXIF; Pillow would decode it all, as EXIF may come last."""
        info, raw = self._image.info, self._raw
        if "exif" in info or "xmp" in info or self._image.format == "TIFF":
            return True
        return self._image.format == "PNG" and any(
            mark in raw for mark in (b"eXIf", b"Raw profile type", b"tiff:Orientation")
        )

    @cached_property
    def _orientation(self) -> int:
        # Pillow turns TIFF images upright by itself, size and pixels.
        if self._image.format == "TIFF":
            return 1
        try:
            return int(self._exif[0].get(_ORIENTATION, 1))
        except (TypeError, ValueError):
            return 1


@contextmanager
def pillow_unlimited() -> Iterator[None]:
    """Keep Pillow from refusing large images, which have a limit of ours, and from warnings.

    Both are settings of the whole process; they are put back when the last of several blocks
    (threads) ends.
    """
    from PIL import Image

    with _LIMIT.lock:
        if _LIMIT.holders == 0:
            _LIMIT.before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            _LIMIT.quiet.__enter__()
            warnings.filterwarnings("ignore", module=r"PIL\.")
            # All formats are loaded here, once, not by several threads at the same time.
            Image.init()
        _LIMIT.holders += 1
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.holders -= 1
            if _LIMIT.holders == 0:
                Image.MAX_IMAGE_PIXELS = _LIMIT.before
                _LIMIT.quiet.__exit__(None, None, None)
                _LIMIT.quiet = warnings.catch_warnings()


class _Limit:
    lock = threading.Lock()
    holders = 0
    before: int | None = None
    quiet = warnings.catch_warnings()


_LIMIT = _Limit()


@contextmanager
def reasons() -> Iterator[None]:
    """Turn whatever is raised while a file is decoded into an `ImageError` with the reason."""
    try:
        yield
    except UnskewError:
        raise
    except MemoryError as error:
        raise ImageError("there is not enough memory to decode it") from error
    except Exception as error:
        text = str(error) or type(error).__name__
        if "truncated" in text or "unexpected end" in text.lower():
            raise ImageError(f"the file is truncated ({text})") from error
        raise ImageError(f"cannot be decoded ({type(error).__name__}: {text[:200]})") from error


def open_image(raw: bytes) -> PillowImage:
    """Open an image of a format that databases hold; others may start programs (Ghostscript)."""
    from PIL import Image, UnidentifiedImageError

    if len(raw) == 0:
        raise ImageError("the file is empty")
    try:
        # Not every Pillow was built with all of them; a JPEG with several pictures calls itself MPO
        # and opens as JPEG.
        return Image.open(io.BytesIO(raw), formats=[name for name in FORMATS if name in Image.OPEN])
    except UnidentifiedImageError as error:
        kind = "it is text" if _is_text(raw[:512]) else f"known formats: {', '.join(FORMATS)}"
        raise ImageError(f"not an image, or of no known format ({kind})") from error


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode("utf-8", errors="strict")
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter.isspace() for letter in text)


def _check_size(width: int, height: int, max_pixels: int | None) -> None:
    if width < 1 or height < 1:
        raise ImageError(f"has no pixels ({width} × {height})")
    if max_pixels is not None and width * height > max_pixels:
        raise ImageError(
            f"{width} × {height} = {width * height:,} pixels, more than max_pixels = "
            f"{max_pixels:,}: a decompression bomb, or a large image for which max_pixels can be "
            "raised"
        )


def _check_unpacked(width: int, height: int, count: int, max_pixels: int | None) -> None:
    """Refuse what a small file may not unpack to, even where a configuration raised the limit."""
    limit = unpacked_limit(count)
    if max_pixels is not None and _BYTES_PER_PIXEL * width * height > limit:
        raise ImageError(
            f"{width} × {height} pixels of a file of {count:,} bytes would take more than "
            f"{limit:,} bytes of memory; the environment variable {LIMIT_VARIABLE} sets another "
            "limit"
        )


def _as_rgb(image: PillowImage) -> PillowImage:
    from PIL import Image

    image.load()
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith(("I", "F")):
        numbers = np.asarray(image)
        # Files of these formats hold 16 bits at most, and older Pillows open them with 32.
        deep = image.mode == "I" and image.format in ("PNG", "PPM")
        eight = eight_bits(numbers.astype(np.uint16) if deep else numbers)
        return Image.fromarray(eight).convert("RGB")
    rgb = Image.new("RGB", image.size)
    for top, strip in _strips(image):
        if strip.has_transparency_data:
            layer = strip.convert("RGBA")
            strip = Image.new("RGBA", layer.size, (255, 255, 255, 255))
            strip.alpha_composite(layer)
        rgb.paste(strip.convert("RGB"), (0, top))
    return rgb


def _strips(image: PillowImage) -> Iterator[tuple[int, PillowImage]]:
    """Yield an image from top to bottom in parts of a few million pixels: (first line, part)."""
    width, height = image.size
    lines = max(1, _STRIP_PIXELS // width)
    if height <= lines:
        yield 0, image
        return
    for top in range(0, height, lines):
        yield top, image.crop((0, top, width, min(height, top + lines)))


def _array_pixels(array: npt.NDArray[Any], max_pixels: int | None) -> Pixels:
    """Turn (h, w), (h, w, 1), (h, w, 3) or (h, w, 4) of any usual type into (h, w, 3) uint8."""
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or channels not in (1, 3, 4):
        raise ImageError(
            f"an array of shape {array.shape} is not an image: (height, width), or (height, width, "
            "1, 3 or 4)"
        )
    _check_size(array.shape[1], array.shape[0], max_pixels)
    eight = eight_bits(array.reshape(*array.shape[:2], channels))
    if channels == 3:
        return eight
    if channels == 1:
        return np.repeat(eight, 3, axis=2)
    from PIL import Image

    return np.asarray(_as_rgb(Image.fromarray(eight, "RGBA")))
