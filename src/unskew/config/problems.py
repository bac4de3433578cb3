"""What is wrong with a configuration, with line, key and nearest name; which paths it names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.toml_text import KeyPath, TomlPosition, nearest_position, toml_key, toml_value
from unskew.errors import ConfigError, InvalidConfigError, did_you_mean, first_few
from unskew.files.addresses import check_address, is_address

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_FOLDER, _FILE, _EITHER = (
    "a folder that exists",
    "a file that exists",
    "a folder or file that exists",
)
# An archive may be downloaded later, and a dataset may be a name: their readers report errors.
_KINDS = {
    "folders": _FOLDER,
    "manifest": _FILE,
    "arrays": _FILE,
    "cifar": None,
    "huggingface": None,
    "parquet": None,
}

# What may be an address: s3://bucket/table.csv.
_AT_ADDRESSES: tuple[KeyPath, ...] = (
    *(("sources", kind) for kind in ("folders", "manifest", "parquet", "root")),
    ("represent", "features"),
)
# Files of networks, as `unskew.represent.embedding_models` reads them.
_NETWORKS = (".onnx", ".pt", ".pth", ".ts", ".torchscript")
# (key, path as written, what must be there).
_Named = tuple[KeyPath, str, str | None]


def named_inputs(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List everything that is read: (dotted key, path as written)."""
    return [(dotted(key), path) for key, path, _ in _inputs(settings)]


def path_problems(settings: Mapping[str, Any], folder: Path) -> list[Problem]:
    """List what does not exist, or is a file instead of a folder, or the reverse.

    Settings of a wrong type are ignored: they are reported elsewhere.
    """
    named = [*_inputs(settings), *_cache(settings)]
    there = [one for one in named if not is_address(one[1])]
    return _address_problems(named) + [
        missing_path(key, path, folder / path, expected)
        for key, path, expected in there
        if expected is not None and not _is_there(folder / path, expected)
    ]


def _address_problems(named: Iterable[_Named]) -> list[Problem]:
    """List addresses (``s3://…``) that hold credentials, or are where a local path is needed."""
    problems = []
    for key, path, _ in named:
        if not is_address(path) or key[:2] == ("sources", "huggingface"):
            continue
        if key[:2] not in _AT_ADDRESSES and key[-1] != "sample":
            allowed = ", ".join(dotted(one) for one in _AT_ADDRESSES)
            words = f"is a local path; addresses may be {allowed} and the target's sample."
            problems.append(Problem(key, f"{dotted(key)} {words}"))
            continue
        try:
            check_address(path)
        except ConfigError as error:
            problems.append(Problem(key, str(error)))
    return problems


def _is_there(path: Path, expected: str) -> bool:
    try:
        if expected == _FOLDER:
            return path.is_dir()
        if expected == _FILE:
            return path.is_file()
        return path.exists() if expected == _EITHER else path.is_dir() or not path.exists()
    except (OSError, ValueError):  # a name too long, or with a zero in it
        return False


def _inputs(settings: Mapping[str, Any]) -> Iterator[_Named]:
    parts = (
        _of_sources(_table(settings, "sources")),
        _of_target(("target",), _table(settings, "target")),
        *(
            _of_target(("targets", name), table)
            for name, table in _table(settings, "targets").items()
            if isinstance(table, Mapping)
        ),
        _of_represent(_table(settings, "represent")),
    )
    for key, path, expected in chain.from_iterable(parts):
        if isinstance(path, str) and path:
            yield key, path, expected


def _cache(settings: Mapping[str, Any]) -> Iterator[_Named]:
    for section in ("represent", "engine"):
        path = _table(settings, section).get("cache")
        if isinstance(path, str) and path:
            yield (section, "cache"), path, "a folder, which need not exist yet"


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, Mapping) else {}


