"""The files of the weights of a pool over parts: one Parquet part for each part of the pool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.debiasing.part_weighers import BlockReader, Weigher
from unskew.engine.blocks import FileBlock, filled_part, read_block, read_schema
from unskew.engine.written_blocks import OutputFile
from unskew.files.fingerprints import fingerprint_file
from unskew.weigh.weights_table import COLUMNS

if TYPE_CHECKING:
    from unskew.sources.part_pool import PartPool


class WriteState:
    """What `write_part` needs."""

    def __init__(self, reader: BlockReader, weigher: Weigher, images: int, schema: Any) -> None:
        self.reader, self.weigher, self.images, self.schema = reader, weigher, images, schema


def write_part(file: OutputFile, state: WriteState, path: Path) -> dict[str, Any]:
    """Write the weights of one part, a block at a time."""
    import pyarrow.parquet as pq

    total, n = 0.0, 0
    distinct = {"id", *(() if state.weigher.repeats else ("weight", "sample_weight"))}
    # A dictionary of values that hardly repeat is made in vain.
    few = [name for name in state.schema.names if name not in distinct]
    with pq.ParquetWriter(path, state.schema, use_dictionary=few) as writer:
        for block in file.blocks:
            table = weights_of_block(block, state)
            writer.write_table(table)
            total, n = total + float(table["weight"].to_numpy().sum()), n + len(block)
    facts = {"bytes": path.stat().st_size, "sha256": fingerprint_file(path)}
    return {"rows": n, "weight": total, **facts}


def weights_of_block(block: FileBlock, state: WriteState) -> Any:
    """Return the rows of weights.parquet for a block, an Arrow table."""
    import pyarrow as pa

    rows = state.reader.read(block)
    weight_n = state.weigher.weigh(block, rows)
    own = state.reader.reader.columns
    known = [name for name in COLUMNS[:-2] if name != "source" and name in own]
    table = read_block(block, [own[name] for name in known])
    columns = dict(zip(known, table.columns, strict=True))
    columns["source"] = pa.array(state.reader.names, pa.string()).take(pa.array(rows.source))
    columns["weight"] = pa.array(weight_n)
    columns["sample_weight"] = pa.array(weight_n * state.images)
    arrays = [
        _cast(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(len(block), field.type)
        for field in state.schema
    ]
    return pa.Table.from_arrays(arrays, schema=state.schema)


def _cast(column: Any, arrow_type: Any) -> Any:
    return column if column.type == arrow_type else column.cast(arrow_type)


def output_schema(pool: PartPool) -> Any:
    """Return the columns of weights.parquet, roles in the types that the parts have."""
    import pyarrow as pa

    own = read_schema(filled_part(pool.parts).path)
    fields = []
    for name in COLUMNS:
        kind = pa.string()
        if name in ("weight", "sample_weight"):
            kind = pa.float64()
        elif name != "source" and name in pool.reader.columns:
            kind = own.field(pool.reader.columns[name]).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def part_names(pool: PartPool) -> list[str]:
    """Name the output of every part: its path below what all parts have in common."""
    paths = [part.path.split("://", 1)[-1] for part in pool.parts]
    if len(paths) == 1:
        return [paths[0].rsplit("/", 1)[-1]]
    common = os.path.commonpath(paths)
    return [os.path.relpath(path, common) for path in paths]
