"""WebDataset shards -> Parquet parts that say where each image is within its archive."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unskew.engine.block_engines import Engine
from unskew.engine.blocks import FileBlock
from unskew.engine.written_blocks import OutputFile, write_files
from unskew.errors import DataError
from unskew.files.reading import check_regular, damage_named
from unskew.sources.files import IMAGE_EXTENSIONS

# Roles are texts, whatever a shard writes; other values are numbers or texts.
_TEXTS = ("id", "label", "group", "source", "split")
# A larger member with facts about one image is another thing.
_MOST_FACTS = 1 << 20


def index_shards(engine: Engine, shards: Sequence[str], folder: Path) -> list[str]:
    """Write a Parquet part for each shard, and return their paths; complete ones are left alone.

    A part has a row for each image: ``id`` (its key, or what its .json says), ``label`` (.cls), the
    numbers and texts of its .json, and ``image``, its place in the archive. The archives are not
    compressed, as those that WebDataset reads at random.
    """
    files = []
    for number, shard in enumerate(shards):
        status = _status(shard)
        stamp = f"{status.st_size}-{status.st_mtime_ns}"
        path = str(Path(shard).absolute())
        key = hashlib.sha256(f"{path} {stamp}".encode("utf-8", "surrogatepass")).hexdigest()
        block = FileBlock(path, number, 0, 0, (0, 0), 0, 0, stamp)
        files.append(OutputFile(f"{number:06d}-{Path(shard).stem}.parquet", key, (block,)))
    write_files(engine, write_index, files, None, folder)
    return [str(folder.absolute() / file.name) for file in files]


def _status(shard: str) -> os.stat_result:
    try:
        check_regular(shard)
        return os.stat(shard)
    except OSError as error:
        raise DataError(
            f"the shard {shard!r} cannot be read: {error.strerror or error}.", path=shard
        ) from error


def write_index(file: OutputFile, state: None, path: Path) -> int:
    """Write where the images of one shard are, and return their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shard = file.blocks[0].path
    with damage_named(shard, "a WebDataset shard", silent=False):
        rows = list(_read_shard(shard).values())
    rows = [row for row in rows if "image" in row]
    if not rows:
        raise DataError(f"the shard {shard!r} holds no image.", path=shard, count=0)
    names = ["id", *dict.fromkeys(name for row in rows for name in row if name != "id")]
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    pq.write_table(pa.table(columns), path)
    return len(rows)


def _read_shard(shard: str) -> dict[str, dict[str, Any]]:
    """Return the rows by key: files that differ in what follows the first dot are one image."""
    rows: dict[str, dict[str, Any]] = {}
    with tarfile.open(shard, "r:") as archive:
        for member in archive:
            folder, _, name = member.name.rpartition("/")
            stem, _, ending = name.partition(".")
            if not member.isreg() or not stem:
                continue
            key = f"{folder}/{stem}" if folder else stem
            row = rows.setdefault(key, {"id": key})
            kind = f".{ending.lower().rpartition('.')[2]}"
            if kind in IMAGE_EXTENSIONS:
                place = {"path": shard, "offset": member.offset_data, "size": member.size}
                row.setdefault("image", place)
            elif kind in (".cls", ".json") and member.size <= _MOST_FACTS:
                content = archive.extractfile(member)
                text = b"" if content is None else content.read()
                row |= _facts(text.decode("utf-8"), kind)
    return rows


def _facts(text: str, kind: str) -> dict[str, Any]:
    if kind == ".cls":
        return {"label": text.strip()}
    read = json.loads(text)
    if not isinstance(read, dict):
        return {}
    facts: dict[str, Any] = {}
    for name, value in read.items():
        if name == "image" or value is None:
            continue
        if name in _TEXTS or isinstance(value, str):
            facts[name] = str(value)
        elif isinstance(value, bool | int | float):
            facts[name] = float(value)
    return facts
