"""EXIF as cameras write it, and as they should not."""

import io
import math

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from raising import refused
from represent.picture_pools import encoded, pool_of, random_pixels
from unskew.errors import ConfigError
from unskew.represent.base import Header
from unskew.represent.exif import Exif, exif_values, gps_values
from unskew.represent.pool_features import represent_images


def _photo(kind: str = "JPEG", gps: bool = True) -> bytes:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110], exif[0x0132] = (
        "NIKON CORPORATION\0\0",
        "NIKON D750 ",
        "2020:01:01 00:00:00",
    )
    exif[0x013B] = "A Person"
    part = exif.get_ifd(0x8769)
    part[0x8827], part[0x829A], part[0x920A] = 400, IFDRational(1, 250), IFDRational(50, 1)
    part[0x9003], part[0xA431] = "2019:07:02 12:00:00", "serial number"
    if gps:
        place = exif.get_ifd(0x8825)
        place[1], place[2] = "S", (IFDRational(33, 1), IFDRational(51, 1), IFDRational(36, 1))
        place[3], place[4] = "E", (IFDRational(151, 1), IFDRational(12, 1), IFDRational(0, 1))
    return encoded(random_pixels(), kind, exif=exif)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_camera_exposure_and_date(kind: str) -> None:
    frame = represent_images(
        pool_of([_photo(kind), random_pixels(), encoded(random_pixels())]), "exif"
    ).frame
    assert list(frame.columns[3:]) == [
        f"exif_{part}"
        for part in ("make", "model", "iso", "exposure", "focal_length", "date", "year")
    ]
    first = frame.iloc[0]
    assert (first["exif_make"], first["exif_model"]) == ("NIKON CORPORATION", "NIKON D750")
    assert (first["exif_iso"], first["exif_exposure"], first["exif_focal_length"]) == (
        400.0,
        1 / 250,
        50.0,
    )
    assert first["exif_date"] == "2019-07-02T12:00:00"
    assert first["exif_year"] == 2019.5  # noon of 2 July is the middle of a year of 365 days
    assert frame.iloc[1:, 3:].isna().all(axis=None)
    assert frame["exif_iso"].dtype == np.float64


def test_nothing_personal_unless_asked() -> None:
    pool = pool_of([_photo()])
    plain = represent_images(pool, "exif").frame
    text = plain.to_csv()
    assert not any(word in text for word in ("Person", "serial", "-33", "151"))
    asked = represent_images(pool, {"name": "exif", "gps": True}).frame
    assert asked["exif_latitude"][0] == pytest.approx(-(33 + 51 / 60 + 36 / 3600))
    assert asked["exif_longitude"][0] == pytest.approx(151.2)


def test_a_cache_without_gps_does_not_hold_it(tmp_path: object) -> None:
    represent_images(pool_of([_photo()]), "exif", cache=tmp_path)
    for part in tmp_path.glob("exif-*/part-*.parquet"):
        assert pd.read_parquet(part).shape == (1, 8)


@pytest.mark.parametrize(
    ("tag", "value", "name", "expected"),
    [
        (0x8827, (800, 0), "iso", 800.0),
        (0x8827, "fast", "iso", math.nan),
        (0x8827, 0, "iso", math.nan),
        (0x829A, IFDRational(1, 0), "exposure", math.nan),
        (0x829A, -1.0, "exposure", math.nan),
        (0x010F, b"Canon\0garbage", "make", "Canon"),
        (0x010F, "\0\0", "make", None),
        (0x010F, "<script>\n\x07alert(1)", "make", "<script>alert(1)"),
        (0x9003, "0000:00:00 00:00:00", "date", None),
        (0x9003, "2019:02:30 10:00:00", "date", None),
        (0x9003, "yesterday", "date", None),
        (0x9003, 17, "date", None),
    ],
)
def test_odd_values_become_nothing_or_what_was_meant(
    tag: int, value: object, name: str, expected: object
) -> None:
    found = exif_values(Header(1, 1, "JPEG", {tag: value}))[name]
    assert found == expected or (
        isinstance(expected, float) and math.isnan(expected) and math.isnan(found)
    )


@pytest.mark.parametrize(
    "parts", [None, (), ("a", 1, 2), (400, 0, 0), (IFDRational(1, 0), 0, 0), 5]
)
def test_a_damaged_position_is_unknown(parts: object) -> None:
    values = gps_values(
        Header(1, 1, "JPEG", {}, {} if parts is None else {1: "N", 2: parts, 3: "W", 4: parts})
    )
    assert all(math.isnan(value) for value in values.values())


def test_gps_is_true_or_false() -> None:
    with refused(ConfigError, option="gps", value="yes"):
        Exif(gps="yes")  # type: ignore[arg-type]


def test_a_header_needs_no_pixels() -> None:
    """Of a file cut off behind its header, size and EXIF are still known."""
    photo = _photo()
    cut = photo[: photo.index(b"\xff\xda") + 20]
    with pytest.raises(OSError, match="truncated"):
        Image.open(io.BytesIO(cut)).load()
    frame = represent_images(pool_of([cut]), ["exif", "size"]).frame
    assert frame["exif_model"][0] == "NIKON D750"
    assert frame["size_width"][0] == 30.0
