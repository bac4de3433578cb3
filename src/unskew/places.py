"""Folders and files named on the command line -> the ``[sources]`` part of a configuration."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from unskew.errors import ConfigError, DataError, did_you_mean, first_few

_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_ARRAYS = ".npz"
# A spreadsheet is no table that can be read, but whoever tries says what to do.
_TABLE_NAMES = (*_TABLES, *(f"{each}.gz" for each in _TABLES), ".ndjson", ".ndjson.gz", ".pq", ".xls", ".xlsx", ".ods")
# What a column of a table may be called for `init` to take it for the source, the group or the split of an image.
_COLUMNS = {
    "source": ("source", "database", "dataset", "location", "site", "hospital", "camera", "vendor"),
    "group": ("group", "group_id", "patient", "patient_id", "seq_id", "sequence", "burst", "subject", "subject_id"),
    "split": ("split", "fold", "partition"),
    "label": ("label", "class", "category", "species", "target"),
    "id": ("id", "image_id"),
}
_PATHS = ("path", "file_name", "filename")
# Folders of these names are splits of one source, not sources.
_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation"}


def find_sources(places: Sequence[Path], folder: Path, *, download: bool = False) -> dict[str, Any]:
    """Settings for these folders or files, paths written relative to ``folder`` where that is shorter.

    Each folder is one source. A single folder is taken apart where its subfolders hold class folders of their own, or look like
    sources: then each subfolder is one source. A file is a table, arrays, or a CIFAR archive; several files are one source each, and so is
    a table that does not say which source each image comes from. With ``download``, an archive need not be there yet.
    """
    for place in places:
        if not (download and _is_archive(place)):
            _check_there(place)
    folders = [place for place in places if place.is_dir()]
    if len(folders) == len(places):
        return _from_folders(folders, folder)
    if folders:
        raise ConfigError(
            f"give either folders or files, not both: {first_few([str(place) for place in folders])} is a folder, "
            f"{first_few([str(place) for place in places if place not in folders])} is not. A table may hold all sources (a column source)."
        )
    kinds = {_kind(place) for place in places}
    if len(kinds) > 1:
        raise ConfigError(f"these files are of different kinds ({', '.join(sorted(kinds))}); give files of one kind, or one table of all.")
    (kind,) = kinds
    roles = _common_columns(places) if kind == "manifest" else {}
    if len(places) == 1 and (kind != "manifest" or "source" in roles):
        return {kind: _written(places[0], folder)} | roles
    return {kind: _named(places, folder)} | {role: name for role, name in roles.items() if role != "source"}


def _check_there(place: Path) -> None:
    try:
        there = place.exists()
        if there and place.is_dir():
            os.scandir(place).close()
    except OSError as error:
        raise DataError(f"{str(place)!r} cannot be read: {error.strerror or error}.") from None
    if not there:
        raise ConfigError(f"there is no folder or file {str(place)!r}.{_near(place)}")


def _from_folders(folders: Sequence[Path], base: Path) -> dict[str, Any]:
    if len(folders) == 1:
        kind = _unpacked(folders[0])
        if kind:
            return {kind: _written(folders[0], base)}
        below = sorted(_subfolders(folders[0]), key=lambda path: path.name)
        are_splits = {each.name.lower() for each in below} <= _SPLITS
        if (
            len(below) > 1
            and not are_splits
            and not _has_files(folders[0])
            and all(_subfolders(each) or _has_metadata(each) for each in below)
        ):
            folders = below
    return {"folders": _named(folders, base)}


def _named(places: Iterable[Path], base: Path) -> dict[str, str]:
    """A name for each place: its own, with that of the folder above where two have the same."""
    places = [Path(os.path.normpath(place.absolute())) for place in places]
    for depth in range(1, 4):
        names = ["/".join((*place.parts[-depth:-1], _stem(place) if place.is_file() else place.name)) for place in places]
        if len(set(names)) == len(names):
            return {name: _written(place, base) for name, place in zip(names, places, strict=True)}
    raise ConfigError(f"a place was named twice: {first_few(sorted({str(place) for place in places if places.count(place) > 1}))}.")


def _stem(file: Path) -> str:
    """The name of a file without what says its format."""
    extension = max((each for each in (*_ARCHIVES, *_TABLE_NAMES, _ARRAYS) if file.name.lower().endswith(each)), key=len)
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
        f"{place.name!r} holds neither images nor a table of them, which are {', '.join(_TABLES)}, {_ARRAYS}, or a CIFAR archive (.tar.gz). "
        "A folder of images is named by the folder."
    )


def _common_columns(places: Sequence[Path]) -> dict[str, Any]:
    """What the columns of these tables say, where all of them say the same."""
    first, *others = [_columns(place) for place in places]
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _columns(place: Path) -> dict[str, Any]:
    """Roles of the columns of a table, by their names; none of one that cannot be read, of which whoever reads it says why."""
    import zlib

    try:
        kind = "".join(place.suffixes[-2:] if place.suffix.lower() == ".gz" else place.suffixes[-1:]).lower()
        if kind in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            return _roles(pq.read_schema(place).names)
        with _opened(place) as stream:
            if kind.startswith(".json") and not kind.startswith(".jsonl"):
                return _columns_of_json(json.load(stream))
            if kind.startswith((".jsonl", ".ndjson")):
                return _roles(list(dict.fromkeys(name for line in islice(stream, 50) if line.strip() for name in json.loads(line))))
            return _columns_of_csv(stream.readline(), "\t" if kind.startswith(".tsv") else ",")
    except (ValueError, TypeError, LookupError, OSError, EOFError, zlib.error, RecursionError):
        return {}


def _opened(place: Path) -> IO[str]:
    opener: Any = gzip.open if place.suffix.lower() == ".gz" else open
    stream: IO[str] = opener(place, "rt", encoding="utf-8-sig", newline="")
    return stream


def _columns_of_json(document: Any) -> dict[str, Any]:
    """Of a COCO file those of its images; else of its records."""
    if isinstance(document, list):
        return _roles(list(document[0]))
    # Category, id and path have their own places in COCO.
    return {role: name for role, name in _roles(list(document["images"][0])).items() if role in ("source", "group", "split")}


def _columns_of_csv(header: str, expected: str) -> dict[str, Any]:
    """Spreadsheets of many countries write semicolons."""
    other = next((each for each in (";", "\t", "|", ",") if expected not in header and each in header), None)
    names = next(csv.reader([header.strip()], delimiter=other or expected), [])
    return _roles([name.strip() for name in names]) | ({"delimiter": other} if other else {})


def _roles(columns: Sequence[str]) -> dict[str, Any]:
    """Columns by the names they go by; a table without a column of paths is enough by itself."""
    lower = {str(column).lower(): str(column) for column in columns}
    found = {role: next((lower[name] for name in names if name in lower), None) for role, names in _COLUMNS.items()}
    roles: dict[str, Any] = {role: name for role, name in found.items() if name is not None}
    path = next((lower[name] for name in _PATHS if name in lower), None)
    if path is None:
        return roles | {"images": False}
    # Written in small letters it is found without being said.
    return roles if path in _PATHS else roles | {"path": path}


def _unpacked(folder: Path) -> str | None:
    """A folder that is a CIFAR archive unpacked, or a Hugging Face dataset saved to disk."""
    names = {each.name for each in os.scandir(folder)}
    if {"batches.meta", "meta", "batches.meta.txt", "fine_label_names.txt"} & names and {
        "data_batch_1",
        "data_batch_1.bin",
        "train",
        "train.bin",
    } & names:
        return "cifar"
    return "huggingface" if {"dataset_info.json", "state.json"} <= names or "dataset_dict.json" in names else None


def _subfolders(folder: Path) -> list[Path]:
    return [Path(each.path) for each in os.scandir(folder) if each.is_dir() and not each.name.startswith(".")]


def _has_files(folder: Path) -> bool:
    return any(each.is_file() and not each.name.startswith(".") for each in os.scandir(folder))


def _has_metadata(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("metadata.csv", "metadata.jsonl"))


def _near(place: Path) -> str:
    try:
        return did_you_mean(place.name, os.listdir(place.parent))
    except OSError:
        return ""
