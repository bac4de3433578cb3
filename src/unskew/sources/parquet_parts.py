"""Folders and globs of Parquet parts -> a pool over them, with every part's footer checked."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unskew.engine.block_engines import Engine, opened_engine
from unskew.engine.blocks import (
    BLOCK_ROWS,
    PartFile,
    check_same_columns,
    cut_blocks,
    filled_part,
    inspect_part,
    remote_file,
)
from unskew.engine.row_blocks import by_number
from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.files.reading import damage_named
from unskew.records.levels import level_text
from unskew.records.pool_table import ROLES
from unskew.sources.files import near_names
from unskew.sources.part_pool import PartPool
from unskew.sources.part_survey import PartReader
from unskew.sources.parts_beside import PartsBeside, align_parts, find_vectors, split_vectors


def read_parts(
    paths: Any,
    *,
    base: str | os.PathLike[str] = ".",
    source: str | None = None,
    label: str | None = "label",
    id: str | None = "id",
    group: str | None = None,
    split: str | None = None,
    design_weight: str | None = None,
    features: Any = None,
    block_rows: int | None = None,
    engine: Any = None,
) -> PartPool:
    """Make a pool over Parquet parts, given where they are and the names of their columns.

    ``paths`` is a folder, a glob, a file, a URI of such (s3://, gs://), or several; or one of these
    for each source, {name: folder}. ``features``: parts with more columns of the same images, such
    as embeddings, or {"file": them, "id": their column of ids}. Relative paths start from ``base``.
    """
    listed: list[tuple[str | None, str]]
    if isinstance(paths, Mapping):
        listed = [
            (level_text(name), path) for name in paths for path in find_parts(paths[name], base)
        ]
    else:
        listed = [(None, path) for path in find_parts(paths, base)]
    if not listed:
        raise ConfigError("there are no parts: paths is empty.", option="paths", value=paths)
    twice = [path for path, count in Counter(path for _, path in listed).items() if count > 1]
    if twice:
        raise DataError(f"the part {twice[0]!r} is named twice.", path=twice[0])
    place, id_beside = _place_beside(features)
    listed_beside = [] if features is None else find_parts(place, base)
    with opened_engine(engine) as opened:
        parts = opened.map_blocks(_inspect, [path for _, path in listed], None)
        beside = opened.map_blocks(_inspect, listed_beside, None)
    check_same_columns(parts)
    if not any(part.rows for part in parts):
        raise DataError(
            f"none of the {len(parts)} parts has a row ({first_few([p.path for p in parts])}).",
            path=parts[0].path,
        )
    named = {"id": id, "label": label, "group": group, "split": split}
    named["design_weight"] = design_weight
    if not isinstance(paths, Mapping):
        named["source"] = "source" if source is None else source
    columns = _columns_by_role(filled_part(parts), named)
    by_part = None
    if isinstance(paths, Mapping):
        columns.pop("source", None)
        by_part = tuple(str(name) for name, _ in listed)
    columns, position = split_vectors(columns, find_vectors(parts, columns))
    reader = PartReader(columns, by_part, position)
    if beside:
        with opened_engine(engine) as opened:
            reader = with_parts_beside(opened, parts, beside, reader, id_beside)
    return PartPool(parts, cut_blocks(parts, block_rows or BLOCK_ROWS), reader, engine)


def _place_beside(features: Any) -> tuple[Any, str]:
    """Return where parts of features are, and their column of ids."""
    if not isinstance(features, Mapping):
        return features, "id"
    id_column = features.get("id", "id")
    if not {"file"} <= set(features) <= {"file", "id"} or not isinstance(id_column, str):
        raise ConfigError(
            "features is where their parts are, or {'file': where they are, 'id': their column of "
            f"ids}}; got {dict(features)!r}.",
            option="features",
            value=str(dict(features)),
        )
    return features["file"], id_column


def with_parts_beside(
    engine: Engine,
    parts: Sequence[PartFile],
    beside: Sequence[PartFile],
    reader: PartReader,
    id_column: str,
) -> PartReader:
    """Add the columns of parts beside: those that the pool does not have, and that are no roles."""
    check_same_columns(beside)
    types = dict(filled_part(beside).types)
    if id_column not in types:
        raise DataError(
            f"the parts of features have no column {id_column!r}, the ids of the images; their "
            f"columns are {first_few(list(types), 12)}.{did_you_mean(id_column, types)}",
            column=id_column,
            path=beside[0].path,
        )
    align_parts(engine, parts, beside, (reader.columns["id"], id_column))
    new = {
        name: name
        for name in types
        if name not in (id_column, "source", *ROLES, *reader.columns)
        and not name.startswith("__index_level_")
    }
    columns, position = split_vectors(new, find_vectors(beside, new))
    return replace(
        reader,
        columns={**reader.columns, **columns},
        position={**reader.position, **position},
        beside=PartsBeside(tuple(beside), columns, id_column),
    )


def _inspect(path: str, state: None) -> PartFile:
    return inspect_part(path)


def _columns_by_role(part: PartFile, named: Mapping[str, str | None]) -> dict[str, str]:
    """{name in the pool: name in the files}."""
    own = [name for name, _ in part.types if not name.startswith("__index_level_")]
    columns = {name: name for name in own}
    for role, column in named.items():
        if column is None or (role == "label" and column == "label" and column not in own):
            continue
        if column not in own:
            raise DataError(
                f"the parts have no column {column!r}, which was named as the {role} of the "
                f"images; their columns are {first_few(own, 12)}.{did_you_mean(column, own)}",
                column=column,
                path=part.path,
                columns=own,
            )
        if column != role and role in own:
            raise DataError(
                f"the column {column!r} was named as the {role} of the images, but the parts also "
                f"have a column {role!r}. Drop or rename one of the two.",
                columns=[column, role],
                path=part.path,
            )
        if column != role:
            columns.pop(column, None)
        columns[role] = column
    return columns


def find_parts(place: Any, base: str | os.PathLike[str] = ".") -> list[str]:
    """List the files that a folder, a glob, a file or several of them mean, by number."""
    if isinstance(place, Sequence) and not isinstance(place, str | bytes):
        return [path for one in place for path in find_parts(one, base)]
    if not isinstance(place, str | os.PathLike):
        raise ConfigError(
            f"parts are named by a folder, a glob or a file; got {place!r}.",
            option="paths",
            value=repr(place),
        )
    text = os.fspath(place)
    if "\0" in text or not text:
        raise ConfigError(f"{text!r} is no path.", option="paths", value=text)
    files = _find_remote(text) if "://" in text else _find_local(os.path.join(base, text))
    if not files:
        raise DataError(
            f"no Parquet part is found at {text!r}."
            f"{'' if '://' in text else near_names(os.path.join(base, text))}",
            path=text,
        )
    return files


def _is_part(name: str) -> bool:
    return name.endswith((".parquet", ".pq")) and not name.startswith((".", "_"))


def _find_local(path: str) -> list[str]:
    if os.path.isdir(path):
        files = [file for file in Path(path).rglob("*") if _is_part(file.name) and file.is_file()]
        return [str(file) for file in sorted(files, key=by_number)]
    if os.path.lexists(path):
        return [path]
    files = [Path(name) for name in glob.glob(path, recursive=True) if os.path.isfile(name)]
    return [str(file) for file in sorted(files, key=by_number)]


def _find_remote(uri: str) -> list[str]:
    from pyarrow import fs

    root = uri
    while any(sign in root for sign in "*?["):
        root = root.rsplit("/", 1)[0]
    system, inner = remote_file(root)
    with damage_named(uri, "a folder"):
        info = system.get_file_info(inner)
        if info.type == fs.FileType.File:
            return [uri]
        if info.type == fs.FileType.NotFound:
            return []
        listed = system.get_file_info(fs.FileSelector(inner, recursive=True))
    files = [entry.path for entry in listed if entry.type == fs.FileType.File]
    if root != uri:
        pattern = inner.rstrip("/") + uri[len(root) :]
        files = [path for path in files if fnmatch.fnmatchcase(path, pattern)]
    else:
        files = [path for path in files if _is_part(path.rsplit("/", 1)[-1])]
    scheme = uri.split("://", 1)[0]
    return [f"{scheme}://{path}" for path in sorted(files, key=lambda path: by_number(Path(path)))]
