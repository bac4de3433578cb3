"""The likely roles of the columns of a table or dataset, judged by their names alone."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from unskew.files.reading import parquet_columns
from unskew.sources.tables import opened_table

# The names by which `init` recognises the source, the group … of an image.
_COLUMNS = {
    "source": ("source", "database", "dataset", "location", "site", "hospital", "camera", "vendor"),
    "group": (
        "group",
        "group_id",
        "patient",
        "patient_id",
        "seq_id",
        "sequence",
        "burst",
        "subject",
        "subject_id",
    ),
    "split": ("split", "fold", "partition"),
    "label": ("label", "labels", "class", "category", "species", "target"),
    "id": ("id", "image_id"),
}
_PATHS = ("path", "file_name", "filename")


def common_columns(kind: str, paths: Sequence[Path]) -> dict[str, Any]:
    """Return ``{role: column}`` where all tables, arrays or datasets agree.

    ``kind`` is manifest, arrays or huggingface. A file that cannot be read has no columns here: its
    reader explains why.
    """
    read = {
        "manifest": _columns_of_table,
        "arrays": _columns_of_arrays,
        "huggingface": _columns_of_dataset,
    }[kind]
    first, *others = [_or_nothing(read, path) for path in paths]
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }


def _or_nothing(read: Callable[[Path], dict[str, Any]], path: Path) -> dict[str, Any]:
    try:
        return read(path)
    except Exception:  # whatever is wrong with the file is said by its reader
        return {}


def _columns_of_table(path: Path) -> dict[str, Any]:
    kind = "".join(
        path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    ).lower()
    if kind in (".parquet", ".pq"):
        return _roles(parquet_columns(path))
    with opened_table(str(path)) as stream:
        if kind.startswith((".jsonl", ".ndjson")):
            return _roles(
                list(
                    dict.fromkeys(
                        name
                        for line in islice(stream, 50)
                        if line.strip()
                        for name in json.loads(line)
                    )
                )
            )
        if kind.startswith(".json"):
            return _columns_of_json(json.load(stream))
        return _columns_of_csv(stream.readline(), "\t" if kind.startswith(".tsv") else ",")


def _columns_of_arrays(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return _roles_by_name([Path(name).stem for name in archive.namelist()])


def _columns_of_dataset(folder: Path) -> dict[str, Any]:
    """Read the columns of a dataset, or of its first split, but for those of images."""
    if (folder / "dataset_dict.json").is_file():
        folder = folder / str(
            json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"][0]
        )
    features = json.loads((folder / "dataset_info.json").read_text(encoding="utf-8"))["features"]
    return _roles_by_name(
        [name for name, feature in features.items() if feature.get("_type") != "Image"]
    )


def _columns_of_json(document: Any) -> dict[str, Any]:
    """Read the fields of the images of a COCO file, else of the records."""
    if isinstance(document, list):
        return _roles(list(document[0]))
    # Category, id and path have their own fields in COCO.
    return {
        role: name
        for role, name in _roles(list(document["images"][0])).items()
        if role in ("source", "group", "split")
    }


def _columns_of_csv(header: str, expected: str) -> dict[str, Any]:
    """Split the header; spreadsheets of many countries write semicolons."""
    other = next(
        (mark for mark in (";", "\t", "|", ",") if expected not in header and mark in header), None
    )
    names = next(csv.reader([header.strip()], delimiter=other or expected), [])
    return _roles([name.strip() for name in names]) | ({"delimiter": other} if other else {})


def _roles_by_name(columns: Sequence[str]) -> dict[str, Any]:
    """Find the columns with the usual names, in upper or lower case."""
    lower = {str(column).lower(): str(column) for column in columns}
    return {
        role: next(lower[name] for name in names if name in lower)
        for role, names in _COLUMNS.items()
        if any(name in lower for name in names)
    }


def _roles(columns: Sequence[str]) -> dict[str, Any]:
    """Find the same in a table; without a column of paths it needs no images."""
    roles = _roles_by_name(columns)
    path = next(
        (str(column) for name in _PATHS for column in columns if str(column).lower() == name), None
    )
    if path is None:
        return roles | {"images": False}
    # In lower case it is found without being named.
    return roles if path in _PATHS else roles | {"path": path}