def _of_sources(sources: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    for kind, expected in _KINDS.items():
        value = sources.get(kind)
        if isinstance(value, Mapping):
            yield from ((("sources", kind, name), path, expected) for name, path in value.items())
        elif kind != "folders":
            yield ("sources", kind), value, expected
    yield ("sources", "root"), sources.get("root"), _FOLDER
    yield ("sources", "split", "file"), _table(sources, "split").get("file"), _FILE


def names_network(feature: Mapping[str, Any]) -> bool:
    """Tell whether a feature names the file of a network, not a function that makes one."""
    model = feature.get("model")
    return (
        feature.get("name") == "embedding"
        and isinstance(model, str)
        and Path(model).suffix.lower() in _NETWORKS
    )


def names_table(feature: Any) -> bool:
    """Tell whether a feature is read from a file, not computed."""
    return isinstance(feature, Mapping) and "file" in feature


def _of_represent(represent: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    features = represent.get("features")
    features = [features] if isinstance(features, Mapping) else features
    for number, feature in enumerate(features if isinstance(features, list) else []):
        path: KeyPath = ("represent", "features", number)
        if names_table(feature):
            yield (*path, "file"), feature["file"], None
        elif isinstance(feature, Mapping) and names_network(feature):
            yield (*path, "model"), feature["model"], _FILE


def _of_target(
    path: KeyPath, target: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, Any, str | None]]:
    tables: dict[KeyPath, Any] = {
        (*path, key): target.get(key) for key in ("table", "interactions")
    }
    tables |= {(*path, "margins", name): table for name, table in _table(target, "margins").items()}
    for key, table in tables.items():
        if key == (*path, "interactions") and table in ("within", "pool"):
            continue
        if isinstance(table, Mapping):
            yield (*key, "file"), table.get("file"), _FILE
        else:
            yield key, table, _FILE
    yield (*path, "sample"), target.get("sample"), _EITHER
    for name in ("target_scores", "validation_scores"):
        yield (*path, "predictions", name), _table(target, "predictions").get(name), _FILE


_LONGEST_SHOWN = 60
# A file of a thousand mistakes is no configuration: these are looked at, the rest is counted.
MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Problem:
    """One thing to fix: its key (from the top down), and a sentence that the key begins."""

    path: KeyPath
    message: str


def dotted(path: KeyPath) -> str:
    """Write a key as ``bias.factors[1].family``.

    >>> dotted(("sources", "folders", "north west", 0))
    'sources.folders."north west"[0]'
    """
    return "".join(
        f"[{key}]" if isinstance(key, int) else f".{toml_key(key)}" for key in path
    ).removeprefix(".")


def received(value: Any) -> str:
    """Show a value as the file has it, shortened if long, and its kind."""
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
    """Report an unknown key: which keys exist, the nearest, or the section that has it."""
    names, key, table = list(known), str(path[-1]), dotted(path[:-1])
    where = f"[{table}]" if table else "a configuration"
    has = f"{where} has {first_few(names, 40)}" if names else f"{where} has no keys"
    homes = [
        section for section, keys in (elsewhere or {}).items() if key in keys and section != table
    ]
    hint = did_you_mean(key, names) or (f" {key} is a key of [{homes[0]}]." if homes else "")
    return Problem(path, f"there is no such key; {has}.{hint}")


def wrong_value(path: KeyPath, takes: str, value: Any, why: str = "") -> Problem:
    because = f": {why}" if why else ""
    near = _nearest_choice(takes, value)
    return Problem(path, f"expected {takes}; got {received(value)}{because}.{near}")


def _nearest_choice(takes: str, value: Any) -> str:
    """Suggest the nearest of the quoted words that the key takes."""
    choices = re.findall(r'"([^"…:]+)"', takes)
    return did_you_mean(value, choices) if isinstance(value, str) and value not in choices else ""


def problems_of(
    errors: Sequence[ErrorDetails],
    section: type[BaseModel],
    settings: Any,
    path: KeyPath,
    elsewhere: Mapping[str, Iterable[str]],
) -> list[Problem]:
    """Translate pydantic's errors in one section, one problem for each value.

    Pydantic reports a value once for every type that might have fitted.
    """
    problems: dict[KeyPath, Problem] = {}
    for error in errors[:MOST_PROBLEMS]:
        below, value = _walk(settings, error["loc"])
        where = (*path, *below)
        if error["type"] == "extra_forbidden":
            problems[where] = unknown_key(where, section.model_fields, elsewhere)
        elif error["type"] == "missing":
            key = str(error["loc"][-1])
            problems[*path, key] = Problem(
                (*path, key), f"is missing; expected {_takes(section, (key,))}."
            )
        elif not below:
            problems[path] = Problem(
                path, f"expected a table of settings, [{dotted(path)}]; got {received(value)}."
            )
        elif not any(where[:length] in problems for length in range(len(path) + 1, len(where) + 1)):
            why = str(error["ctx"]["error"]) if error["type"] == "value_error" else ""
            for deeper in [other for other in problems if other[: len(where)] == where]:
                del problems[deeper]
            problems[where] = wrong_value(where, _takes(section, below), value, why)
    return list(problems.values())


def _walk(settings: Any, location: Sequence[str | int]) -> tuple[KeyPath, Any]:
    """Find the part of a location that is in the settings, and the value there."""
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


def problem_of_error(path: KeyPath, error: Exception, keys: Iterable[KeyPath]) -> Problem:
    """Find the key that an error is about.

    It is the deepest of ``keys`` below ``path`` (or below the option and the source that the error
    carries as facts) that the message quotes, else one that it begins with, else ``path``.
    """
    message, facts, keys = str(error), getattr(error, "facts", {}), list(keys)
    for name in (facts.get("option"), facts.get("source")):
        if name is not None and any(key[: len(path) + 1] == (*path, name) for key in keys):
            path = (*path, name)
    below = [
        key
        for key in keys
        if key[: len(path)] == path and len(key) > len(path) and isinstance(key[-1], str)
    ]
    begins = [key for key in below if re.match(rf"(?:\S+ )?{re.escape(str(key[-1]))}\b", message)]
    quoted = [
        key
        for key in below
        if f"{key[-1]!r}" in message or f"{dotted(key[len(path) :])} " in message
    ]
    best = max(quoted, key=len) if quoted else begins[0] if begins else path
    return Problem(best, message)


def missing_path(key: KeyPath, written: str, path: Path, what: str) -> Problem:
    """Report a folder or file that does not exist, or is the other of the two.

    ``written`` is the path as the configuration has it; the nearest name in its folder is
    suggested.
    """
    rule = f"expected {what}; got {received(written)}"
    try:
        if path.exists():
            regular = "a file" if path.is_file() else "a pipe or device"
            return Problem(key, f"{rule}, which is {'a folder' if path.is_dir() else regular}.")
        if not path.parent.is_dir():
            return Problem(
                key, f"{rule}, but there is no folder {str(path.parent)!r} that it could be in."
            )
        names = sorted(other.name for other in path.parent.iterdir())
    except (OSError, ValueError) as error:  # unreadable folder, name too long or with a zero byte
        cause = getattr(error, "strerror", None) or error
        return Problem(key, f"{rule}, where nothing can be found ({cause}).")
    near = did_you_mean(path.name, names)
    if not near and 0 < len(names) <= 8:
        near = f" There is {first_few([repr(name) for name in names])}."
    return Problem(key, f"{rule}, and there is nothing of that name in {str(path.parent)!r}.{near}")


def config_error(
    file: str | None,
    text: str,
    problems: Sequence[Problem],
    positions: Mapping[KeyPath, TomlPosition],
) -> InvalidConfigError:
    """Join all problems of a file in one error, from top to bottom, each with its line."""
    lines = text.replace("\r\n", "\n").split("\n")
    located = [(nearest_position(positions, problem.path), problem) for problem in problems]
    located.sort(key=lambda pair: (pair[0] is not None, pair[0] or (0, 0)))
    del located[MOST_PROBLEMS:]
    shown = [_rendered(file, at, problem, positions, lines) for at, problem in located]
    more = " or more" if len(shown) == MOST_PROBLEMS else ""
    where = file or "the settings"
    count = "" if len(shown) == 1 else f"{where}: {len(shown)} problems{more}\n\n"
    records = [
        {
            "file": file,
            "line": None if at is None else at.line,
            "key": dotted(problem.path),
            "message": problem.message,
        }
        for at, problem in located
    ]
    return InvalidConfigError(count + "\n\n".join(shown), records)


def _rendered(
    file: str | None,
    position: TomlPosition | None,
    problem: Problem,
    positions: Mapping[KeyPath, TomlPosition],
    lines: Sequence[str],
) -> str:
    where = "" if file is None else f"{file}: " if position is None else f"{file}:{position.line}: "
    sentence = f"{where}{dotted(problem.path)}: {problem.message}"
    if position is None:
        return sentence
    line = lines[position.line - 1]
    if line.startswith("[", position.column - 1) and problem.path[-1:] != (0,):
        width = len(line[: line.rfind("]") + 1]) - position.column + 1  # the header of a section
    else:
        width = len(toml_key(str(problem.path[-1]))) if problem.path in positions else 1
    return f"{sentence}\n{marked_line(line, position, width)}"


def marked_line(line: str, position: TomlPosition, width: int = 1) -> str:
    """Show a line with its number, and carets below the column.

    Characters that would move the cursor of a terminal are shown as spaces.
    """
    # A line of a thousand characters is shown around the column.
    start = max(0, position.column - 60) if len(line) > 110 else 0
    shown = line[start : start + 110]
    clean = "".join(character if character.isprintable() else " " for character in shown)
    number = str(position.line)
    column = position.column - 1 - start
    width = min(width, max(1, len(clean) - column))
    return f"  {number} | {clean}\n  {' ' * len(number)} | {' ' * column}{'^' * width}"


def syntax_error(file: str, text: str, error: tomllib.TOMLDecodeError) -> InvalidConfigError:
    """Report a syntax error with its line, a caret, and the most frequent cause."""
    lines = text.replace("\r\n", "\n").split("\n")
    parts = re.search(
        r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$",
        str(error),
        re.DOTALL,
    )
    what = parts["what"] if parts else str(error)
    if parts and parts["line"]:
        position = TomlPosition(int(parts["line"]), int(parts["column"]))
    else:
        position = TomlPosition(len(lines), len(lines[-1]) + 1)
    line = lines[position.line - 1] if position.line <= len(lines) else ""
    message = (
        f"{file}:{position.line}: not valid TOML in column {position.column}: "
        f"{what}.{_syntax_hint(what, line)}\n{marked_line(line, position)}"
    )
    problem = {"file": file, "line": position.line, "key": "", "message": what}
    return InvalidConfigError(message, [problem], path=file, line=position.line)


def _syntax_hint(what: str, line: str) -> str:
    of_escapes = ("escape", "backslash", "hex value")
    if "\\" in line and any(word in what.lower() for word in of_escapes):
        return (
            " Write Windows paths with / or in 'single quotes', where a backslash is only "
            "a backslash."
        )
    if what.startswith("Invalid value"):
        return " Text needs quotes; truth values are true and false."
    if what.startswith(("Cannot overwrite", "Cannot declare", "Cannot mutate")):
        return " A key, or section, may occur only once."
    return ""
