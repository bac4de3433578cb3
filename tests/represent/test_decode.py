"""Every kind of file either becomes the right pixels or says why not."""

import io
import struct
import tracemalloc
import warnings
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from represent.picture_pools import encoded, random_pixels, smooth_pixels
from unskew.errors import ImageError
from unskew.represent import decode
from unskew.represent.base import REDUCED_SIDE
from unskew.represent.decode import (
    FORMATS,
    Picture,
    decode_image,
    pillow_unlimited,
    reduce_images,
    reduction_factor,
)
from unskew.represent.square_pixels import Squares

PIXELS = random_pixels(20, 30)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "QOI"])
def test_lossless_files_give_the_pixels_that_went_in(kind: str) -> None:
    assert kind in FORMATS
    np.testing.assert_array_equal(decode_image(encoded(PIXELS, kind)), PIXELS)
    np.testing.assert_array_equal(decode_image(PIXELS), PIXELS)


def test_a_jpeg_is_what_pillow_decodes() -> None:
    file = encoded(smooth_pixels(50, 70), "JPEG", quality=90)
    np.testing.assert_array_equal(
        decode_image(file), np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    )


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_applied(orientation: int, kind: str) -> None:
    """Pillow's own exif_transpose is the oracle; header and reduced copies turn as well."""
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    file = encoded(smooth_pixels(160, 200), kind, exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB"))
    for header_first in (True, False):
        picture = Picture(file)
        header = picture.header if header_first else None
        np.testing.assert_array_equal(picture.pixels, expected)
        header = header or picture.header
        assert (header.height, header.width) == expected.shape[:2]
    assert picture.reduced(64).shape == ((80, 100, 3) if orientation < 5 else (100, 80, 3))
    np.testing.assert_allclose(
        picture.reduced(64).mean(axis=(0, 1)), expected.mean(axis=(0, 1)), atol=0.5
    )


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_an_impossible_orientation_is_none(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    np.testing.assert_array_equal(decode_image(encoded(PIXELS, exif=exif)), PIXELS)


def test_damaged_exif_neither_loses_the_image_nor_warns() -> None:
    pixels = smooth_pixels(60, 60)
    whole = encoded(pixels, "JPEG")
    for exif in (
        b"Exif\0\0garbage",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0\x01\0\0\0\x06",
    ):
        np.testing.assert_array_equal(
            decode_image(encoded(pixels, "JPEG", exif=exif)), decode_image(whole)
        )


def test_grey_palette_and_one_bit() -> None:
    grey = PIXELS[..., 0]
    np.testing.assert_array_equal(
        decode_image(encoded(grey)), np.repeat(grey[..., None], 3, axis=2)
    )
    np.testing.assert_array_equal(decode_image(grey), np.repeat(grey[..., None], 3, axis=2))
    np.testing.assert_array_equal(
        decode_image(grey[..., None]), np.repeat(grey[..., None], 3, axis=2)
    )
    palette = Image.fromarray(PIXELS).quantize(16)
    np.testing.assert_array_equal(
        decode_image(encoded(palette)), np.asarray(palette.convert("RGB"))
    )
    bits = grey > 127
    expected = np.repeat(np.where(bits, 255, 0)[..., None], 3, axis=2)
    np.testing.assert_array_equal(decode_image(encoded(Image.fromarray(bits))), expected)
    np.testing.assert_array_equal(decode_image(bits), expected)


def test_transparent_pixels_are_put_on_white() -> None:
    layer = np.dstack([PIXELS, np.tile(np.linspace(0, 255, 30).astype(np.uint8), (20, 1))])
    alpha = layer[..., 3:].astype(np.float64) / 255
    expected = PIXELS * alpha + 255 * (1 - alpha)
    for raw in (layer, encoded(layer), encoded(layer, "WEBP", lossless=True, exact=True)):
        assert np.abs(decode_image(raw) - expected).max() <= 1.0
    grey_alpha = Image.fromarray(layer).convert("LA")
    assert decode_image(encoded(grey_alpha))[0, 0].tolist() == [255, 255, 255]
    palette = Image.fromarray(PIXELS).quantize(8)
    first = decode_image(encoded(palette, transparency=palette.getpixel((0, 0))))
    assert first[0, 0].tolist() == [255, 255, 255]
    keyed = decode_image(encoded(PIXELS, transparency=tuple(int(v) for v in PIXELS[3, 4])))
    assert keyed[3, 4].tolist() == [255, 255, 255]
    assert keyed[0, 1].tolist() == PIXELS[0, 1].tolist()


def test_cmyk_is_converted() -> None:
    colour = Image.new("RGB", (16, 16), (200, 40, 90))
    file = encoded(colour.convert("CMYK"), "JPEG", quality=100)
    assert np.abs(decode_image(file).astype(int) - (200, 40, 90)).max() <= 3


def test_of_sixteen_bits_the_upper_eight_are_kept() -> None:
    deep = np.random.default_rng(0).integers(0, 65536, (9, 11), dtype=np.uint16)
    expected = np.repeat((deep >> 8).astype(np.uint8)[..., None], 3, axis=2)
    for raw in (
        deep,
        encoded(Image.fromarray(deep)),
        encoded(Image.fromarray(deep), "TIFF"),
        deep.astype(np.int32),
    ):
        np.testing.assert_array_equal(decode_image(raw), expected)
    # Colour with 16 bits, a form that Pillow reads and does not write.
    colour = np.random.default_rng(1).integers(0, 65536, (5, 7, 3), dtype=np.uint16)
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in colour)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 7, 5, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    )
    np.testing.assert_array_equal(decode_image(png), (colour >> 8).astype(np.uint8))


