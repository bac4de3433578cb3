"""The folders and files that a configuration names: which they are, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from unskew.config.problems import Problem, dotted, missing_path
from unskew.config.toml_lines import KeyPath

_FOLDER, _FILE, _EITHER = (
    "a folder that exists",
    "a file that exists",
    "a folder or file that exists",
)
# An archive may be about to be downloaded, and a dataset may be a name: whoever reads them says
# what is wrong.
_KINDS = {
    "folders": _FOLDER,
    "manifest": _FILE,
    "arrays": _FILE,
    "cifar": None,
    "huggingface": None,
}

# Files of networks, as `unskew.represent.embedding_models` reads them.
_NETWORKS = (".onnx", ".pt", ".pth", ".ts", ".torchscript")
# (key, path as written, what must be there).
_Named = tuple[KeyPath, str, str | None]


def named_inputs(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(dotted key, path as written) of everything that is read."""
    return [(dotted(path), given) for path, given, _ in _inputs(settings)]


def path_problems(settings: Mapping[str, Any], folder: Path) -> list[Problem]:
    """What is not there, or is a file where a folder is meant, or the reverse; settings of a wrong
    type are passed over.
    """
    named = [*_inputs(settings), *_cache(settings)]
    return [
        missing_path(path, given, folder / given, expected)
        for path, given, expected in named
        if expected is not None and not _is_there(folder / given, expected)
    ]


def _is_there(place: Path, expected: str) -> bool:
    try:
        if expected == _FOLDER:
            return place.is_dir()
        if expected == _FILE:
            return place.is_file()
        return place.exists() if expected == _EITHER else place.is_dir() or not place.exists()
    except (OSError, ValueError):  # a name too long, or with a zero in it
        return False


def _inputs(settings: Mapping[str, Any]) -> Iterator[_Named]:
    parts = (
        _of_sources(_table(settings, "sources")),
        _of_target(_table(settings, "target")),
        _of_represent(_table(settings, "represent")),
    )
    for path, given, expected in chain.from_iterable(parts):
        if isinstance(given, str) and given:
            yield path, given, expected


def _cache(settings: Mapping[str, Any]) -> Iterator[_Named]:
    given = _table(settings, "represent").get("cache")
    if isinstance(given, str) and given:
        yield ("represent", "cache"), given, "a folder, which need not exist yet"


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}


def _of_sources(sources: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    for kind, expected in _KINDS.items():
        given = sources.get(kind)
        if isinstance(given, Mapping):
            yield from ((("sources", kind, name), each, expected) for name, each in given.items())
        elif kind != "folders":
            yield ("sources", kind), given, expected
    yield ("sources", "root"), sources.get("root"), _FOLDER
    yield ("sources", "split", "file"), _table(sources, "split").get("file"), _FILE


def names_network(feature: Mapping[str, Any]) -> bool:
    """Does it name the file of a network, and not a function that makes one?"""
    model = feature.get("model")
    return (
        feature.get("name") == "embedding"
        and isinstance(model, str)
        and Path(model).suffix.lower() in _NETWORKS
    )


def _of_represent(represent: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    features = represent.get("features")
    for number, each in enumerate(features if isinstance(features, list) else []):
        if isinstance(each, Mapping) and names_network(each):
            yield ("represent", "features", number, "model"), each["model"], _FILE


def _of_target(target: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    tables: dict[KeyPath, Any] = {
        ("target", key): target.get(key) for key in ("table", "interactions")
    }
    tables |= {
        ("target", "margins", name): each for name, each in _table(target, "margins").items()
    }
    for path, given in tables.items():
        if isinstance(given, Mapping):
            yield (*path, "file"), given.get("file"), _FILE
        else:
            yield path, given, _FILE
    yield ("target", "sample"), target.get("sample"), _EITHER
