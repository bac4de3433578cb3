"""Folders and files named on the command line -> the ``[sources]`` part of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.sources.column_guessing import common_columns

_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_ARRAYS = ".npz"
# A spreadsheet is no table that can be read, but whoever tries says what to do.
_TABLE_NAMES = (
    *_TABLES,
    *(f"{each}.gz" for each in _TABLES),
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


def find_sources(places: Sequence[Path], folder: Path, *, download: bool = False) -> dict[str, Any]:
    """Settings for these folders or files, paths written relative to ``folder`` where that is
    shorter.

    Each folder is one source. A single folder is taken apart where its subfolders hold class
    folders of their own, or look like sources: then each subfolder is one source. A file is a
    table, arrays, or a CIFAR archive; several files are one source each, and so is a table that
    does not say which source each image comes from. With ``download``, an archive need not be there
    yet.
    """
    for place in places:
        if not (download and _is_archive(place)):
            _check_there(place)
    folders = [place for place in places if place.is_dir()]
    if len(folders) == len(places):
        return _from_folders(folders, folder)
    if folders:
        raise ConfigError(
            "give either folders or files, not both: "
            f"{first_few([str(place) for place in folders])} is a folder, "
            f"{first_few([str(place) for place in places if place not in folders])} is not. A "
            "table may hold all sources (a column source)."
        )
    kinds = {_kind(place) for place in places}
    if len(kinds) > 1:
        raise ConfigError(
            f"these files are of different kinds ({', '.join(sorted(kinds))}); give files of one "
            "kind, or one table of all."
        )
    (kind,) = kinds
    return _settings(kind, places, folder)


def _settings(kind: str, places: Sequence[Path], folder: Path) -> dict[str, Any]:
    """One place that holds several sources, or one for each source."""
    columns = {} if kind in ("folders", "cifar") else common_columns(kind, places)
    if len(places) == 1 and (kind == "cifar" or "source" in columns):
        return {kind: _written(places[0], folder)} | columns
    return {kind: _named(places, folder)} | {
        role: name for role, name in columns.items() if role != "source"
    }


def _check_there(place: Path) -> None:
    try:
        there = place.exists()
        if there and place.is_dir():
            os.scandir(place).close()
    except OSError as error:
        raise DataError(f"{str(place)!r} cannot be read: {error.strerror or error}.") from None
    if there and not _is_text(os.path.abspath(place)):
        raise DataError(
            f"the name of {os.fsencode(place)!r} is not UTF-8, so that no configuration can name "
            "it. Rename it, or link to it."
        )
    if not there:
        raise ConfigError(f"there is no folder or file {str(place)!r}.{_near(place)}")


def _is_text(path: str) -> bool:
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
            "one kind: of images, Hugging Face "
            "datasets saved to disk, or CIFAR archives unpacked."
        )
    (kind,) = kinds
    if len(folders) == 1 and kind == "folders":
        folders = _taken_apart(folders[0])
        for folder in folders:
            _check_there(folder)
    return _settings(kind, folders, base)


def _taken_apart(folder: Path) -> list[Path]:
    """The subfolders, where they are sources rather than classes or splits of one; else the folder
    itself.
    """
    below = sorted(_subfolders(folder), key=lambda path: path.name)
    are_splits = {each.name.lower() for each in below} <= _SPLITS
    if len(below) < 2 or are_splits or _has_files(folder):
        return [folder]
    return below if all(_subfolders(each) or _has_metadata(each) for each in below) else [folder]


def _named(places: Iterable[Path], base: Path) -> dict[str, str]:
    """A name for each place: its own, with that of the folder above where two have the same."""
    places = [Path(os.path.normpath(place.absolute())) for place in places]
    for depth in range(1, 4):
        names = [
            "/".join((*place.parts[-depth:-1], _stem(place) if place.is_file() else place.name))
            for place in places
        ]
        if len(set(names)) == len(names):
            return {name: _written(place, base) for name, place in zip(names, places, strict=True)}
    raise ConfigError(
        "a place was named twice: "
        f"{first_few(sorted({str(place) for place in places if places.count(place) > 1}))}."
    )


def _stem(file: Path) -> str:
    """The name of a file without what says its format."""
    extension = max(
        (each for each in (*_ARCHIVES, *_TABLE_NAMES, _ARRAYS) if file.name.lower().endswith(each)),
        key=len,
    )
    return file.name[: -len(extension)] or file.name


def _written(place: Path, base: Path) -> str:
    absolute = Path(os.path.abspath(place))
    try:
        relative = os.path.relpath(absolute, os.path.abspath(base))
    except ValueError:  # another drive of Windows
        return absolute.as_posix()
    return Path(relative).as_posix() if len(relative) <= len(str(absolute)) else absolute.as_posix()


def _is_archive(place: Path) -> bool:
    return place.name.lower().endswith((".tar.gz", ".tgz", ".tar"))


def _kind(place: Path) -> str:
    name = place.name.lower()
    if name.endswith(_ARCHIVES):
        return "cifar"
    if name.endswith(_ARRAYS):
        return "arrays"
    if name.endswith(_TABLE_NAMES):
        return "manifest"
    raise ConfigError(
        f"{place.name!r} holds neither images nor a table of them, which are {', '.join(_TABLES)}, "
        f"{_ARRAYS}, or a CIFAR archive "
        "(.tar.gz). A folder of images is named by the folder."
    )


def _unpacked(folder: Path) -> str:
    """A folder is a CIFAR archive unpacked, a Hugging Face dataset saved to disk, or one of
    images.
    """
    names = {each.name for each in os.scandir(folder)}
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
        Path(each.path)
        for each in os.scandir(folder)
        if each.is_dir() and not each.name.startswith(".")
    ]


def _has_files(folder: Path) -> bool:
    return any(each.is_file() and not each.name.startswith(".") for each in os.scandir(folder))


def _has_metadata(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("metadata.csv", "metadata.jsonl"))


def _near(place: Path) -> str:
    try:
        return did_you_mean(place.name, os.listdir(place.parent))
    except OSError:
        return ""
