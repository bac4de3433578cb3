"""Values -> TOML text that the standard library reads back as the same values; the library has a
parser and no writer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from unskew.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def toml_string(text: str) -> str:
    r"""Text in quotes, whatever it holds.

    >>> print(toml_string('a "quoted" name\nin two lines'))
    "a \"quoted\" name\nin two lines"
    """
    # Control characters would break the file, and those that turn the writing direction would
    # deceive its reader.
    return (
        '"'
        + "".join(
            _SHORT.get(each, each) if each in _SHORT or each.isprintable() else _escaped(each)
            for each in text
        )
        + '"'
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise ConfigError(
            f"a configuration is UTF-8 text, which cannot hold the name part {character!r} (a "
            "file name that is not UTF-8, as read from this system). Rename the file or folder."
        )
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def toml_key(key: str) -> str:
    """A key as TOML writes it: bare where that is possible, else in quotes.

    >>> print(toml_key("north"), toml_key("north.west"), toml_key(""))
    north "north.west" ""
    """
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def toml_value(value: Any) -> str:
    """A value on one line; tables within it are inline, and what is None in a table is left out.

    >>> print(toml_value({"by": ["label", "light"], "n": 400, "share": 0.5, "keep": True}))
    { by = ["label", "light"], n = 400, share = 0.5, keep = true }
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(each) for each in value) + "]"
    if isinstance(value, Mapping):
        pairs = ", ".join(
            f"{toml_key(str(key))} = {toml_value(each)}"
            for key, each in value.items()
            if each is not None
        )
        return f"{{ {pairs} }}" if pairs else "{}"
    raise ConfigError(
        "a configuration holds text, numbers, truth values, dates, lists and tables; got "
        f"{type(value).__name__} {value!r}."
    )


def toml_document(settings: Mapping[str, Any]) -> str:
    """A whole file: single values first, then one section for each table; lists of tables as
    sections of their own.

    The same settings always give the same bytes.

    >>> settings = {"folder": "..", "bias": {"family": "strata", "by": ["label"]}}
    >>> print(toml_document(settings), end="")
    folder = ".."
    <BLANKLINE>
    [bias]
    family = "strata"
    by = ["label"]
    """
    given = {key: value for key, value in settings.items() if value is not None}
    single = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    sections = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    blocks = ["".join(_line(key, value) for key, value in single.items())] if single else []
    return "\n".join(
        [*blocks, *(_section(toml_key(key), value) for key, value in sections.items())]
    )


def _line(key: str, value: Any) -> str:
    return f"{toml_key(str(key))} = {toml_value(value)}\n"


def _section(header: str, table: Mapping[str, Any]) -> str:
    given = {key: value for key, value in table.items() if value is not None}
    tables = {
        key: value
        for key, value in given.items()
        if isinstance(value, list | tuple) and value and _all_tables(value)
    }
    text = f"[{header}]\n" + "".join(
        _line(key, value) for key, value in given.items() if key not in tables
    )
    for key, elements in tables.items():
        for each in elements:
            text += f"\n[[{header}.{toml_key(key)}]]\n" + "".join(
                _line(name, value) for name, value in each.items() if value is not None
            )
    return text


def _all_tables(values: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(each, Mapping) for each in values)
