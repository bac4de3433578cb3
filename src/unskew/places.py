"""Folders and files named on the command line -> the ``[sources]`` part of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unskew.errors import ConfigError, first_few

_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
# What a column of a table may be called for `init` to take it for the source, the group or the split of an image.
_COLUMNS = {
    "source": ("source", "database", "dataset", "location", "site", "hospital", "camera", "vendor"),
    "group": ("group", "group_id", "patient", "patient_id", "seq_id", "sequence", "burst", "subject", "subject_id"),
    "split": ("split", "fold", "partition"),
    "label": ("label", "class", "category", "species", "target"),
    "id": ("id", "image_id"),
}


_PATHS = ("path", "file_name", "filename")


def find_sources(places: Sequence[Path], folder: Path) -> dict[str, Any]:
    """Settings for these folders or files, paths written relative to ``folder`` where that is shorter.

    Each folder is one source. A single folder is taken apart where its subfolders hold class folders of their own, or look like
    sources: then each subfolder is one source. A file is a table, arrays, or a CIFAR archive; several files are one source each.
    """
    for place in places:
        if not place.exists():
            raise ConfigError(f"there is no folder or file {str(place)!r}.{_near(place)}")
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
    if len(places) == 1:
        return {kind: _written(places[0], folder)} | (_columns(places[0]) if kind == "manifest" else {})
    return {kind: _named(places, folder)}


def _from_folders(folders: Sequence[Path], base: Path) -> dict[str, Any]:
    if len(folders) == 1:
        kind = _unpacked(folders[0])
        if kind:
            return {kind: _written(folders[0], base)}
        below = sorted(_subfolders(folders[0]), key=lambda path: path.name)
        if len(below) > 1 and not _has_files(folders[0]) and all(_subfolders(each) or _has_metadata(each) for each in below):
            folders = below
    return {"folders": _named(folders, base)}


def _named(places: Iterable[Path], base: Path) -> dict[str, str]:
    """A name for each place: its own, with that of the folder above where two have the same."""
    places = [Path(os.path.normpath(place.absolute())) for place in places]
    for depth in range(1, 4):
        names = ["/".join((*place.parts[-depth:-1], place.stem if place.is_file() else place.name)) for place in places]
        if len(set(names)) == len(names):
            return {name: _written(place, base) for name, place in zip(names, places, strict=True)}
    raise ConfigError(f"a place was named twice: {first_few(sorted({str(place) for place in places if places.count(place) > 1}))}.")


def _written(place: Path, base: Path) -> str:
    absolute = Path(os.path.abspath(place))
    try:
        relative = os.path.relpath(absolute, os.path.abspath(base))
    except ValueError:  # another drive of Windows
        return absolute.as_posix()
    return Path(relative).as_posix() if len(relative) <= len(str(absolute)) else absolute.as_posix()


def _kind(place: Path) -> str:
    name = place.name.lower()
    if name.endswith((".tar.gz", ".tgz", ".tar")):
        return "cifar"
    if name.endswith(".npz"):
        return "arrays"
    if name.endswith(_TABLES):
        return "manifest"
    raise ConfigError(
        f"{place.name!r} holds neither images nor a table of them, which are {', '.join(_TABLES)}, .npz, or a CIFAR archive (.tar.gz). "
        "A folder of images is named by the folder."
    )


def _columns(place: Path) -> dict[str, Any]:
    """Roles of the columns of a table, by their names."""
    if place.suffix.lower() == ".json":
        import json

        try:
            images = json.loads(place.read_text(encoding="utf-8")).get("images", [])
        except (ValueError, AttributeError, OSError):
            return {}
        columns = list(images[0]) if images else []
        # Category and id have their own places in COCO.
        return {role: name for role, name in _roles(columns).items() if role in ("source", "group", "split")}
    import pandas as pd

    suffix = place.suffix.lower()
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        return _roles(pq.read_schema(place).names)
    if suffix == ".jsonl":
        with pd.read_json(place, lines=True, chunksize=50) as reader:
            return _roles(list(next(iter(reader)).columns))
    return _roles(list(pd.read_csv(place, nrows=5, sep="\t" if suffix == ".tsv" else ",").columns))


def _roles(columns: Sequence[str]) -> dict[str, Any]:
    """Columns by the names they go by; a table without a column of paths is enough by itself."""
    lower = {str(column).lower(): str(column) for column in columns}
    found = {role: next((lower[name] for name in names if name in lower), None) for role, names in _COLUMNS.items()}
    roles: dict[str, Any] = {role: name for role, name in found.items() if name is not None}
    return roles if any(name in lower for name in _PATHS) else roles | {"images": False}


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
    from unskew.errors import did_you_mean

    parent = place.parent
    return did_you_mean(place.name, [each.name for each in parent.iterdir()]) if parent.is_dir() else ""
