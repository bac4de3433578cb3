"""Folders and files named on the command line -> the ``[sources]`` part of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, DataError, first_few
from unskew.files.reading import check_regular
from unskew.sources.column_guessing import common_columns
from unskew.sources.files import near_names

_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_ARRAYS = ".npz"
# A spreadsheet cannot be read, but its reader's error says what to do.
_TABLE_NAMES = (
    *_TABLES,
    *(f"{extension}.gz" for extension in _TABLES),
    ".ndjson",
    ".ndjson.gz",
    ".pq",
    ".xls",
    ".xlsx",
    ".ods",
)
# Folders of these names are splits of one source, not sources.
_SPLITS = {
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "dev",
    "test",
    "testing",
    "eval",
    "evaluation",
}


def find_sources(paths: Sequence[Path], folder: Path, *, download: bool = False) -> dict[str, Any]:
    """Find the settings for these folders or files.

    Each folder is one source. A single folder is split up where its subfolders hold class folders
    of their own, or look like sources: then each subfolder is one source. A file is a table,
    arrays, or a CIFAR archive; several files are one source each, and so is a table without a
    column that names the source. With ``download``, an archive need not exist yet. Paths are
    written relative to ``folder`` where that is shorter.
    """
    for path in paths:
        if not (download and _is_archive(path)):
            _check_there(path)
    folders = [path for path in paths if path.is_dir()]
    if len(folders) == len(paths):
        return _from_folders(folders, folder)
    if folders:
        raise ConfigError(
            f"give either folders or files, not both: {first_few([str(path) for path in folders])} "
            f"is a folder, {first_few([str(path) for path in paths if path not in folders])} is "
            "not. A table may hold all sources (a column source).",
            value=[str(path) for path in paths],
        )
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise ConfigError(
            f"these files are of different kinds ({', '.join(sorted(kinds))}); give files of one "
            "kind, or one table of all.",
            value=sorted(kinds),
        )
    (kind,) = kinds
    return _settings(kind, paths, folder)


def _settings(kind: str, paths: Sequence[Path], folder: Path) -> dict[str, Any]:
    """Write settings for one path that holds several sources, or for one path per source."""
    columns = {} if kind in ("folders", "cifar") else common_columns(kind, paths)
    if "root" in columns:
        columns["root"] = _written(columns["root"], folder)
    if len(paths) == 1 and (kind == "cifar" or "source" in columns):
        return {kind: _written(paths[0], folder)} | columns
    return {kind: _named(paths, folder)} | {
        role: name for role, name in columns.items() if role != "source"
    }


def _check_there(path: Path) -> None:
    try:
        there = path.exists()
        if there and path.is_dir():
            os.scandir(path).close()
        elif there:
            check_regular(path, ConfigError)
    except OSError as error:
        raise DataError(
            f"{str(path)!r} cannot be read: {error.strerror or error}.", path=str(path)
        ) from None
    if there and not is_text(os.path.abspath(path)):
        raise DataError(
            f"the name of {os.fsencode(path)!r} is not UTF-8, so no configuration can name it. "
            "Rename it, or link to it.",
            path=str(path),
        )
    if not there:
        raise ConfigError(
            f"there is no folder or file {str(path)!r}.{near_names(str(path))}", path=str(path)
        )


def is_text(path: str) -> bool:
    """Tell whether a path is UTF-8, so that a configuration can name it."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _from_folders(folders: Sequence[Path], base: Path) -> dict[str, Any]:
    kinds = {_unpacked(folder) for folder in folders}
    if len(kinds) > 1:
        raise ConfigError(
            f"these folders are of different kinds ({', '.join(sorted(kinds))}); give folders of "
            "one kind: images, Hugging Face datasets saved to disk, or unpacked CIFAR archives.",
            value=sorted(kinds),
        )
    (kind,) = kinds
    if len(folders) == 1 and kind == "folders":
        folders = _split_up(folders[0])
        for folder in folders:
            _check_there(folder)
    return _settings(kind, folders, base)


def _split_up(folder: Path) -> list[Path]:
    """Return the subfolders if they are sources, not classes or splits of one; else the folder."""
    inner = sorted(_subfolders(folder), key=lambda path: path.name)
    are_splits = {path.name.lower() for path in inner} <= _SPLITS
    if len(inner) < 2 or are_splits or _has_files(folder):
        return [folder]
    return inner if all(_subfolders(path) or _has_metadata(path) for path in inner) else [folder]


def _named(paths: Iterable[Path], base: Path) -> dict[str, str]:
    """Name each path: by its own name, with that of the folder above where two are the same."""
    paths = [Path(os.path.normpath(path.absolute())) for path in paths]
    for depth in range(1, 4):
        names = [
            "/".join((*path.parts[-depth:-1], _stem(path) if path.is_file() else path.name))
            for path in paths
        ]
        if len(set(names)) == len(names):
            return {name: _written(path, base) for name, path in zip(names, paths, strict=True)}
    raise ConfigError(
        "the same path was named twice: "
        f"{first_few(sorted({str(path) for path in paths if paths.count(path) > 1}))}.",
        path=next(str(path) for path in paths if paths.count(path) > 1),
    )


def _stem(file: Path) -> str:
    """Return the name of a file without its extensions."""
    extensions = (*_ARCHIVES, *_TABLE_NAMES, _ARRAYS)
    longest = max((end for end in extensions if file.name.lower().endswith(end)), key=len)
    return file.name[: -len(longest)] or file.name


def _written(path: Path, base: Path) -> str:
    absolute = Path(os.path.abspath(path))
    try:
        relative = os.path.relpath(absolute, os.path.abspath(base))
    except ValueError:  # another drive of Windows
        return absolute.as_posix()
    return Path(relative).as_posix() if len(relative) <= len(str(absolute)) else absolute.as_posix()


def _is_archive(path: Path) -> bool:
    return path.name.lower().endswith(_ARCHIVES)


def _kind(path: Path) -> str:
    name = path.name.lower()
    if _is_archive(path):
        return "cifar"
    if name.endswith(_ARRAYS):
        return "arrays"
    if name.endswith(_TABLE_NAMES):
        return "manifest"
    raise ConfigError(
        f"{path.name!r} is neither a table of images ({', '.join(_TABLES)}), arrays ({_ARRAYS}) "
        "nor a CIFAR archive (.tar.gz). For a folder of images, name the folder.",
        path=path.name,
    )


def _unpacked(folder: Path) -> str:
    """Tell an unpacked CIFAR archive and a saved Hugging Face dataset from a folder of images."""
    names = set(os.listdir(folder))
    if {"batches.meta", "meta", "batches.meta.txt", "fine_label_names.txt"} & names and {
        "data_batch_1",
        "data_batch_1.bin",
        "train",
        "train.bin",
    } & names:
        return "cifar"
    return (
        "huggingface"
        if {"dataset_info.json", "state.json"} <= names or "dataset_dict.json" in names
        else "folders"
    )


def _subfolders(folder: Path) -> list[Path]:
    return [
        Path(entry.path)
        for entry in os.scandir(folder)
        if entry.is_dir() and not entry.name.startswith(".")
    ]


def _has_files(folder: Path) -> bool:
    return any(entry.is_file() and not entry.name.startswith(".") for entry in os.scandir(folder))


def _has_metadata(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("metadata.csv", "metadata.jsonl"))