def test_floating_point_pixels_are_between_0_and_1() -> None:
    share = np.random.default_rng(0).random((6, 7, 3))
    np.testing.assert_array_equal(
        decode_image(share.astype(np.float32)),
        np.rint(share.astype(np.float32).astype(float) * 255),
    )
    for bad in (share * 255, share - 0.5, np.where(share > 0.9, np.nan, share)):
        with pytest.raises(ImageError, match=r"\[0, 1\]"):
            decode_image(bad)
    with pytest.raises(ImageError, match="65535"):
        decode_image(np.full((3, 3), -1))
    with pytest.raises(ImageError, match="not numbers"):
        decode_image(np.full((3, 3), "a"))


def test_of_an_animation_the_first_frame_is_taken() -> None:
    frames = [
        Image.new("RGB", (12, 10), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))
    ]
    for kind in ("GIF", "PNG", "TIFF", "WEBP"):
        options = {"lossless": True} if kind == "WEBP" else {}
        file = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert decode_image(file)[4, 4].tolist() == [255, 0, 0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
def test_a_truncated_file_is_an_image_error(kind: str) -> None:
    file = encoded(random_pixels(60, 60), kind)
    for share in (0.3, 0.6, 0.9):
        with pytest.raises(ImageError):
            decode_image(file[: int(len(file) * share)])


def test_reasons_say_what_is_wrong() -> None:
    jpeg = encoded(random_pixels(60, 60), "JPEG")
    reasons = {
        "the file is empty": b"",
        "the file is truncated": jpeg[: len(jpeg) // 2],
        "it is text": b"<!DOCTYPE html><p>404 Not Found \xc3\xa9",
        "no known format": bytes(range(256)),
        "shape": np.zeros((3, 3, 2), np.uint8),
        "has no pixels": np.zeros((0, 3, 3), np.uint8),
    }
    for reason, raw in reasons.items():
        with pytest.raises(ImageError, match=reason):
            decode_image(raw)


def test_an_image_without_width_is_an_image_error() -> None:
    bmp = bytearray(encoded(PIXELS, "BMP"))
    bmp[18:22] = struct.pack("<i", 0)
    with pytest.raises(ImageError):
        decode_image(bytes(bmp))


def test_ghostscript_is_never_started() -> None:
    with pytest.raises(ImageError, match="known format"):
        decode_image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")


def _bomb(width: int, height: int) -> bytes:
    """A few hundred bytes that claim to be a gigantic image."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(1000))),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    )


def test_a_decompression_bomb_is_refused_and_the_limit_can_be_raised() -> None:
    before = Image.MAX_IMAGE_PIXELS
    with pytest.raises(ImageError, match="max_pixels = 100,000,000"):
        decode_image(_bomb(100_000, 100_000))
    with pytest.raises(ImageError, match=r"20 × 30|30 × 20"):
        decode_image(PIXELS, max_pixels=599)
    np.testing.assert_array_equal(decode_image(PIXELS, max_pixels=600), PIXELS)
    np.testing.assert_array_equal(decode_image(encoded(PIXELS), max_pixels=None), PIXELS)
    # More than Pillow's own two limits: it neither warns nor refuses when ours allows it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pillow_unlimited():
            header = Picture(_bomb(20_000, 20_000), None).header
    assert (header.width, header.height) == (20_000, 20_000)
    assert before == Image.MAX_IMAGE_PIXELS


@given(
    st.binary(max_size=200),
    st.sampled_from(["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"]),
    st.integers(0, 400),
)
def test_damaged_bytes_never_raise_anything_else(noise: bytes, kind: str, at: int) -> None:
    file = bytearray(encoded(PIXELS, kind))
    file[at : at + len(noise)] = noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of damaged metadata
        with suppress(ImageError):
            pixels = decode_image(bytes(file), max_pixels=10_000_000)
            assert pixels.dtype == np.uint8
            assert pixels.ndim == 3


@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 80))
def test_the_factor_is_the_largest_power_of_two_that_leaves_the_side(
    width: int, height: int, side: int
) -> None:
    factor = reduction_factor(width, height, side)
    shorter = -(-min(width, height) // factor)
    assert factor & (factor - 1) == 0
    assert factor == 1 or shorter >= side
    assert -(-min(width, height) // (2 * factor)) < side
    assert reduction_factor(-(-width // factor), -(-height // factor), side) == 1


def test_a_reduced_pixel_is_the_mean_of_its_block() -> None:
    images = np.stack([smooth_pixels(256, 320, seed) for seed in range(2)])
    blocks = images.reshape(2, 64, 4, 80, 4, 3).mean(axis=(2, 4))
    assert np.abs(reduce_images(images) - blocks).max() <= 0.5
    np.testing.assert_array_equal(reduce_images(reduce_images(images)), reduce_images(images))
    odd = reduce_images(random_pixels(131, 200)[None], side=33)
    assert odd.shape == (1, 33, 50, 3)


def test_png_and_array_have_the_same_reduced_copy() -> None:
    pixels = smooth_pixels(300, 219)
    np.testing.assert_array_equal(
        decode_image(encoded(pixels), side=REDUCED_SIDE), decode_image(pixels, side=REDUCED_SIDE)
    )
    np.testing.assert_array_equal(decode_image(pixels, side=64), reduce_images(pixels[None])[0])


@pytest.mark.parametrize("subsampling", [0, 2])
@pytest.mark.parametrize("shape", [(512, 512), (1200, 1603), (1030, 520)])
def test_the_decoders_block_means_are_the_reduced_copy_up_to_rounding(
    shape: tuple[int, int], subsampling: int
) -> None:
    file = encoded(smooth_pixels(*shape), "JPEG", quality=92, subsampling=subsampling)
    drafted, averaged = decode_image(file, side=64), reduce_images(decode_image(file)[None])[0]
    assert drafted.shape == averaged.shape
    inner = np.abs(drafted.astype(int) - averaged)[:-1, :-1]
    assert inner.mean() < 1.0
    assert np.abs(drafted.mean(axis=(0, 1)) - averaged.mean(axis=(0, 1))).max() < 1.0


def test_a_jpeg_too_short_for_its_pixels_is_refused_before_it_is_decoded() -> None:
    """A file of 1 kB that claims 9,900 × 9,900 pixels; opened, it would reserve 900 MB."""
    raw = bytearray(encoded(smooth_pixels(64, 64), "JPEG"))
    at = raw.index(b"\xff\xc0") + 5
    raw[at : at + 4] = (9900).to_bytes(2, "big") * 2
    with pillow_unlimited(), pytest.raises(ImageError, match="truncated"):
        Picture(bytes(raw[:1000]))
    # The emptiest baseline image that there can be still passes.
    stream = io.BytesIO()
    Image.new("L", (4000, 4000)).save(stream, "JPEG", quality=1)
    assert Picture(stream.getvalue()).n_pixels == 16_000_000


def test_a_very_large_jpeg_is_read_reduced_where_a_small_copy_is_enough(monkeypatch) -> None:
    raw = encoded(smooth_pixels(900, 1200), "JPEG", quality=95)
    whole = Picture(raw).pixels
    assert Picture(raw).pixels_of(64).shape == whole.shape
    monkeypatch.setattr(decode, "_LARGE_PIXELS", 1_000_000)
    assert Picture(raw).pixels_of(None).shape == whole.shape
    for enough, scale in ((64, 8), (112, 8), (113, 4), (225, 4), (300, 2), (600, 1)):
        shape = Picture(raw).pixels_of(enough).shape
        assert shape == (-(-900 // scale), -(-1200 // scale), 3)
        assert min(shape[:2]) >= enough
    squares = Squares(16)
    assert squares.enough_side == 64
    small = squares.prepare(Picture(raw).pixels_of(64)).astype(float)
    # Means of blocks, resized: they differ from the pixels, resized, by the rounding of both and of
    # the window's edges.
    assert np.abs(small - squares.prepare(whole)).mean() < 2


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_large_image_is_copied_once(monkeypatch, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = encoded(random_pixels(301, 403), exif=exif)
    whole = decode_image(raw)
    monkeypatch.setattr(decode, "_STRIP_PIXELS", 5_000)
    tracemalloc.start()
    strips = decode_image(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(strips, whole)
    # Pillow's own memory is not counted; it made two copies more.
    assert peak < 1.5 * whole.nbytes


def test_a_limit_that_a_configuration_raised_does_not_unpack_a_bomb() -> None:
    """40,000 × 40,000 pixels of one bit are a file of some kilobytes, and 11 GB of memory."""
    header = struct.pack(">IIBBBBB", 40_000, 40_000, 1, 0, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(5001))))
    )
    with pytest.raises(ImageError, match="UNSKEW_MAX_UNPACKED"):
        decode_image(b"\x89PNG\r\n\x1a\n" + chunks, max_pixels=10**12)


def _turning(number: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


def _saved(mode: str, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (41, 60, 4), dtype=np.uint8)
    Image.fromarray(pixels, "RGBA").convert(mode).save(stream, kind, **options)
    return stream.getvalue()


ODD = [
    *(_saved(mode, "PNG") for mode in ("RGBA", "LA", "L", "P", "1")),
    _saved("RGB", "PNG", transparency=(0, 0, 0)),
    *(_saved(mode, "JPEG") for mode in ("CMYK", "RGB")),
    *(_saved("RGB", "JPEG", exif=_turning(number)) for number in range(1, 9)),
]


@pytest.mark.parametrize("raw", ODD)
def test_a_large_image_is_decoded_in_strips_and_gives_the_same(raw: bytes, monkeypatch) -> None:
    whole, small = Picture(raw).pixels, Picture(raw).reduced(8)
    monkeypatch.setattr(decode, "_STRIP_PIXELS", 7 * 60)
    monkeypatch.setattr(decode, "_LARGE_PIXELS", 7 * 60)
    picture = Picture(raw)
    np.testing.assert_array_equal(picture.pixels, whole)
    # What the decoder held has been given up, and is there again.
    np.testing.assert_array_equal(picture.reduced(8), small)
    assert min(picture.pixels_of(20).shape[:2]) in (20, 21)


def test_a_progressive_jpeg_counts_for_what_its_decoder_keeps() -> None:
    plain, progressive = (
        Picture(encoded(smooth_pixels(70, 70), "JPEG", progressive=kind)) for kind in (False, True)
    )
    assert (plain.pixels_held, progressive.pixels_held) == (4900, 9100)
