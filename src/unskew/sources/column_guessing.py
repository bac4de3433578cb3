"""The likely roles of the columns of a table or dataset.

They are judged by their names; paths of images also by what the first rows hold.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from unskew.files.reading import parquet_columns
from unskew.sources.files import IMAGE_EXTENSIONS
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
# Rows that are looked at, and the share of a column's entries that must look like files of images.
_SAMPLE, _MOST = 50, 0.9


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
        return _roles(parquet_columns(path), _first_of_parquet(path), path.parent)
    with opened_table(str(path)) as stream:
        if kind.startswith((".jsonl", ".ndjson")):
            records = [json.loads(line) for line in islice(stream, _SAMPLE) if line.strip()]
            names = list(dict.fromkeys(name for record in records for name in record))
            return _roles(names, records, path.parent)
        if kind.startswith(".json"):
            return _columns_of_json(json.load(stream), path.parent)
        expected = "\t" if kind.startswith(".tsv") else ","
        return _columns_of_csv(stream, expected, path.parent)


def _first_of_parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=_SAMPLE), None)
    return [] if batch is None else batch.to_pylist()


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


def _columns_of_json(document: Any, folder: Path) -> dict[str, Any]:
    """Read the fields of the images of a COCO file, else of the records."""
    if isinstance(document, list):
        return _roles(list(document[0]), document[:_SAMPLE], folder)
    # Category, id and path have their own fields in COCO.
    return {
        role: name
        for role, name in _roles_by_name(list(document["images"][0])).items()
        if role in ("source", "group", "split")
    }


def _columns_of_csv(stream: Iterable[str], expected: str, folder: Path) -> dict[str, Any]:
    """Split the header; spreadsheets of many countries write semicolons."""
    header, *lines = islice(stream, _SAMPLE)
    other = next(
        (mark for mark in (";", "\t", "|", ",") if expected not in header and mark in header), None
    )
    names, *rows = csv.reader([header.strip(), *lines], delimiter=other or expected)
    names = [name.strip() for name in names]
    records = [dict(zip(names, row, strict=False)) for row in rows]
    return _roles(names, records, folder) | ({"delimiter": other} if other else {})


def _roles_by_name(columns: Sequence[str]) -> dict[str, Any]:
    """Find the columns with the usual names, in upper or lower case."""
    lower = {str(column).lower(): str(column) for column in columns}
    return {
        role: next(lower[name] for name in names if name in lower)
        for role, names in _COLUMNS.items()
        if any(name in lower for name in names)
    }


def _roles(
    columns: Sequence[str], records: Sequence[Mapping[str, Any]], folder: Path
) -> dict[str, Any]:
    """Find the same in a table; without a column of paths it needs no images.

    The column of paths has a usual name, or most of its entries look like files of images;
    ``records`` are the first rows, ``folder`` is that of the table.
    """
    roles = _roles_by_name(columns)
    named = [str(column) for name in _PATHS for column in columns if str(column).lower() == name]
    others = [str(column) for column in columns if str(column) not in roles.values()]
    paths = {name: _image_paths(records, name) for name in [*named, *others]}
    path = next((name for name in named if paths[name]), None)
    path = path or next((name for name in others if paths[name]), None) or next(iter(named), None)
    if path is None:
        return roles | {"images": False}
    # In lower case, a usual name is found without being named.
    naming = {} if path in _PATHS else {"path": path}
    return roles | naming | _root_of(paths[path], folder)


def _image_paths(records: Sequence[Mapping[str, Any]], column: str) -> list[str]:
    """Return the entries of a column if nearly all look like files of images; else none."""
    values = [record.get(column) for record in records]
    texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
    images = [text for text in texts if text.lower().endswith(tuple(IMAGE_EXTENSIONS))]
    return images if texts and len(images) >= _MOST * len(texts) else []


def _root_of(paths: Sequence[str], folder: Path) -> dict[str, Any]:
    """Find the folder that paths start from, where it is next to or above the table's own."""
    if not paths or _has_some(folder, paths):
        return {}
    near = [folder.parent, *_folders_in(folder), *_folders_in(folder.parent)]
    root = next((place for place in near if _has_some(place, paths)), None)
    return {} if root is None else {"root": root}


def _has_some(folder: Path, paths: Sequence[str]) -> bool:
    return any((folder / path.replace("\\", "/")).is_file() for path in paths[:5])


def _folders_in(folder: Path) -> list[Path]:
    return sorted(entry for entry in islice(folder.iterdir(), 1000) if entry.is_dir())
