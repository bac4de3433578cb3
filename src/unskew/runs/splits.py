"""`unskew split`: train, validation and test as a table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unskew.config.run_config import RunConfig
from unskew.debiasing.part_writing import part_names
from unskew.engine.block_engines import opened_engine
from unskew.engine.written_blocks import OutputFile, write_files
from unskew.errors import ConfigError, first_few
from unskew.files.atomic import check_new_file, written_whole
from unskew.files.locks import path_locked
from unskew.files.spreadsheet_text import guard_table
from unskew.runs.inputs import read_inputs
from unskew.sources.part_pool import PartPool, uniform_numbers
from unskew.sources.part_survey import PartReader
from unskew.splits.assignment import check_shares, split_pool

# Of the hashes of splits, so that a subsample is not of one split: any number but 0.
_SALT = 0x5917


def read_shares(text: str) -> dict[str, float]:
    """Read ``train=0.7,test=0.3`` as a mapping."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = (word.strip() for word in part.partition("="))
        try:
            value = float(share)
        except ValueError:
            raise ConfigError(
                f"shares are written name=share,name=share, e.g. train=0.8,test=0.2; got {text!r}.",
                value=text,
            ) from None
        if name in shares:
            raise ConfigError(
                f"the split {name!r} has two shares in {text!r}; name each split once.",
                value=text,
                level=name,
            )
        shares[name] = value
    return shares


def write_splits(
    config: RunConfig,
    output: Path,
    shares: Mapping[str, float],
    *,
    overwrite: bool = False,
    progress: bool | None = None,
) -> dict[str, dict[str, int]]:
    """Write a table id, source, path, split; return {source: {split: images}}.

    Of parts beyond the subsample it is a folder of Parquet parts (`write_split_parts`).
    """
    check_new_file(output, overwrite)
    with path_locked(output):
        return _write_splits(config, output, shares, progress)


def _write_splits(
    config: RunConfig, output: Path, shares: Mapping[str, float], progress: bool | None
) -> dict[str, dict[str, int]]:
    import pandas as pd

    inputs = read_inputs(config, progress=progress, beyond="any")
    if isinstance(inputs.pool, PartPool):
        _check_unsplit(inputs.pool.columns, ["in a column of the parts"])
        if output.suffix:
            raise ConfigError(
                f"the splits of {len(inputs.pool):,} images in parts are parts, too: name a folder "
                f"with -o, such as {output.stem!r}.",
                option="-o",
                path=str(output),
            )
        return write_split_parts(inputs.pool, output, shares, config.engine.seed)
    if "split" in inputs.pool.frame.columns:
        _check_unsplit(["split"], sorted(set(map(str, inputs.pool.frame["split"]))))
    by = None if inputs.target is None or not inputs.target.by else list(inputs.target.by)
    frame = split_pool(inputs.pool, shares, by=by, rng=config.engine.seed).frame
    columns = [name for name in ("id", "source", "path", "split") if name in frame.columns]
    with written_whole(output) as temporary:
        guard_table(frame[columns]).to_csv(temporary, index=False)
    counts = pd.crosstab(frame["source"], frame["split"]).reindex(columns=list(shares))
    return {
        str(name): {str(split): int(count) for split, count in row.items()}
        for name, row in counts.to_dict("index").items()
    }


def _check_unsplit(columns: Sequence[str], splits: list[str]) -> None:
    if "split" in columns:
        raise ConfigError(
            f"the images have splits already ({first_few(splits)}); assigning them again would "
            "change what is train and what is test. To do that all the same, remove `split` from "
            "[sources] (of folders called train and test: split = false).",
            levels=splits,
        )


class SplitState(NamedTuple):
    """What `split_part` needs: names of the splits, their shares added up, and the seed."""

    reader: PartReader
    names: tuple[str, ...]
    bounds: tuple[float, ...]
    seed: int


def write_split_parts(
    pool: PartPool, folder: Path, shares: Mapping[str, float], seed: int
) -> dict[str, dict[str, int]]:
    """Assign every group (or image, without groups) by its hash; write id, source and split.

    The parts are aligned with the pool's. Shares are met on average, up to the size of groups.
    """
    names, share_s = check_shares(shares)
    bounds = tuple(np.cumsum(share_s).tolist()[:-1])
    state = SplitState(pool.reader, tuple(names), bounds, seed + _SALT)
    facts = json.dumps([state.names, bounds, seed])
    files = [
        OutputFile(
            name,
            hashlib.sha256(f"{facts} {part.path} {part.stamp}".encode()).hexdigest(),
            tuple(block for block in pool.blocks if block.part == number),
        )
        for number, (part, name) in enumerate(zip(pool.parts, part_names(pool), strict=True))
    ]
    with opened_engine(pool.engine) as engine:
        counts = write_files(engine, split_part, files, state, folder)
    return {
        source: {name: sum(one.get(source, {}).get(name, 0) for one in counts) for name in names}
        for source in pool.names
    }


def split_part(file: OutputFile, state: SplitState, path: Path) -> dict[str, dict[str, int]]:
    """Write the splits of one part, a block at a time; return {source: {split: images}}."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts: dict[str, dict[str, int]] = {}
    tables: list[Any] = []
    for block in file.blocks:
        keys = state.reader.read(block, ["id", "source", "group"])
        chance_n = uniform_numbers(keys["group" if "group" in keys else "id"], state.seed)
        code_n = np.searchsorted(state.bounds, chance_n, side="right")
        split_n = np.array(state.names, dtype=object)[code_n]
        source_n = keys["source"].astype(str)
        pairs: Any = pd.Series(split_n).groupby([source_n, split_n]).size()
        for (source, split), count in pairs.items():
            own = counts.setdefault(str(source), {})
            own[str(split)] = own.get(str(split), 0) + int(count)
        columns = {"id": keys["id"], "source": source_n, "split": split_n}
        tables.append(pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False))
    if not tables:
        empty = {"id": pa.array([], pa.string()), "source": pa.array([], pa.string())}
        tables = [pa.table(empty | {"split": pa.array([], pa.string())})]
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return counts
