"""What a run over parts will do, told before: `unskew weigh --dry-run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from unskew.config.run_config import RunConfig
from unskew.config.sections import PARTS
from unskew.debiasing.part_debias import check_streamed, columns_read, strata_columns
from unskew.engine.blocks import count_bytes
from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError
from unskew.records.design_weights import DESIGN_WEIGHT
from unskew.runs.inputs import read_inputs
from unskew.runs.part_inputs import bytes_per_row, subsample_size
from unskew.sources.part_pool import PartPool

# Newton's steps from the subsample's optimum.
_STEPS = 4


@dataclass(frozen=True)
class Plan:
    """What a run over parts will do.

    Attributes
    ----------
    images, parts, blocks, block_rows : of the pool; rows of its largest block.
    subsample : images to learn on.
    in_memory : whether all images are read into memory, and no block is computed.
    columns : what a pass reads.
    bytes_per_pass, bytes_all : bytes of these columns, and of all, in the files.
    passes : {what for: about how many}.
    workers : threads or processes that compute blocks.
    memory : bytes at one time, about: blocks of all workers, and the subsample.
    """

    images: int
    parts: int
    blocks: int
    block_rows: int
    subsample: int
    in_memory: bool
    columns: tuple[str, ...]
    bytes_per_pass: int
    bytes_all: int
    passes: dict[str, int]
    workers: int
    memory: int

    def lines(self) -> list[str]:
        """Say it in sentences."""
        where = "in memory" if self.in_memory else f"block by block, by {self.workers} workers"
        passes = ", ".join(f"{count} to {what}" for what, count in self.passes.items())
        return [
            f"{self.images:,} images in {self.parts:,} parts are weighed {where} (subsample: "
            f"{self.subsample:,}).",
            f"Blocks: {self.blocks:,}, of at most {self.block_rows:,} rows.",
            f"Passes: about {sum(self.passes.values())}: {passes}.",
            f"Bytes: {_size(self.bytes_per_pass)} for a pass ({', '.join(self.columns)}), "
            f"{_size(self.bytes_all)} in all columns.",
            f"Memory: about {_size(self.memory)}.",
        ]


def plan_run(config: RunConfig) -> Plan:
    """Look at footers, and at the first block; what weighing would refuse is refused here."""
    if config.sources.parquet is None:
        raise ConfigError(
            f"--dry-run is for sources.{PARTS}; other sources are read into memory as a whole: "
            "`unskew check` weighs them, and writes nothing.",
            option="--dry-run",
        )
    size = subsample_size(config)
    # However few they are, they stay in parts here.
    engine = config.engine.model_copy(update={"subsample": 1})
    # Nothing is computed from images, either.
    features = [*config.represent.tables]
    represent = config.represent.model_copy(update={"features": features})
    changed = {"engine": engine, "represent": represent}
    inputs = read_inputs(config.model_copy(update=changed), beyond="parts")
    pool = cast(PartPool, inputs.pool)
    in_memory = len(pool) <= size
    columns, n_passes = pool.columns, {"read": 1, "check ids": 1}
    if not in_memory:
        check_streamed(pool, inputs.bias, inputs.target, size)
        by, _ = strata_columns(inputs.bias, inputs.target)
        read = columns_read(pool, inputs.bias, by)
        columns = tuple(name for name in ("source", *read, DESIGN_WEIGHT) if name in pool.columns)
        n_passes = {"count": 1, "draw the subsample": 2}
        if not (by and len(inputs.bias.parts) == 1):  # Strata alone are counted
            n_passes |= {"solve": _STEPS, "sum": 1}
        n_passes |= {"write": 1}
    own, beside = pool.reader.columns, pool.reader.beside
    wanted = [own[name] for name in columns if name in own]
    files = [part.path for part in (*pool.parts, *(() if beside is None else beside.parts))]
    rows = max(map(len, pool.blocks))
    workers = config.engine.workers or config.engine.jobs or available_jobs()
    return Plan(
        images=len(pool),
        parts=len(pool.parts),
        blocks=len(pool.blocks),
        block_rows=rows,
        subsample=size,
        in_memory=in_memory,
        columns=columns,
        bytes_per_pass=sum(count_bytes(path, wanted) for path in files),
        bytes_all=sum(count_bytes(path, list(own.values())) for path in files),
        passes=n_passes,
        workers=workers,
        memory=8 * len(pool.columns) * min(size, len(pool))
        + (0 if in_memory else workers * rows * bytes_per_row(pool, len(columns))),
    )


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} bytes"
