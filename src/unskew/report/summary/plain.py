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
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from unskew.errors import DataError
from unskew.files.plain_json import json_text
from unskew.report.summary.record import Summary

_DIGITS = 10
_LONGEST_TEXT = 2_000
# A name appears many times on a page. One that is cut ends in a checksum, so that different names
# stay different, and the same name stays the same.
_LONGEST_NAME = 90
_NAMES = frozenset(
    {
        "by",
        "by_source",
        "column",
        "components",
        "copies",
        "feature",
        "label",
        "level",
        "levels",
        "name",
        "names",
        "odd_source",
        "omega",
        "source",
        "sources",
        "stratum",
        "weakest_link",
        "worst_class",
    }
)
# Tab and line feed are harmless; the other control characters and lone surrogates are not text.
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_PICTURE = re.compile(r"data:image/(?:jpeg|png|webp);base64,[A-Za-z0-9+/]+={0,2}")


def plain_value(value: Any, longest: int = _LONGEST_TEXT) -> Any:
    """Return the same record, mapping, sequence, number or text with plain values only.

    NaN and infinite numbers become None.
    """
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        limit = {name: _LONGEST_NAME if name in _NAMES else _LONGEST_TEXT for name in names}
        return type(value)(
            **{name: plain_value(getattr(value, name), limit[name]) for name in names}
        )
    if isinstance(value, Mapping):
        return {
            plain_text(str(key), longest): plain_value(entry, longest)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(plain_value(entry, longest) for entry in value)
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
    """Round to so many significant digits; None where ``value`` is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits - 1}e}")


def plain_text(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Return valid Unicode without control characters; a text cut short ends in its checksum."""
    if len(text) <= longest:
        return _NOT_TEXT.sub("\ufffd", text)
    checksum = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return _NOT_TEXT.sub("\ufffd", f"{text[: longest - 9]}…{checksum:08x}")


def summary_to_json(summary: Summary) -> str:
    """Return the text of `report.json`."""
    return json_text(plain_value(summary), indent=None)


def summary_from_json(text: str) -> Summary:
    """Read the summary that `summary_to_json` wrote; an error names the field that is wrong."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"this is not JSON ({error}). Pass the text of a report.json.",
            line=getattr(error, "lineno", None),
        ) from error
    summary = _built(Summary, read, "summary")
    assert isinstance(summary, Summary)
    return summary


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _built(kind: Any, value: Any, key: str) -> Any:
    """Build what the annotation ``kind`` asks for: records from mappings, tuples from lists."""
    if kind is Any:
        return _frozen(value)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        kinds = tuple(kind for kind in args if kind is not type(None))
        return _built(kinds[0], value, key) if len(kinds) == 1 else _checked(kinds, value, key)
    if origin is Literal:
        if value not in args:
            _refuse(key, f"one of {', '.join(map(str, args))}", value)
        return value
    if origin is tuple:
        return _built_tuple(args, value, key)
    if origin is dict:
        if not isinstance(value, dict):
            _refuse(key, "a mapping", value)
        return {name: _built(args[1], entry, f"{key}.{name}") for name, entry in value.items()}
    return _built_record(kind, value, key) if is_dataclass(kind) else _checked((kind,), value, key)


def _built_tuple(kinds: tuple[Any, ...], value: Any, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        _refuse(key, "a list", value)
    kinds = (kinds[0],) * len(value) if kinds[-1] is Ellipsis else kinds
    if len(kinds) != len(value):
        _refuse(key, f"a list of {len(kinds)}", value)
    return tuple(
        _built(kind, entry, f"{key}[{index}]")
        for index, (kind, entry) in enumerate(zip(kinds, value, strict=True))
    )


def _built_record(kind: Any, value: Any, key: str) -> Any:
    hints = _hints(kind)
    if not isinstance(value, dict) or not set(value) <= set(hints):
        _refuse(key, f"the fields {', '.join(hints)}", value)
    built = {name: _built(hints[name], entry, f"{key}.{name}") for name, entry in value.items()}
    if isinstance(built.get("picture"), str) and not _PICTURE.fullmatch(built["picture"]):
        _refuse(f"{key}.picture", "a picture as a data URI", built["picture"][:40])
    try:
        return kind(**built)
    except TypeError:
        _refuse(key, f"all of the fields {', '.join(hints)}", sorted(built))


def _checked(kinds: tuple[Any, ...], value: Any, key: str) -> Any:
    accepted = (*kinds, int) if float in kinds else kinds
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in kinds):
        _refuse(key, " or ".join(kind.__name__ for kind in kinds), value)
    return value


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(entry) for key, entry in value.items()}
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value


def _refuse(key: str, expected: str, value: Any) -> NoReturn:
    raise DataError(
        f"this is not a report.json of this version: {key} should be {expected}; got "
        f"{str(value)[:80]!r}.",
        key=key,
    )
