"""A record as plain values and back: what `report.json` holds.

Every number is finite or None, rounded to ten digits (the weights are solved to about as many);
every text is valid Unicode without control characters, and of bounded length, so that neither a
strange file name nor a novel in a column can break or swell the page.
"""

from __future__ import annotations

import json
import math
import re
import types
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unskew.errors import DataError
from unskew.files.plain_json import json_text
from unskew.report.summary.record import Summary

_DIGITS = 10
_LONGEST_TEXT = 2_000
# Names stand in many places of a page. One that is cut ends in a checksum, so that names stay apart
# and the same name stays the same.
_LONGEST_NAME = 90
_NAMES = frozenset(
    {
        *(
            "name",
            "names",
            "components",
            "weakest_link",
            "source",
            "sources",
            "copies",
            "omega",
            "by",
            "by_source",
        ),
        *("column", "feature", "level", "levels", "stratum", "label", "worst_class"),
    }
)
# Tab and line feed are harmless; the other control characters and lone surrogates are not text.
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_PICTURE = re.compile(r"data:image/(?:jpeg|png|webp);base64,[A-Za-z0-9+/]+={0,2}")


def plain_value(value: Any, longest: int = _LONGEST_TEXT) -> Any:
    """The same record, mapping, sequence, number or text with plain values only; NaN and infinite
    numbers become None.
    """
    if is_dataclass(value) and not isinstance(value, type):
        limit = {
            each.name: _LONGEST_NAME if each.name in _NAMES else _LONGEST_TEXT
            for each in fields(value)
        }
        return type(value)(
            **{name: plain_value(getattr(value, name), longest) for name, longest in limit.items()}
        )
    if isinstance(value, Mapping):
        return {
            plain_text(str(key), longest): plain_value(each, longest) for key, each in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(plain_value(each, longest) for each in value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if _PICTURE.fullmatch(value) else plain_text(value, longest)
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return plain_value(value.tolist(), longest)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return rounded(value)
    return plain_text(str(value), longest)


def rounded(value: float | None, digits: int = _DIGITS) -> float | None:
    """``value`` to so many significant digits; None where it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits - 1}e}")


def plain_text(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Valid Unicode without control characters; where it is too long, cut and ending in a checksum
    of the whole.
    """
    if len(text) <= longest:
        return _NOT_TEXT.sub("\ufffd", text)
    checksum = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return _NOT_TEXT.sub("\ufffd", f"{text[: longest - 9]}…{checksum:08x}")


def summary_to_json(summary: Summary) -> str:
    """The text of `report.json`."""
    return json_text(plain_value(summary), indent=None)


def summary_from_json(text: str) -> Summary:
    """The summary that `summary_to_json` wrote; a text that holds no summary is an error that names
    the place.
    """
    try:
        read = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"this is no JSON ({error}). Pass the text of a report.json.") from error
    summary = _built(Summary, read, "summary")
    assert isinstance(summary, Summary)
    return summary


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _built(kind: Any, value: Any, place: str) -> Any:
    """``value`` as the annotation ``kind`` asks for: records from mappings, tuples from lists."""
    if kind is Any:
        return _frozen(value)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        rest = [each for each in args if each is not type(None)]
        return (
            _built(rest[0], value, place) if len(rest) == 1 else _checked(tuple(rest), value, place)
        )
    if origin is Literal:
        return (
            value if value in args else _wrong(place, f"one of {', '.join(map(str, args))}", value)
        )
    if origin is tuple:
        if not isinstance(value, list):
            return _wrong(place, "a list", value)
        each = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(each) != len(value):
            return _wrong(place, f"a list of {len(each)}", value)
        return tuple(
            _built(one, entry, f"{place}[{at}]")
            for at, (one, entry) in enumerate(zip(each, value, strict=True))
        )
    if origin is dict:
        if not isinstance(value, dict):
            return _wrong(place, "a mapping", value)
        return {key: _built(args[1], entry, f"{place}.{key}") for key, entry in value.items()}
    return _record(kind, value, place) if is_dataclass(kind) else _checked((kind,), value, place)


def _record(kind: Any, value: Any, place: str) -> Any:
    hints = _hints(kind)
    if not isinstance(value, dict) or not set(value) <= set(hints):
        return _wrong(place, f"the fields {', '.join(hints)}", value)
    built = {name: _built(hints[name], entry, f"{place}.{name}") for name, entry in value.items()}
    if isinstance(built.get("picture"), str) and not _PICTURE.fullmatch(built["picture"]):
        return _wrong(f"{place}.picture", "a picture as a data URI", built["picture"][:40])
    try:
        return kind(**built)
    except TypeError:
        return _wrong(place, f"all of the fields {', '.join(hints)}", sorted(built))


def _checked(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    accepted = (*kinds, int) if float in kinds else kinds
    if isinstance(value, bool) and bool not in kinds:
        return _wrong(place, " or ".join(kind.__name__ for kind in kinds), value)
    return (
        value
        if isinstance(value, accepted)
        else _wrong(place, " or ".join(kind.__name__ for kind in kinds), value)
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def _wrong(place: str, expected: str, value: Any) -> Any:
    raise DataError(
        f"this is no report.json of this version: {place} should be {expected}; got "
        f"{str(value)[:80]!r}."
    )
