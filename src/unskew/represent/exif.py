"""What the camera wrote into the file: make, model, ISO, exposure, focal length, date.

The position (GPS) is read only when asked for.

Arrays, and files without EXIF, have none of it: NaN and None. Nothing else of the EXIF is read
(names of persons, serial numbers, notes).
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unskew.errors import wrong_option
from unskew.represent.base import Header, Needs, Representation, column_names

_MAKE, _MODEL, _DATE_TAKEN, _DATE_CHANGED = 0x010F, 0x0110, 0x9003, 0x0132
_ISO, _EXPOSURE, _FOCAL_LENGTH = 0x8827, 0x829A, 0x920A
_PARTS = ("make", "model", "iso", "exposure", "focal_length", "date", "year")
_GPS_PARTS = ("latitude", "longitude")


def exif_values(header: Header) -> dict[str, Any]:
    """Return what is known of one image.

    Returns
    -------
    dict with make, model (text); iso; exposure (seconds); focal_length (mm, of the lens, not 35 mm
    equivalent); date (text, 2019-06-12T10:11:12, camera's clock, when the picture was taken or else
    changed); year (the same as a decimal number, 2019.45).
    """
    tags = header.exif
    date = _date(tags.get(_DATE_TAKEN)) or _date(tags.get(_DATE_CHANGED))
    return {
        "make": _text(tags.get(_MAKE)),
        "model": _text(tags.get(_MODEL)),
        "iso": _number(tags.get(_ISO)),
        "exposure": _number(tags.get(_EXPOSURE)),
        "focal_length": _number(tags.get(_FOCAL_LENGTH)),
        "date": date.isoformat() if date else None,
        "year": _decimal_year(date) if date else math.nan,
    }


def gps_values(header: Header) -> dict[str, float]:
    """Return latitude and longitude in degrees, north and east positive; NaN where unknown."""
    return {
        "latitude": _degrees(header.gps, 1, 2, "S", 90.0),
        "longitude": _degrees(header.gps, 3, 4, "W", 180.0),
    }


@dataclass(frozen=True)
class Exif(Representation):
    """Camera and exposure from the EXIF of the file (`exif_values`).

    With ``gps`` also the position of the camera (`gps_values`).
    """

    name: ClassVar[str] = "exif"
    needs: ClassVar[Needs] = "header"
    gps: bool = False

    def __post_init__(self) -> None:
        if type(self.gps) is not bool:
            raise wrong_option("exif: gps is true or false", gps=self.gps)

    @property
    def columns(self) -> tuple[str, ...]:
        return column_names(self.name, _PARTS + (_GPS_PARTS if self.gps else ()))

    @property
    def text_columns(self) -> tuple[str, ...]:
        return column_names(self.name, ("make", "model", "date"))

    def compute(self, batch: Sequence[Header]) -> npt.NDArray[Any]:
        rows = [exif_values(header) | (gps_values(header) if self.gps else {}) for header in batch]
        return np.array([list(row.values()) for row in rows], dtype=object)


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    # Fixed-length fields are filled up with zeros and blanks; anything that does not print is
    # damage.
    text = "".join(
        letter for letter in str(value or "").split("\0")[0] if letter.isprintable()
    ).strip()
    return text[:200] or None


def _number(value: Any) -> float:
    if isinstance(value, tuple | list):  # ISO may come as a pair
        value = value[0] if value else None
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return math.nan
    return number if math.isfinite(number) and number > 0 else math.nan


def _date(value: Any) -> datetime | None:
    match = re.match(r"(\d{4}):(\d\d):(\d\d)[ T](\d\d):(\d\d):(\d\d)", _text(value) or "")
    try:
        return datetime(*(int(part) for part in match.groups())) if match else None  # type: ignore[arg-type]
    except ValueError:  # 0000:00:00 of a camera whose clock was never set
        return None


def _decimal_year(date: datetime) -> float:
    days = 366 if calendar.isleap(date.year) else 365
    return date.year + (date - datetime(date.year, 1, 1)).total_seconds() / (days * 86_400)


def _degrees(
    gps: Mapping[int, Any], side_tag: int, value_tag: int, negative: str, limit: float
) -> float:
    """Read degrees, minutes, seconds and the side (N, S, E, W)."""
    try:
        parts = [float(part) for part in gps[value_tag]]
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return math.nan
    total: float = sum(part / 60**power for power, part in enumerate(parts))
    if not math.isfinite(total) or not 0 <= total <= limit or not parts:
        return math.nan
    return -total if (_text(gps.get(side_tag)) or "").upper() == negative else total
