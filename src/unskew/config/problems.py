"""What is wrong with a configuration, in words: the line, the key, what was expected, what was
received, and the nearest valid name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.toml_lines import KeyPath, TomlPosition, nearest_position
from unskew.config.toml_writer import toml_key, toml_value
from unskew.errors import ConfigError, InvalidConfigError, did_you_mean, first_few

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Problem:
    """One thing to mend: where it is (the keys from the top down), and what, as a sentence that the
    key begins.
    """

    path: KeyPath
    message: str


def dotted(path: KeyPath) -> str:
    """``bias.factors[1].family``.

    >>> dotted(("sources", "folders", "north west", 0))
    'sources.folders."north west"[0]'
    """
    return "".join(
        f"[{key}]" if isinstance(key, int) else f".{toml_key(key)}" for key in path
    ).removeprefix(".")


def received(value: Any) -> str:
    """A value as the file has it, not too long, and of what kind it is."""
    try:
        shown = toml_value(value)
    except ConfigError:
        shown = repr(value)
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[: _LONGEST_SHOWN - 1]}…"
    return f"{shown} ({_kind(value)})"


def _kind(value: Any) -> str:
    kinds = {
        bool: "a truth value",
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")


def unknown_key(
    path: KeyPath, known: Iterable[str], elsewhere: Mapping[str, Iterable[str]] | None = None
) -> Problem:
    """A key that nobody reads: what there is, the nearest of them, or the section where it
    belongs.
    """
    names, key, table = list(known), str(path[-1]), dotted(path[:-1])
    where = f"[{table}]" if table else "a configuration"
    has = f"{where} has {first_few(names, 40)}" if names else f"{where} has no keys"
    homes = [
        section for section, keys in (elsewhere or {}).items() if key in keys and section != table
    ]
    hint = did_you_mean(key, names) or (f" {key} is a key of [{homes[0]}]." if homes else "")
    return Problem(path, f"there is no such key; {has}.{hint}")


def wrong_value(path: KeyPath, takes: str, value: Any, why: str = "") -> Problem:
    return Problem(
        path,
        f"expected {takes}; got "
        f"{received(value)}{': ' + why if why else ''}.{_nearest_choice(takes, value)}",
    )


def _nearest_choice(takes: str, value: Any) -> str:
    """The nearest of the words in quotes that are among what the key takes."""
    choices = re.findall(r'"([^"…:]+)"', takes)
    return did_you_mean(value, choices) if isinstance(value, str) and value not in choices else ""


def problems_of(
    errors: Sequence[ErrorDetails],
    section: type[BaseModel],
    settings: Any,
    path: KeyPath,
    elsewhere: Mapping[str, Iterable[str]],
) -> list[Problem]:
    """What pydantic found in one section, one problem for each value (it reports a value once for
    every type that might have fitted).
    """
    found: dict[KeyPath, Problem] = {}
    for error in errors:
        below, value = _walk(settings, error["loc"])
        where = (*path, *below)
        if error["type"] == "extra_forbidden":
            found[where] = unknown_key(where, section.model_fields, elsewhere)
        elif error["type"] == "missing":
            key = str(error["loc"][-1])
            found[*path, key] = Problem(
                (*path, key), f"is missing; expected {_takes(section, (key,))}."
            )
        elif not below:
            found[path] = Problem(
                path, f"expected a table of settings, [{dotted(path)}]; got {received(value)}."
            )
        elif not any(where[:length] in found for length in range(len(path) + 1, len(where) + 1)):
            why = str(error["ctx"]["error"]) if error["type"] == "value_error" else ""
            for deeper in [each for each in found if each[: len(where)] == where]:
                del found[deeper]
            found[where] = wrong_value(where, _takes(section, below), value, why)
    return list(found.values())


def _walk(settings: Any, location: Sequence[str | int]) -> tuple[KeyPath, Any]:
    """The part of a location that is in the settings (the rest names types that were tried), and
    the value there.
    """
    path: KeyPath = ()
    for key in location:
        is_element = isinstance(settings, list) and isinstance(key, int) and key < len(settings)
        if is_element or (isinstance(settings, Mapping) and key in settings):
            settings = settings[key]
            path = (*path, key)
    return path, settings


def _takes(section: type[BaseModel], below: KeyPath) -> str:
    field = section.model_fields[str(below[0])]
    return field.title or "another value"


def problem_of_message(path: KeyPath, message: str, places: Iterable[KeyPath]) -> Problem:
    """An error that names no line is put at the deepest key below ``path`` that its message begins
    with or quotes; else at ``path``.
    """
    below = [
        each
        for each in places
        if each[: len(path)] == path and len(each) > len(path) and isinstance(each[-1], str)
    ]
    begins = [
        each for each in below if re.match(rf"(?:\S+ )?{re.escape(str(each[-1]))}\b", message)
    ]
    quoted = [
        each
        for each in below
        if f"{each[-1]!r}" in message or f"{dotted(each[len(path) :])} " in message
    ]
    best = max(quoted, key=len) if quoted else begins[0] if begins else path
    return Problem(best, message)


def missing_path(path: KeyPath, given: str, place: Path, what: str) -> Problem:
    """A folder or file that is not there, or is the other of the two; with the nearest name beside
    it.
    """
    said = f"expected {what}; got {received(given)}"
    try:
        if place.exists():
            return Problem(path, f"{said}, which is {'a folder' if place.is_dir() else 'a file'}.")
        if not place.parent.is_dir():
            return Problem(
                path, f"{said}, but there is no folder {str(place.parent)!r} that it could be in."
            )
        beside = sorted(each.name for each in place.parent.iterdir())
    except (
        OSError,
        ValueError,
    ) as error:  # a folder that may not be read, a name too long or with a zero in it
        return Problem(
            path,
            f"{said}, where nothing can be found ({getattr(error, 'strerror', None) or error}).",
        )
    near = did_you_mean(place.name, beside) or (
        f" There is {first_few([repr(each) for each in beside])}." if 0 < len(beside) <= 8 else ""
    )
    return Problem(
        path, f"{said}, and there is nothing of that name in {str(place.parent)!r}.{near}"
    )


def config_error(
    file: str | None, text: str, problems: Sequence[Problem], places: Mapping[KeyPath, TomlPosition]
) -> InvalidConfigError:
    """All problems of a file in one error, from top to bottom, each with its line."""
    lines = text.replace("\r\n", "\n").split("\n")
    located = [(nearest_position(places, each.path), each) for each in problems]
    located.sort(key=lambda pair: (pair[0] is not None, pair[0] or (0, 0)))
    shown = [_rendered(file, place, each, places, lines) for place, each in located]
    count = "" if len(shown) == 1 else f"{file or 'the settings'}: {len(shown)} problems\n\n"
    records = [
        {
            "file": file,
            "line": None if place is None else place.line,
            "key": dotted(each.path),
            "message": each.message,
        }
        for place, each in located
    ]
    return InvalidConfigError(count + "\n\n".join(shown), records)


def _rendered(
    file: str | None,
    place: TomlPosition | None,
    problem: Problem,
    places: Mapping[KeyPath, TomlPosition],
    lines: Sequence[str],
) -> str:
    where = "" if file is None else f"{file}: " if place is None else f"{file}:{place.line}: "
    sentence = f"{where}{dotted(problem.path)}: {problem.message}"
    if place is None:
        return sentence
    line = lines[place.line - 1]
    if line.startswith("[", place.column - 1) and problem.path[-1:] != (0,):
        width = len(line[: line.rfind("]") + 1]) - place.column + 1  # the header of a section
    else:
        width = len(toml_key(str(problem.path[-1]))) if problem.path in places else 1
    return f"{sentence}\n{marked_line(line, place, width)}"


def marked_line(line: str, place: TomlPosition, width: int = 1) -> str:
    """The line with its number, and carets beneath the column; what would move the cursor of a
    terminal is shown as a space.
    """
    clean = "".join(each if each.isprintable() else " " for each in line)
    # A line of a thousand characters is shown around the column.
    start = max(0, place.column - 60) if len(clean) > 110 else 0
    clean = clean[start : start + 110]
    number = str(place.line)
    column = place.column - 1 - start
    width = min(width, max(1, len(clean) - column))
    return f"  {number} | {clean}\n  {' ' * len(number)} | {' ' * column}{'^' * width}"


def syntax_error(file: str, text: str, error: tomllib.TOMLDecodeError) -> InvalidConfigError:
    """What the parser says, with the line and a caret; and what is most often behind it."""
    lines = text.replace("\r\n", "\n").split("\n")
    found = re.search(
        r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$",
        str(error),
        re.DOTALL,
    )
    what = found["what"] if found else str(error)
    if found and found["line"]:
        place = TomlPosition(int(found["line"]), int(found["column"]))
    else:
        place = TomlPosition(len(lines), len(lines[-1]) + 1)
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    message = (
        f"{file}:{place.line}: not valid TOML in column {place.column}: "
        f"{what}.{_syntax_hint(what, line)}\n{marked_line(line, place)}"
    )
    return InvalidConfigError(
        message, [{"file": file, "line": place.line, "key": "", "message": what}]
    )


def _syntax_hint(what: str, line: str) -> str:
    if "\\" in line and (
        "escape" in what.lower() or "backslash" in what.lower() or "hex value" in what.lower()
    ):
        return (
            " Write the paths of Windows with / or in 'single quotes', where a backslash is only "
            "a backslash."
        )
    if what.startswith("Invalid value"):
        return " Text stands in quotes, truth values are true and false."
    if what.startswith(("Cannot overwrite", "Cannot declare", "Cannot mutate")):
        return " A key, or section, may occur only once."
    return ""
