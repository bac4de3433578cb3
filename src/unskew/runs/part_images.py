"""Images behind Parquet parts: representations computed by an engine, as parts beside the others.

The images are files that a column names, or bytes within a column; nothing of them travels but
their numbers. Chunks of some thousand images are written as they are done, so that a run that was
stopped computes only what is missing; then the chunks of a part are joined.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.engine.block_engines import opened_engine
from unskew.engine.blocks import cut_blocks, inspect_part
from unskew.engine.written_blocks import OutputFile, missing_files, write_files
from unskew.errors import ConfigError, DataError, ImageError, first_few
from unskew.files.reading import check_regular
from unskew.records.design_weights import DESIGN_WEIGHT
from unskew.records.pool import Images, RawImage
from unskew.represent.base import Representation, column_names
from unskew.represent.decode import MAX_PIXELS, pillow_unlimited
from unskew.represent.image_tasks import Worker
from unskew.represent.user_functions import read_representations
from unskew.sources.files import MAX_BYTES, FileImages
from unskew.sources.parquet_parts import with_parts_beside
from unskew.sources.part_pool import PartPool
from unskew.sources.part_survey import PartReader

# Images of a chunk: seconds of work, so that little is lost, and megabytes of encoded images.
CHUNK = 1024
log = logging.getLogger(__name__)


class ColumnImages(Images):
    """The images of a column: paths below ``base``, bytes, or a mapping of one of these.

    A mapping with an offset and a size is a piece of the file, as of an archive.
    """

    def __init__(self, base: str, values: Sequence[Any]) -> None:
        super().__init__(len(values))
        self.base, self.values = os.path.realpath(base), values

    def read(self, row: int) -> RawImage:
        value, piece = self.values[row], None
        if isinstance(value, Mapping):
            piece = value if "offset" in value and "size" in value else None
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes):
            return value
        if not isinstance(value, str) or not value:
            raise ImageError(f"the row holds {type(value).__name__}, no path and no bytes")
        files = FileImages(self.base, [value])
        if not Path(os.path.realpath(files.place(0))).is_relative_to(self.base):
            raise ImageError(f"its path leads out of {self.base!r}")
        if piece is None:
            return files.read(0)
        return _read_piece(files.place(0), int(piece["offset"]), int(piece["size"]))


def _read_piece(file: str, offset: int, size: int) -> bytes:
    if not 0 < size <= MAX_BYTES or offset < 0:
        raise ImageError(f"{size} bytes at {offset} of {file!r} are no image")
    try:
        check_regular(file)
        with open(file, "rb") as stream:
            stream.seek(offset)
            content = stream.read(size)
    except OSError as error:
        raise ImageError(f"the file cannot be read ({error.strerror or error})") from error
    if len(content) < size:
        raise ImageError(f"{file!r} ends before the image does")
    return content


@dataclass(frozen=True)
class Prepare:
    """Makes representations, networks loaded, once in each process; equal texts, the same ones."""

    features: str

    def __call__(self) -> tuple[Representation, ...]:
        return tuple(one.placed(1) for one in read_representations(json.loads(self.features)))


@dataclass(frozen=True)
class ImageState:
    """What a chunk is computed from: the column of images, and how they are read."""

    reader: PartReader
    column: str
    base: str
    max_pixels: int | None


def represent_parts(
    pool: PartPool,
    features: Sequence[Any],
    folder: str | os.PathLike[str],
    *,
    column: str | None = None,
    base: str | os.PathLike[str] = ".",
    engine: Any = None,
    tolerance: float = 0.01,
    max_pixels: int | None = MAX_PIXELS,
) -> PartPool:
    """Compute representations of all images, and return the pool with their columns.

    Parameters
    ----------
    pool : its parts have a column of images.
    features : names of representations, or tables of a name and settings.
    folder : where the numbers are kept, seen by all workers; what is there is not computed again.
    column : of paths below ``base``, or of encoded images; None: ``path`` or ``image``.
    engine : as of `unskew.debias`; None: the pool's.
    tolerance : the share of images that may be unusable; they get design weight 0.
    max_pixels : larger images are not decoded.
    """
    if pool.reader.beside is not None:
        raise ConfigError(
            "one place has all features of images in parts: those that were computed elsewhere, or "
            "those that are computed here. Write the former into the parts.",
            key="represent.features",
        )
    representations = read_representations(list(features))
    _check_by_row(representations)
    column = _find_column(pool, column)
    text = json.dumps(list(features), sort_keys=True)
    facts = json.dumps([one.to_dict() for one in representations], sort_keys=True, default=str)
    state = ImageState(pool.reader, column, str(Path(base).absolute()), max_pixels)
    key = hashlib.sha256(f"{facts} {column} {state.base} {max_pixels}".encode()).hexdigest()
    with opened_engine(pool.engine if engine is None else engine) as opened:
        out = Path(folder).absolute() / f"parts-{key[:16]}"
        parts = _part_files(pool, key)
        chunks = _chunk_files(pool, missing_files(parts, out), key)
        write_files(opened, _write_chunk, chunks, state, out, setup=Prepare(text))
        lost = write_files(opened, _join_chunks, parts, str(out), out)
        shutil.rmtree(out / "chunks", ignore_errors=True)
        _judge(lost, len(pool), tolerance)
        beside = [inspect_part(str(out / file.name)) for file in parts]
        reader = with_parts_beside(opened, pool.parts, beside, pool.reader, "id")
    if any(one["lost"] for one in lost):
        assert reader.beside is not None
        named = {**reader.beside.columns, DESIGN_WEIGHT: DESIGN_WEIGHT}
        reader = replace(
            reader,
            columns={**reader.columns, DESIGN_WEIGHT: DESIGN_WEIGHT},
            beside=replace(reader.beside, columns=named),
        )
    return PartPool(pool.parts, pool.blocks, reader, pool.engine)


def _check_by_row(representations: Sequence[Representation]) -> None:
    """Refuse what depends on all images at once."""
    for one in representations:
        if type(one).finish is Representation.finish or getattr(one, "components", None) == 0:
            continue
        raise ConfigError(
            f"{one.name} has principal components of all images, which are not computed block by "
            "block: set its components to 0, and let Tilt(components=…) take some, if need be.",
            key="represent.features",
            value=one.name,
        )


def _find_column(pool: PartPool, column: str | None) -> str:
    named = [column] if column is not None else ["path", "image"]
    for name in named:
        if name in pool.reader.columns:
            return name
    raise DataError(
        f"the parts have no column {' or '.join(map(repr, named))}, which would name or hold their "
        f"images; their columns are {first_few(pool.columns, 12)}.",
        column=named[0],
        columns=list(pool.columns),
    )


def _part_files(pool: PartPool, key: str) -> list[OutputFile]:
    return [
        OutputFile(
            f"part-{number:06d}.parquet",
            f"{key} {part.path} {part.stamp}",
            tuple(block for block in pool.blocks if block.part == number),
        )
        for number, part in enumerate(pool.parts)
    ]


def _chunk_files(pool: PartPool, missing: Sequence[OutputFile], key: str) -> list[OutputFile]:
    wanted = {file.name for file in missing}
    files = []
    for block in cut_blocks(pool.parts, CHUNK):
        name = f"part-{block.part:06d}"
        if f"{name}.parquet" in wanted:
            own = f"{key} {block.path} {block.stamp}"
            files.append(OutputFile(f"chunks/{name}/{block.start:012d}.parquet", own, (block,)))
    return files


def _write_chunk(
    file: OutputFile, state: ImageState, path: Path, representations: tuple[Representation, ...]
) -> dict[str, Any]:
    """Compute the numbers of some images, in the order of their rows."""
    import pandas as pd

    (block,) = file.blocks
    table = state.reader.read(block, ["id", state.column, DESIGN_WEIGHT])
    images = ColumnImages(state.base, table[state.column].tolist())
    with pillow_unlimited():
        worker = Worker(images, representations, None, state.max_pixels)
        result = worker.work(range(len(table)))
    if len(result.failed) == len(table):
        reason = next(iter(result.failed.values()))
        raise DataError(
            f"none of the {len(table)} images of rows {block.start} to {block.stop} of "
            f"{block.path!r} can be used: {reason}.",
            path=block.path,
            count=len(table),
        )
    columns: dict[str, Any] = {"id": table["id"].to_numpy()}
    for number, row_m, value_md in result.values:
        columns |= _columns_of(representations[number], row_m, value_md, len(table))
    usable_n = np.ones(len(table))
    usable_n[list(result.failed)] = 0.0
    own_n = table[DESIGN_WEIGHT].to_numpy() if DESIGN_WEIGHT in table.columns else 1.0
    columns[DESIGN_WEIGHT] = usable_n * own_n
    pd.DataFrame(columns).to_parquet(path, index=False)
    first = next(iter(result.failed.items()), None)
    shown = "" if first is None else f"{table['id'].iloc[first[0]]}: {first[1]}"
    return {"lost": len(result.failed), "first": shown}


def _columns_of(one: Representation, row_m: Sequence[int], value_md: Any, n: int) -> dict[str, Any]:
    """Name the columns of a representation; rows of unusable images hold 0, or no text."""
    names = one.columns or (
        (one.name,)
        if value_md.shape[1] == 1
        else column_names(one.name, map(str, range(value_md.shape[1])))
    )
    columns: dict[str, Any] = {}
    for at, name in enumerate(names):
        is_text = name in one.text_columns
        values = np.full(n, None, dtype=object) if is_text else np.zeros(n, dtype=value_md.dtype)
        values[list(row_m)] = value_md[:, at]
        columns[name] = values
    return columns


def _join_chunks(file: OutputFile, out: str, path: Path) -> dict[str, Any]:
    """Write the numbers of one part, and count its unusable images."""
    import pyarrow.parquet as pq

    every = sorted((Path(out) / "chunks").glob("*/*.parquet"))
    chunks = [chunk for chunk in every if chunk.parent.name == Path(file.name).stem]
    marks = [chunk.parent / ".complete" / f"{chunk.name}.json" for chunk in chunks]
    results = [json.loads(mark.read_text(encoding="utf-8"))["result"] for mark in marks]
    # A part without rows has the columns of the others.
    like = every or sorted(Path(out).glob("part-*.parquet"))
    with pq.ParquetWriter(path, pq.read_schema(like[0]).remove_metadata()) as writer:
        for chunk in chunks:
            writer.write_table(pq.read_table(chunk).replace_schema_metadata(None))
    shown = next((one["first"] for one in results if one["first"]), "")
    return {"lost": sum(one["lost"] for one in results), "first": shown}


def _judge(lost: Sequence[Mapping[str, Any]], images: int, tolerance: float) -> None:
    """Refuse too many unusable images; a few are named."""
    count = sum(one["lost"] for one in lost)
    shown = first_few([one["first"] for one in lost if one["first"]])
    if count > tolerance * images:
        raise DataError(
            f"{count:,} of {images:,} images cannot be used, more than the tolerance of "
            f"{tolerance:g}: {shown}.",
            count=count,
            limit=int(tolerance * images),
        )
    if count:
        log.warning("%s of %s images cannot be used, and get weight 0: %s", count, images, shown)
