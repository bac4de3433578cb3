"""Sources in Parquet parts: read into an ordinary pool, or, beyond the subsample, left in parts."""

from __future__ import annotations

import hashlib
import json
import logging
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from unskew.config.families import AUTO
from unskew.config.run_config import RunConfig
from unskew.debiasing.part_debias import columns_read
from unskew.engine.block_engines import Engine, EngineSettings, open_engine
from unskew.engine.blocks import BLOCK_ROWS, cut_blocks
from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError
from unskew.records import Pool, Target
from unskew.represent.workers import count_jobs
from unskew.sources.part_pool import PartPool
from unskew.sources.part_survey import SurveyState, survey_block

SUBSAMPLE = 1_000_000
# Arrays of (rows, sources) in a pass at one time, and rows of a block that are worth its overhead.
_ARRAYS, _LEAST_ROWS = 4, 4096
# What a command does with more images than the subsample has.
Beyond = Literal["refuse", "sample", "parts", "any"]
log = logging.getLogger(__name__)


def read_part_pool(config: RunConfig, cache: Path | None) -> Pool:
    """Read parts of no more images than the subsample into a pool; others stay in parts.

    Representations of their images are computed first, and kept in ``cache``. The engine of a pool
    in parts ends with it.
    """
    from unskew.sources.parquet_parts import read_parts

    sources, engine = config.sources, _open_engine(config)
    roles = ("source", "id", "design_weight", "label", "group", "split")
    written = {role: getattr(sources, role) for role in roles}
    options: dict[str, Any] = {
        role: column for role, column in written.items() if isinstance(column, str)
    }
    options |= {"block_rows": config.engine.block_rows, "engine": engine}
    try:
        parts = _index_shards(config, engine, cache)
        pool = read_parts(parts, base=config.folder, **options)
        if config.represent.computed:
            pool = _represented(config, pool, cache)
        if len(pool) <= subsample_size(config):
            whole = pool.sample(len(pool))
            engine.close()
            return whole
        if place := _features_beside(config):
            pool = read_parts(parts, base=config.folder, features=place, **options)
        pool = _with_memory(config, pool, engine.settings.workers or available_jobs())
    except BaseException:
        engine.close()
        raise
    weakref.finalize(pool, engine.close)
    return pool


def _index_shards(config: RunConfig, engine: Engine, cache: Path | None) -> Any:
    """Return the places of parts, with WebDataset shards (``….tar``) as Parquet parts."""
    from unskew.sources.parquet_parts import find_parts
    from unskew.sources.shards import index_shards

    def parts_of(place: str) -> Any:
        if not place.endswith(".tar"):
            return place
        if cache is None:
            raise ConfigError(
                "where images are within shards is written into files: they need represent.cache, "
                "a folder that all workers see.",
                key="represent.cache",
            )
        name = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return index_shards(engine, find_parts(place, config.folder), cache / f"shards-{name}")

    places: Any = config.sources.parquet
    if isinstance(places, Mapping):
        return {source: parts_of(place) for source, place in places.items()}
    return parts_of(places)


def bytes_per_row(pool: PartPool, n_columns: int) -> int:
    """Return what a row of a block takes in a pass: columns read, and arrays of all sources."""
    if pool.reader.source_of_part is not None:
        n_sources = len(set(pool.reader.source_of_part))
    else:
        # Of the first block, where no folder names them.
        cells, _ = survey_block(pool.blocks[0], SurveyState(pool.reader))
        n_sources = int(cells["source"].nunique())
    return 8 * (2 * n_columns + _ARRAYS * n_sources)


def _with_memory(config: RunConfig, pool: PartPool, workers: int) -> PartPool:
    """Cut blocks so that those of all workers take no more memory than [engine] allows."""
    if config.engine.memory is None or not pool.blocks:
        return pool
    n_columns = len(pool.columns)
    if config.bias["family"] != AUTO:
        n_columns = len(columns_read(pool, config.read_bias(), ()))
    allowed = int(config.engine.memory * 1e9 / (workers * bytes_per_row(pool, n_columns)))
    rows = max(_LEAST_ROWS, min(allowed, config.engine.block_rows or BLOCK_ROWS))
    return PartPool(pool.parts, cut_blocks(pool.parts, rows), pool.reader, pool.engine)


def _represented(config: RunConfig, pool: PartPool, cache: Path | None) -> PartPool:
    """Compute features of the images behind parts."""
    from unskew.runs.part_images import represent_parts

    if cache is None or config.represent.tables:
        wanted = "a cache" if cache is None else "no features from files beside them"
        raise ConfigError(
            f"features of images behind parts are computed into files: they need {wanted} "
            "(represent.cache, a folder that all workers see).",
            key="represent.cache" if cache is None else "represent.features",
        )
    sources = config.sources
    return represent_parts(
        pool,
        config.features(),
        cache,
        column=sources.image,
        base=config.place(sources.root or "."),
        tolerance=sources.tolerance,
        max_pixels=sources.max_pixels,
    )


