"""Parquet parts with more columns of the same images, such as embeddings; columns of vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.engine.block_engines import Engine
from unskew.engine.blocks import FileBlock, PartFile, cut_blocks, filled_part, open_part, read_block
from unskew.errors import DataError
from unskew.files.reading import damage_named
from unskew.records.vector_columns import vector_names

if TYPE_CHECKING:
    import numpy.typing as npt

_VECTOR = re.compile(
    r"(?:fixed_size_|large_)?list<[^<>]*: (?:halffloat|float|double)[^<>]*>(?:\[(\d+)\])?"
)


@dataclass(frozen=True)
class PartsBeside:
    """Parts that have a row for each row of the pool's parts, in the same order.

    parts : the files.
    columns : {name in the pool: name in these files}.
    id : the column of ids.
    """

    parts: tuple[PartFile, ...]
    columns: Mapping[str, str]
    id: str

    def block(self, block: FileBlock) -> FileBlock:
        """Find the rows of a block of the pool's parts in these."""
        part = self.parts[block.part]
        edges = np.concatenate([[0], np.cumsum(part.group_rows)]).tolist()
        first = max(at for at, edge in enumerate(edges[:-1]) if edge <= block.start)
        last = next(at for at, edge in enumerate(edges) if edge >= block.stop)
        return FileBlock(
            part.path, block.part, block.start, block.stop, (first, last), edges[first],
            block.first, part.stamp,
        )  # fmt: skip


def align_parts(
    engine: Engine, own: Sequence[PartFile], beside: Sequence[PartFile], ids: tuple[str, str]
) -> None:
    """Refuse parts whose rows are not those of the pool's parts, in their order.

    ``ids``: the column of ids of the pool's parts, and of the others.
    """
    rows, others = ([part.rows for part in parts] for parts in (own, beside))
    if rows != others:
        at = next((at for at, (a, b) in enumerate(zip(rows, others, strict=False)) if a != b), None)
        shown = (
            f"there are {len(beside)} parts of features and {len(own)} of images"
            if at is None
            else f"{beside[at].path!r} has {others[at]:,} rows, and {own[at].path!r} {rows[at]:,}"
        )
        raise DataError(
            f"{shown}. Parts of features are read beside those of the images, row by row: write "
            "one for each part of images, with the same rows in the same order.",
            path=beside[at or 0].path,
            count=sum(others),
            limit=sum(rows),
        )
    other = PartsBeside(tuple(beside), {}, ids[1])
    engine.map_blocks(_check_ids, cut_blocks(own), (other, ids[0]))


def _check_ids(block: FileBlock, state: tuple[PartsBeside, str]) -> None:
    beside, own_id = state
    other = beside.block(block)
    own_n = _texts(read_block(block, [own_id]).column(0))
    other_n = _texts(read_block(other, [beside.id]).column(0))
    wrong = np.flatnonzero(own_n != other_n)
    if wrong.size:
        row = int(wrong[0])
        raise DataError(
            f"row {block.start + row} of {other.path!r} is the image {other_n[row]!r}, and of "
            f"{block.path!r} {own_n[row]!r}. Write features in the order of the images.",
            path=other.path,
            row=block.start + row,
            count=int(wrong.size),
        )


def _texts(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.string()).to_numpy(zero_copy_only=False))


def find_vectors(parts: Sequence[PartFile], columns: Mapping[str, str]) -> dict[str, int]:
    """Return {name in the files: d} of the columns that hold vectors of floats."""
    filled = filled_part(parts)
    types = dict(filled.types)
    held = {name: match for name in columns.values() if (match := _VECTOR.fullmatch(types[name]))}
    return {
        name: int(match[1]) if match[1] else _first_length(filled, name)
        for name, match in held.items()
    }


def _first_length(part: PartFile, name: str) -> int:
    with damage_named(part.path, "Parquet", silent=False), open_part(part.path) as file:
        batch = next(file.iter_batches(batch_size=1, columns=[name], use_threads=False), None)
    vector = None if batch is None else batch.column(0)[0].as_py()
    return len(vector) if vector else 0


def split_vectors(
    columns: Mapping[str, str], length: Mapping[str, int]
) -> tuple[dict[str, str], dict[str, int]]:
    """Name the numbers of vectors: {name in the pool: name in the files}, and their positions.

    A column of empty vectors stays as it is.
    """
    named: dict[str, str] = {}
    position: dict[str, int] = {}
    for name, column in columns.items():
        own = vector_names(name, length.get(column, 0))
        twice = [each for each in own if each in columns]
        if twice:
            raise DataError(
                f"the numbers of the vectors {column!r} become columns, and the parts also have a "
                f"column {twice[0]!r}. Rename one of the two.",
                column=twice[0],
            )
        named |= dict.fromkeys(own, column) or {name: column}
        position |= {each: d for d, each in enumerate(own)}
    return named, position


def read_vector(column: Any, name: str, block: FileBlock) -> npt.NDArray[Any]:
    """(n, d) the numbers of a column of vectors."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    length_n = np.asarray(pc.list_value_length(whole).to_numpy(zero_copy_only=False), dtype=float)
    known = np.sort(length_n[~np.isnan(length_n)])
    most = float(known[known.size // 2]) if known.size else 0.0
    wrong = np.flatnonzero(length_n != most)
    if wrong.size:
        other = length_n[int(wrong[0])]
        raise DataError(
            f"{name} of {block.path!r} holds vectors of {most:.0f} numbers, and row "
            f"{block.start + int(wrong[0])} has {'none' if np.isnan(other) else int(other)}. Every "
            "image needs a vector of the same length.",
            path=block.path,
            column=name,
            row=block.start + int(wrong[0]),
        )
    flat = np.asarray(whole.flatten().to_numpy(zero_copy_only=False))
    return flat.reshape(len(whole), -1)
