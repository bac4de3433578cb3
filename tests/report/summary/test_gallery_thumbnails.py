"""Any image becomes a small JPEG, or nothing; never an error."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unskew
from summary_pools import ListedImages
from unskew.report.summary.gallery import make_thumbnail


def thumbnail(raw: Any) -> str | None:
    frame = pd.DataFrame({"id": [0], "source": ["a"]})
    return make_thumbnail(unskew.Pool(frame, ListedImages([raw])), 0)


def decoded(uri: str | None) -> Any:
    assert uri is not None
    kind, data = uri.split(",", 1)
    assert kind == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    assert image.format == "JPEG"
    assert max(image.size) <= 96
    return np.asarray(image.convert("RGB")).astype(int)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, format=kind, **options)
    return written.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "LA", "CMYK", "I;16"])
def test_every_mode(mode: str) -> None:
    image = (
        Image.fromarray(np.linspace(0, 65535, 120 * 60).reshape(60, 120).astype(np.uint16))
        if mode == "I;16"
        else Image.new(mode, (120, 60))
    )
    kind = "TIFF" if mode in ("CMYK", "I;16") else "PNG"
    assert decoded(thumbnail(encoded(image, kind))).shape[:2] == (48, 96)


def test_depth_is_scaled_and_colour_kept() -> None:
    ramp = np.tile(np.linspace(0, 65535, 90), (90, 1)).astype(np.uint16)
    shown = decoded(thumbnail(ramp))
    assert shown[45, 2, 0] < 20
    assert shown[45, 88, 0] > 235
    red = decoded(thumbnail(np.full((30, 30, 3), [250, 5, 5], dtype=np.uint8)))
    assert red[15, 15] == pytest.approx([250, 5, 5], abs=12)
    assert decoded(thumbnail(np.full((30, 30, 1), 0.5)))[15, 15] == pytest.approx([128] * 3, abs=4)


def test_the_orientation_of_a_photograph_is_kept() -> None:
    image = Image.new("RGB", (80, 40))
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    assert decoded(thumbnail(encoded(image, "JPEG", exif=exif))).shape[:2] == (80, 40)


def test_an_animation_shows_its_first_picture() -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    shown = decoded(thumbnail(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])))
    assert shown[10, 10, 0] > 200


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"text called .jpg",
        np.zeros((0, 0, 3), np.uint8),
        np.zeros((2, 2, 7), np.uint8),
        "odd",
        None,
    ],
)
def test_what_is_no_image_has_no_picture(raw: Any) -> None:
    assert thumbnail(raw) is None


def test_truncated_and_gigantic_files_have_no_picture() -> None:
    whole = encoded(Image.effect_noise((400, 400), 50), "PNG")
    assert thumbnail(whole[: len(whole) // 3]) is None
    bomb = encoded(Image.new("1", (20_000, 20_000)), "PNG")
    assert thumbnail(bomb) is None


def test_without_pixels_there_is_no_picture() -> None:
    assert make_thumbnail(unskew.Pool.from_arrays(["a"]), 0) is None


def test_ghostscript_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PostScript program called x.jpg is no picture, whatever Pillow would do with it."""
    from PIL import EpsImagePlugin

    started: list[object] = []
    monkeypatch.setattr(
        EpsImagePlugin, "Ghostscript", lambda *given, **named: started.append(given)
    )
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n"
    assert thumbnail(program) is None
    assert not started


def test_the_formats_are_those_that_images_are_decoded_from() -> None:
    from unskew.report.summary.gallery import _FORMATS
    from unskew.represent.decode import FORMATS

    assert _FORMATS == FORMATS
