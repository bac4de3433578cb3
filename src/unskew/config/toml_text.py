"""TOML as text: the line of every key, and values written as TOML."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

from unskew.errors import ConfigError, InvalidConfigError, UnskewError, did_you_mean, first_few
from unskew.files.reading import check_regular

_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_DOTTED = re.compile(r"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){100}")
# Keys from the top down; a number is the index in an array: ("bias", "factors", 1, "family").
KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"[ \t]*")
# A configuration of a thousand sources has 100,000 characters.
_LONGEST = 10_000_000
_BLANK_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL_STRING = re.compile(r"'[^'\n]*'")
# A text in three quotes may end in one or two quotes of its own.
_LONG_BASIC_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")', re.DOTALL)
_LONG_LITERAL_STRING = re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL)
_BARE_VALUE = re.compile(r"[^,\]}#\n]*")


class TomlPosition(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def locate_keys(text: str) -> dict[KeyPath, TomlPosition]:
    r"""Find where every key, table and element of an array begins; the text must be valid TOML.

    A table that has a header begins there; one that only dotted keys or the headers of its parts
    mention, at the first of them.

    Examples
    --------
    >>> positions = locate_keys('[target]\nunit = "group"\nmargins.label = {cat = 1}')
    >>> positions["target", "unit"].line, positions["target", "margins", "label", "cat"]
    (2, TomlPosition(line=3, column=18))
    """
    reader = _Reader(text.replace("\r\n", "\n"))
    reader.read_document()
    return {path: reader.position(at) for path, at in (reader.implied | reader.named).items()}


def nearest_position(
    positions: Mapping[KeyPath, TomlPosition], path: KeyPath
) -> TomlPosition | None:
    """Find the position of a key, or of the closest table above it; None if the text has none."""
    for length in range(len(path), 0, -1):
        if path[:length] in positions:
            return positions[path[:length]]
    return None


class _Reader:
    """Reads once from left to right; ``at`` is the next character."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.named: dict[KeyPath, int] = {}
        self.implied: dict[KeyPath, int] = {}
        # Number of elements, so far, of every array of tables.
        self.count: dict[KeyPath, int] = {}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def position(self, at: int) -> TomlPosition:
        from bisect import bisect_right

        line = bisect_right(self._starts, at)
        return TomlPosition(line, at - self._starts[line - 1] + 1)

    def read_document(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK_LINES)
        while self.at < len(self.text):
            start = self.at
            if self._accept("[["):
                table = self._array_element(self._read_keys(), start)
                self._accept("]]")
            elif self._accept("["):
                table = self._within_last(tuple(key for key, _ in self._read_keys()))
                self._note(table, start)
                self._accept("]")
            else:
                self._read_pair(table)
            self._skip(_BLANK_LINES)

    def _array_element(self, keys: list[tuple[str, int]], start: int) -> KeyPath:
        path = (*self._within_last(tuple(key for key, _ in keys[:-1])), keys[-1][0])
        number = self.count.get(path, 0)
        self.count[path] = number + 1
        if not number:
            self._note(path, start)
        self._note((*path, number), start)
        return (*path, number)

    def _within_last(self, keys: tuple[str, ...]) -> KeyPath:
        """Find the path that a header means: an array of tables means its last element."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self.count:
                path = (*path, self.count[path] - 1)
        return path

    def _note(self, path: KeyPath, at: int) -> None:
        self.named[path] = at
        for length in range(1, len(path)):
            self.implied.setdefault(path[:length], at)

    def _read_pair(self, table: KeyPath) -> None:
        path = table
        for key, at in self._read_keys():
            path = (*path, key)
            # A table that several dotted keys fill begins at the first of them.
            self.implied.setdefault(path, at)
        self.named[path] = self.implied[path]
        self._accept("=")
        self._skip(_BLANK)
        self._read_value(path)

    def _read_keys(self) -> list[tuple[str, int]]:
        """Read the keys of ``a."b.c".d``, and where each begins; stop before what follows."""
        keys = []
        while True:
            self._skip(_BLANK)
            start = self.at
            if self.text[start] == '"':
                raw = self._skip(_BASIC_STRING)
                keys.append((str(tomllib.loads(f"key = {raw}")["key"]), start))
            elif self.text[start] == "'":
                keys.append((self._skip(_LITERAL_STRING)[1:-1], start))
            else:
                keys.append((self._skip(_BARE_KEY), start))
            self._skip(_BLANK)
            if not self._accept("."):
                return keys

    def _read_value(self, path: KeyPath) -> None:
        if self._accept("["):
            self._read_array(path)
        elif self._accept("{"):
            self._read_inline_table(path)
        else:
            strings = {
                '"""': _LONG_BASIC_STRING,
                "'''": _LONG_LITERAL_STRING,
                '"': _BASIC_STRING,
                "'": _LITERAL_STRING,
            }
            opening = next(
                (quotes for quotes in strings if self.text.startswith(quotes, self.at)), None
            )
            self._skip(_BARE_VALUE if opening is None else strings[opening])

    def _read_array(self, path: KeyPath) -> None:
        number = 0
        self._skip(_BLANK_LINES)
        while not self._accept("]"):
            self.named[(*path, number)] = self.at
            self._read_value((*path, number))
            number += 1
            self._skip(_BLANK_LINES)
            self._accept(",")
            self._skip(_BLANK_LINES)

    def _read_inline_table(self, path: KeyPath) -> None:
        self._skip(_BLANK_LINES)
        while not self._accept("}"):
            self._read_pair(path)
            self._skip(_BLANK_LINES)
            self._accept(",")
            self._skip(_BLANK_LINES)

    def _accept(self, what: str) -> bool:
        """Step over it if it comes next."""
        if not self.text.startswith(what, self.at):
            return False
        self.at += len(what)
        return True

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None or (match.end() == self.at and pattern not in (_BLANK, _BLANK_LINES)):
            raise ValueError(f"not valid TOML at {self.position(self.at)}")
        self.at = match.end()
        return match.group()


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
        [*blocks, *(_section(header, table) for header, table in _tables_of(sections))]
    )


