"""Writes TOML that the standard library reads back as the same values: it has no writer itself."""

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
    r"""Write text in quotes, whatever it contains.

    >>> print(toml_string('a "quoted" name\nin two lines'))
    "a \"quoted\" name\nin two lines"
    """
    # Control characters would break the file, and those that turn the writing direction would
    # deceive its reader.
    characters = [
        _SHORT.get(character) or (character if character.isprintable() else _escaped(character))
        for character in text
    ]
    return f'"{"".join(characters)}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise ConfigError(
            f"a configuration is UTF-8 text, which cannot contain {character!r} (part of a file "
            "name that is not UTF-8). Rename the file or folder.",
            value=ascii(character),
        )
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def toml_key(key: str) -> str:
    """Write a key: bare where that is possible, else in quotes.

    >>> print(toml_key("north"), toml_key("north.west"), toml_key(""))
    north "north.west" ""
    """
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def toml_value(value: Any) -> str:
    """Write a value on one line; tables are inline, and entries of None are left out.

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
        return "[" + ", ".join(toml_value(element) for element in value) + "]"
    if isinstance(value, Mapping):
        pairs = ", ".join(
            f"{toml_key(str(key))} = {toml_value(entry)}"
            for key, entry in value.items()
            if entry is not None
        )
        return f"{{ {pairs} }}" if pairs else "{}"
    raise ConfigError(
        "a configuration contains text, numbers, truth values, dates, lists and tables; got "
        f"{type(value).__name__} {value!r}.",
        value=repr(value),
    )


def toml_document(settings: Mapping[str, Any]) -> str:
    """Write a file: single values, then a section for each table and for each in a list of tables.

    The same settings always give the same bytes.

    >>> settings = {"folder": "..", "bias": {"family": "strata", "by": ["label"]}}
    >>> print(toml_document(settings), end="")
    folder = ".."
    <BLANKLINE>
    [bias]
    family = "strata"
    by = ["label"]
    """
    present = {key: value for key, value in settings.items() if value is not None}
    single = {key: value for key, value in present.items() if not isinstance(value, Mapping)}
    sections = {key: value for key, value in present.items() if isinstance(value, Mapping)}
    blocks = ["".join(_line(key, value) for key, value in single.items())] if single else []
    return "\n".join(
        [*blocks, *(_section(toml_key(key), value) for key, value in sections.items())]
    )


def _line(key: str, value: Any) -> str:
    return f"{toml_key(str(key))} = {toml_value(value)}\n"


def _section(header: str, table: Mapping[str, Any]) -> str:
    present = {key: value for key, value in table.items() if value is not None}
    tables = {
        key: value
        for key, value in present.items()
        if isinstance(value, list | tuple) and value and _all_tables(value)
    }
    text = f"[{header}]\n" + "".join(
        _line(key, value) for key, value in present.items() if key not in tables
    )
    for key, elements in tables.items():
        for element in elements:
            text += f"\n[[{header}.{toml_key(key)}]]\n" + "".join(
                _line(name, value) for name, value in element.items() if value is not None
            )
    return text


def _all_tables(values: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(value, Mapping) for value in values)