def _features_beside(config: RunConfig) -> dict[str, str] | None:
    """Return where parts with more columns of the same rows are; None without."""
    tables = config.represent.tables
    if len(tables) > 1:
        raise ConfigError(
            f"beyond the subsample one place has all features that were computed elsewhere; got "
            f"{len(tables)}. Write their columns into the same parts.",
            key="represent.features",
        )
    return tables[0] if tables else None


def subsample_size(config: RunConfig) -> int:
    """Return the number of images to learn on."""
    return config.engine.subsample or SUBSAMPLE


def _open_engine(config: RunConfig) -> Engine:
    own = config.engine
    if own.cache and config.block_cache is None:
        log.warning(
            "decoded columns are not kept in %s: it is outside of the folder of the configuration, "
            "and is no such cache yet. If you want them there, create it, empty.",
            config.place(own.cache),
        )
    written: dict[str, Any] = {
        "workers": count_jobs(jobs) if (jobs := own.workers or own.jobs) else None,
        "processes": own.processes,
        "address": own.address,
        "cache": None if config.block_cache is None else str(config.block_cache),
        "block_rows": own.block_rows,
        "retries": own.retries,
    }
    known = {name: value for name, value in written.items() if value is not None}
    return open_engine(own.name, EngineSettings(**known))


def settle_parts(config: RunConfig, pool: PartPool, beyond: Beyond) -> Pool:
    """Return the pool in parts, or a subsample of it, as a command can use it."""
    size = subsample_size(config)
    if isinstance(config.sources.split, dict):
        raise ConfigError(
            "a table of splits is not joined to parts block by block: write the split into a "
            "column of the parts, and name that.",
            key="sources.split",
        )
    if beyond == "refuse":
        raise ConfigError(
            f"this needs all images in memory, and the parts have {len(pool):,}, more than the "
            f"subsample of {size:,}. Where they fit into memory, set [engine] subsample to at "
            "least their number. Else write a subsample of them: pool.sample(n) in Python, with "
            "pool = Pool.from_parquet(…).",
            key="engine.subsample",
            value=size,
            count=len(pool),
        )
    if beyond in ("parts", "any"):
        if beyond == "parts":
            _check_streamed(config, pool)
        return pool
    main = config.for_target(None)
    log.warning(
        "this is computed from a subsample of about %s of %s images ([engine] subsample).",
        *(f"{count:,}" for count in (size, len(pool))),
    )
    return sample_parts(pool, size, None if main.target is None else main.read_target())


def sample_parts(pool: PartPool, size: int, target: Target | None) -> Pool:
    """Draw the subsample, stratified by source and the attributes of the target."""
    by = () if target is None else tuple(target.by or ())
    bins = {} if target is None else {name: tuple(edges) for name, edges in target.bins.items()}
    return pool.sample(size, by=by, bins=bins)


def _check_streamed(config: RunConfig, pool: PartPool) -> None:
    size = subsample_size(config)
    beyond = (
        f"the parts have {len(pool):,} images, more than the subsample of {size:,}. Where they fit "
        "into memory, set [engine] subsample to at least their number"
    )
    if "split" in pool.columns:
        raise ConfigError(
            f"splits are not weighed apart block by block, and {beyond}; else write the parts of "
            "each split into a folder of its own.",
            key="sources.split",
        )
    if len(config.targets) > 1:
        names = list(config.targets)
        raise ConfigError(
            f"several targets are not weighed together block by block, and {beyond}; else weigh "
            f"to one after the other: --target {names[0]}, into a folder of its own.",
            key="targets",
            allowed=names,
        )
    if config.solve.method != "newton":
        raise ConfigError(
            f"block by block the normalizers are found by 'newton', and {beyond}.",
            key="solve.method",
            value=config.solve.method,
        )


def fingerprint_parts(pool: PartPool) -> dict[str, str]:
    """Return the fingerprint of the parts: their names, sizes and rows, not their content."""
    facts = [[name, *facts] for name, facts in describe_parts(pool).items()]
    if pool.reader.beside is not None:
        facts += [[Path(part.path).name, part.rows] for part in pool.reader.beside.parts]
    lines = json.dumps(facts)
    return {"parts": hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()}


def describe_parts(pool: PartPool) -> Mapping[str, tuple[int, int]]:
    """Return {name: (bytes, rows)} of every part."""
    from unskew.debiasing.part_writing import part_names

    sizes = [(int(part.stamp.partition("-")[0]), part.rows) for part in pool.parts]
    return dict(zip(part_names(pool), sizes, strict=True))
