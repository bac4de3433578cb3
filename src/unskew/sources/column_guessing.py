"""What the columns of a place named on the command line may stand for, by their names; nothing but
names is read.
"""

from __future__ import annotations

import csv
import gzip
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

# What a column of a table may be called for `init` to take it for the source, the group or the
# split of an image.
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


def common_columns(kind: str, places: Sequence[Path]) -> dict[str, Any]:
    """``{role: column}`` of tables (``manifest``), ``arrays`` or datasets (``huggingface``), where
    all of them say the same.

    Of a place that cannot be read there are none: whoever reads it says why.
    """
    read = {
        "manifest": _columns_of_table,
        "arrays": _columns_of_arrays,
        "huggingface": _columns_of_dataset,
    }[kind]
    first, *others = [_or_nothing(read, place) for place in places]
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }


def _or_nothing(read: Callable[[Path], dict[str, Any]], place: Path) -> dict[str, Any]:
    try:
        return read(place)
    except (
        ValueError,
        TypeError,
        LookupError,
        OSError,
        EOFError,
        RecursionError,
        zlib.error,
        zipfile.BadZipFile,
    ):
        return {}


def _columns_of_table(place: Path) -> dict[str, Any]:
    kind = "".join(
        place.suffixes[-2:] if place.suffix.lower() == ".gz" else place.suffixes[-1:]
    ).lower()
    if kind in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        return _roles(pq.read_schema(place).names)
    with _opened(place) as stream:
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


def _columns_of_arrays(place: Path) -> dict[str, Any]:
    with zipfile.ZipFile(place) as archive:
        return _found_roles([Path(name).stem for name in archive.namelist()])


def _columns_of_dataset(folder: Path) -> dict[str, Any]:
    """Of a dataset with splits, those of the first; a column of images has a type that says so."""
    if (folder / "dataset_dict.json").is_file():
        folder = folder / str(
            json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"][0]
        )
    features = json.loads((folder / "dataset_info.json").read_text(encoding="utf-8"))["features"]
    return _found_roles([name for name, said in features.items() if said.get("_type") != "Image"])


def _opened(place: Path) -> IO[str]:
    opener: Any = gzip.open if place.suffix.lower() == ".gz" else open
    stream: IO[str] = opener(place, "rt", encoding="utf-8-sig", newline="")
    return stream


def _columns_of_json(document: Any) -> dict[str, Any]:
    """Of a COCO file those of its images; else of its records."""
    if isinstance(document, list):
        return _roles(list(document[0]))
    # Category, id and path have their own places in COCO.
    return {
        role: name
        for role, name in _roles(list(document["images"][0])).items()
        if role in ("source", "group", "split")
    }


def _columns_of_csv(header: str, expected: str) -> dict[str, Any]:
    """Spreadsheets of many countries write semicolons."""
    other = next(
        (each for each in (";", "\t", "|", ",") if expected not in header and each in header), None
    )
    names = next(csv.reader([header.strip()], delimiter=other or expected), [])
    return _roles([name.strip() for name in names]) | ({"delimiter": other} if other else {})


def _found_roles(columns: Sequence[str]) -> dict[str, Any]:
    """Columns by the names they go by, whatever their case."""
    lower = {str(column).lower(): str(column) for column in columns}
    found = {
        role: next((lower[name] for name in names if name in lower), None)
        for role, names in _COLUMNS.items()
    }
    return {role: name for role, name in found.items() if name is not None}


def _roles(columns: Sequence[str]) -> dict[str, Any]:
    """The same of a table, which without a column of paths is enough by itself."""
    roles = _found_roles(columns)
    path = next(
        (str(column) for name in _PATHS for column in columns if str(column).lower() == name), None
    )
    if path is None:
        return roles | {"images": False}
    # Written in small letters it is found without being said.
    return roles if path in _PATHS else roles | {"path": path}
