"""Plain JSON: values that JSON can hold, as text and as files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from unskew.files.atomic import write_text


def json_value(value: Any) -> Any:
    """Return ``value`` as JSON can hold it.

    Records and mappings become dicts with text keys, tuples and arrays become lists, NumPy's
    scalars become Python's, and numbers that are not finite become None. Anything else is returned
    unchanged.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return json_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return ``value`` as JSON; ``indent`` None writes it without spaces, on one line."""
    return json.dumps(
        json_value(value),
        indent=indent,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":") if indent is None else None,
    )


def write_json(path: str | os.PathLike[str], record: Any) -> None:
    """Write a record as indented JSON, atomically."""
    write_text(path, json_text(record) + "\n")
