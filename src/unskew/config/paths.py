"""The folders and files that a configuration names: which they are, and whether they exist."""

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
# An archive may be downloaded later, and a dataset may be a name: their readers report errors.
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
    """List everything that is read: (dotted key, path as written)."""
    return [(dotted(key), path) for key, path, _ in _inputs(settings)]


def path_problems(settings: Mapping[str, Any], folder: Path) -> list[Problem]:
    """List what does not exist, or is a file instead of a folder, or the reverse.

    Settings of a wrong type are ignored: they are reported elsewhere.
    """
    named = [*_inputs(settings), *_cache(settings)]
    return [
        missing_path(key, path, folder / path, expected)
        for key, path, expected in named
        if expected is not None and not _is_there(folder / path, expected)
    ]


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
        _of_target(_table(settings, "target")),
        _of_represent(_table(settings, "represent")),
    )
    for key, path, expected in chain.from_iterable(parts):
        if isinstance(path, str) and path:
            yield key, path, expected


def _cache(settings: Mapping[str, Any]) -> Iterator[_Named]:
    path = _table(settings, "represent").get("cache")
    if isinstance(path, str) and path:
        yield ("represent", "cache"), path, "a folder, which need not exist yet"


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


def _of_represent(represent: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    features = represent.get("features")
    for number, feature in enumerate(features if isinstance(features, list) else []):
        if isinstance(feature, Mapping) and names_network(feature):
            yield ("represent", "features", number, "model"), feature["model"], _FILE


def _of_target(target: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any, str | None]]:
    tables: dict[KeyPath, Any] = {
        ("target", key): target.get(key) for key in ("table", "interactions")
    }
    tables |= {
        ("target", "margins", name): table for name, table in _table(target, "margins").items()
    }
    for key, table in tables.items():
        if isinstance(table, Mapping):
            yield (*key, "file"), table.get("file"), _FILE
        else:
            yield key, table, _FILE
    yield ("target", "sample"), target.get("sample"), _EITHER