def _tables_of(sections: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield header and table of every section; one of tables alone has a header for each."""
    for key, section in sections.items():
        if section and all(isinstance(table, Mapping) for table in section.values()):
            for name, table in section.items():
                yield f"{toml_key(key)}.{toml_key(name)}", table
        else:
            yield toml_key(key), section


def _line(key: str, value: Any) -> str:
    return f"{toml_key(str(key))} = {toml_value(value)}\n"


def _section(header: str, table: Mapping[str, Any]) -> str:
    present = {key: value for key, value in table.items() if value is not None}
    tables = {
        key: value
        for key, value in present.items()
        if isinstance(value, list | tuple)
        and value
        and all(isinstance(entry, Mapping) for entry in value)
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


def parse_toml(text: str, path: str) -> dict[str, Any]:
    """Parse TOML; refuse keys of a hundred dotted parts: Python's parser takes their square."""
    if _DOTTED.search(_QUOTED.sub("q", text)):
        raise ConfigError(f"{path} has a key of more than 100 dotted parts.", path=path, limit=100)
    return tomllib.loads(text)


def read_toml_text(path: Path) -> str:
    """Read the text of a configuration: a regular file in UTF-8."""
    try:
        if check_regular(path, ConfigError) > _LONGEST:
            raise ConfigError(
                f"the configuration {str(path)!r} has more than {_LONGEST:,} bytes. Put long lists "
                "into tables (CSV), and name those.",
                path=str(path),
                limit=_LONGEST,
            )
        data = path.read_bytes()
    except FileNotFoundError:
        names = [other.name for other in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        near = did_you_mean(path.name, names) or (
            f" In that folder there is {first_few(sorted(names))}." if names else ""
        )
        raise ConfigError(
            f"there is no configuration {str(path)!r}.{near} `unskew init` writes one to start "
            "from.",
            path=str(path),
        ) from None
    except (OSError, ValueError) as error:  # a name with a zero in it
        if isinstance(error, UnskewError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"the configuration {str(path)!r} cannot be read ({reason}).", path=str(path)
        ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = (
            f"{path}:{line}: a configuration is UTF-8 text, and byte {error.start} is not. "
            "Save the file as UTF-8."
        )
        problem = {"file": str(path), "line": line, "key": "", "message": "not UTF-8"}
        raise InvalidConfigError(message, [problem], path=str(path), line=line) from None
