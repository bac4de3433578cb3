"""Every image in memory becomes 8 bits, with the same pixels as its file."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unskew.errors import ImageError
from unskew.represent.decode import decode_image
from unskew.sources.pixels import as_pixels

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "I;16", "F"]
)
def test_every_mode_of_pillow_becomes_eight_bits(mode):
    grey = Image.fromarray(np.array([[0, 255], [255, 0]], dtype=np.uint8))
    if mode == "I;16":
        image = Image.fromarray(np.array([[0, 65535], [65535, 0]], dtype=np.uint16))
    elif mode == "F":
        image = Image.fromarray(np.array([[0, 1], [1, 0]], dtype=np.float32))
    elif mode in ("PA", "CMYK", "YCbCr", "HSV"):
        image = grey.convert("RGB").convert("P" if mode == "PA" else mode)
    else:
        image = grey.convert(mode)
    pixels = as_pixels(image)
    assert pixels.dtype == np.uint8
    light = pixels if pixels.ndim == 2 else pixels[..., 0]
    assert light.tolist() == [[0, 255], [255, 0]]


@given(
    st.sampled_from([np.uint8, np.int16, np.int64, np.uint16, np.float32, np.float64, np.bool_]),
    st.integers(0, 2**32 - 1),
)
def test_whatever_the_type_black_stays_black_and_white_white(dtype, seed):
    top = {np.uint16: 65535, np.float32: 1, np.float64: 1, np.bool_: 1}.get(dtype, 255)
    white = np.random.default_rng(seed).random((3, 4, 3)) < 0.5
    assert np.array_equal(as_pixels((white * top).astype(dtype)), white * np.uint8(255))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((2, 2, 2), np.uint8), "1, 3 or 4 channels"),
        (np.zeros(4, np.uint8), "two dimensions"),
        (np.zeros((0, 4), np.uint8), "no pixels"),
        (np.full((2, 2), -1.5), r"in \[0, 1\], but these are in \[-1.5"),
        (np.full((2, 2), np.nan), r"in \[0, 1\]"),
        (np.full((2, 2), 70000), "between 0 and 255"),
        (np.zeros((2, 2), complex), "pixels are numbers"),
        (None, "there is no image"),
        ({"bytes": None, "path": None}, "neither bytes nor a path"),
        (object(), "not an image: object"),
        (Image.new("L", (0, 3)), "no pixels: 0 × 3"),
    ],
)
def test_what_is_no_image(image, message):
    with pytest.raises(ImageError, match=message):
        as_pixels(image)


def _file(image, kind, **options):
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def _every_file():
    rng = np.random.default_rng(0)
    colour = Image.fromarray(rng.integers(0, 256, (6, 9, 3), dtype=np.uint8))
    deep = Image.fromarray(rng.integers(0, 65536, (6, 9), dtype=np.uint16))
    turned = Image.Exif()
    turned[0x0112] = 6
    return {
        "orientation": _file(colour, "JPEG", exif=turned),
        "16 bits": _file(deep, "PNG"),
        "16 bits, TIFF": _file(deep, "TIFF"),
        "16 bits, dark": _file(
            Image.fromarray(rng.integers(0, 200, (6, 9), dtype=np.uint16)), "PNG"
        ),
        "32 bits": _file(Image.fromarray(rng.integers(0, 256, (6, 9), dtype=np.int32)), "TIFF"),
        "transparent colour": _file(colour, "PNG", transparency=colour.getpixel((0, 0))),
        "transparent grey": _file(
            colour.convert("L"), "PNG", transparency=colour.convert("L").getpixel((0, 0))
        ),
        "transparent palette": _file(colour.convert("P"), "PNG", transparency=3),
        "alpha": _file(Image.fromarray(rng.integers(0, 256, (6, 9, 4), dtype=np.uint8)), "PNG"),
        "grey and alpha": _file(colour.convert("LA"), "PNG"),
        "CMYK": _file(colour.convert("CMYK"), "JPEG"),
        "animated": _file(
            colour, "GIF", save_all=True, append_images=[Image.new("RGB", colour.size)]
        ),
    }


@pytest.mark.parametrize("name", list(_every_file()))
def test_an_image_of_pillow_has_the_pixels_of_its_file(name):
    """A dataset that opens its files and a folder of the same files are the same images."""
    file = _every_file()[name]
    np.testing.assert_array_equal(
        decode_image(as_pixels(Image.open(io.BytesIO(file)))), decode_image(file)
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.int32, np.int64, np.float32])
def test_both_readers_of_arrays_agree(dtype):
    top = 1 if dtype == np.float32 else 200
    array = (np.random.default_rng(0).random((4, 5, 3)) * top).astype(dtype)
    np.testing.assert_array_equal(decode_image(as_pixels(array)), decode_image(array))
    assert decode_image(array).max() > 150 or dtype == np.uint16
