"""What `unskew monitor` reads: the images of a solved run from its folder, and new ones."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.config.code_references import refuse_code
from unskew.config.run_config import RunConfig, read_config, resolved
from unskew.errors import (
    ConfigError,
    DataError,
    InvalidConfigError,
    UnskewError,
    did_you_mean,
    first_few,
)
from unskew.files.reading import read_parquet
from unskew.monitoring.stream import Reference, make_reference
from unskew.records import Pool, Target
from unskew.records.levels import find_positions
from unskew.records.pool_table import name_design_weight
from unskew.represent.feature_cache import hash_images
from unskew.represent.user_functions import read_representations
from unskew.runs.inputs import read_inputs, usable_cache, with_named_indicators
from unskew.runs.output import CONFIGURATION, FEATURES, WEIGHTS
from unskew.runs.projections import (
    PROJECTIONS,
    find_projected,
    represent_alike,
    write_projections,
)
from unskew.sources.discovery import find_sources
from unskew.sources.readers import SETTINGS, TARGET_SAMPLE, read_sample, read_sources
from unskew.weigh.weights_table import read_weights_table

if TYPE_CHECKING:
    import pandas as pd

_ROLES = ("path", "label", "group")


def read_run_settings(out: Path, allow_code: Collection[str] = ()) -> RunConfig:
    """Read run.toml of the results; the data that it names need not exist any more.

    Code that comes with the results runs only if ``allow_code`` names it.
    """
    if not out.is_dir():
        raise ConfigError(
            f"there is no folder {str(out)!r}; `unskew weigh run.toml -o OUT` writes its results "
            "into the folder OUT.",
            path=str(out),
        )
    for name in (WEIGHTS, FEATURES, CONFIGURATION):
        if not (out / name).is_file():
            raise DataError(
                f"{str(out)!r} contains no {name}, which `unskew weigh run.toml -o {out}` writes.",
                path=str(out / name),
            )
    try:
        config = read_config(out / CONFIGURATION, check_paths=False, allow_code=None)
    except InvalidConfigError:
        config = read_config(out / CONFIGURATION, folder=out, check_paths=False, allow_code=None)
    refuse_code(resolved(config), allow_code, [out, config.folder])
    # Of several targets the main one, whose weights are in weights.parquet.
    return config.for_target()


def read_solved_pool(out: Path) -> tuple[Pool, pd.DataFrame]:
    """Read (the images of a run with their features, weights.parquet in the same order)."""
    weights = read_weights_table(out / WEIGHTS)
    features = read_parquet(out / FEATURES)
    at_n = find_positions(
        features["id"].tolist(), weights["id"].tolist(), of=FEATURES, among=WEIGHTS
    )
    weights = weights.iloc[at_n].reset_index(drop=True)
    roles = {name: weights[name].to_numpy() for name in _ROLES if bool(weights[name].notna().any())}
    return Pool(features.assign(**roles)), weights


def read_reference(
    out: Path, config: RunConfig, state: Path, **options: Any
) -> tuple[Reference, pd.DataFrame]:
    """Return (what new images are compared with, the table of the old images)."""
    pool, weights = read_solved_pool(out)
    target, note = _read_target(out, config, state, pool, options)
    reference = make_reference(
        pool,
        config.read_bias(),
        target,
        weights["sample_weight"].to_numpy(np.float64),
        named=[str(name) for name in config.report.outcomes or ()],
        seed=config.engine.seed,
    )
    return replace(reference, notes=(*([note] if note else []), *reference.notes)), pool.frame


def _read_target(
    out: Path, config: RunConfig, state: Path, pool: Pool, options: dict[str, Any]
) -> tuple[Target | None, str]:
    """Return the target of the run, its sample represented; a note where it cannot be read."""
    settings = {} if config.target is None else config.target.settings()
    try:
        if "sample" not in settings:
            return config.read_target(), ""
        has_images = bool(config.sources.settings().get("images", True))
        sample = read_sample(settings["sample"], config.folder, images=has_images)
        own = config.sources.design_weight
        if own is not None and own in sample.frame.columns:
            sample = name_design_weight(sample, own)
        sample = represent_new(sample, out, config, state, **options)
        return Target.sample(sample, settings.get("holdout", 0.0)), ""
    except UnskewError as error:
        return None, f"The target of the run cannot be read, and is not compared: {error}"


def read_new(
    new: Path, config: RunConfig, names: tuple[str, ...], source: str | None, is_target: bool
) -> Pool:
    """Read the list of new images: their sources are sources of the run; no image is opened."""
    has_images = bool(config.sources.settings().get("images", True))
    if is_target:
        if source is not None:
            raise ConfigError(
                "new images are of a source (--source) or of the target (--of-target), not both.",
                option="--source",
                value=source,
            )
        is_sampled = config.target is not None and "sample" in config.target.settings()
        if is_sampled or new.is_dir() != ("folders" in config.sources.settings()):
            # As the run reads its own sample of the target.
            pool = read_sample(os.path.abspath(new), images=has_images)
        else:
            pool = _read_with_roles(new, config, TARGET_SAMPLE, optional=("label", "group"))
    else:
        if source is not None and source not in names:
            raise ConfigError(
                f"--source {source!r} is no source of the run; it has "
                f"{first_few(names, 12)}.{did_you_mean(source, names)}",
                option="--source",
                value=source,
                allowed=list(names),
            )
        pool = _read_with_roles(new, config, source, optional=("label",))
        _check_sources(pool, names)
    _check_ids(pool)
    return with_named_indicators(config, pool)


def _read_with_roles(
    new: Path, config: RunConfig, source: str | None, optional: Sequence[str]
) -> Pool:
    """Read images with the roles of the run; without ``optional`` ones whose columns are missing.

    New images often have no labels yet.
    """
    settings = _new_settings(new, config, source)
    while True:
        try:
            return read_sources(settings, config.folder)
        except DataError as error:
            lacking = error.facts.get("column")
            role = next((r for r in optional if lacking and settings.get(r) == lacking), None)
            if role is None:
                raise
            settings = {key: value for key, value in settings.items() if key != role}


def _new_settings(new: Path, config: RunConfig, source: str | None) -> dict[str, Any]:
    """Return settings of ``[sources]`` for the new images: roles as in the run."""
    guessed = find_sources([new], config.folder)
    kind = next(key for key in guessed if key in SETTINGS)
    run = config.sources.settings()
    roles = guessed
    if run.get(kind) is not None:
        kept = {key: run[key] for key in SETTINGS[kind] if key != "split" and key in run}
        is_one_table = not isinstance(guessed[kind], Mapping) or "source" in kept
        place = os.path.abspath(new) if is_one_table and kind != "folders" else guessed[kind]
        roles = {kind: place} | kept
    elif run.get("images") is False:
        roles = guessed | {"images": False}
    if source is None:
        return roles
    rest = {key: value for key, value in roles.items() if key not in (kind, "source")}
    return {kind: {source: os.path.abspath(new)}} | rest


def _check_sources(pool: Pool, names: tuple[str, ...]) -> None:
    unknown = [name for name in pool.names if name not in names]
    if unknown:
        raise DataError(
            f"{first_few([repr(name) for name in unknown])} is no source of the run, which has "
            f"{first_few(names, 12)}.{did_you_mean(unknown[0], names)} Name the source of all new "
            "images with --source; images of the target go with --of-target. A source that is new "
            "needs `unskew weigh` with it.",
            sources=unknown,
            allowed=list(names),
        )


def _check_ids(pool: Pool) -> None:
    """Refuse rows that are told apart by their numbers only, which begin at 0 in every table."""
    ids = pool.frame["id"].tolist()
    if pool.images is None and ids == list(range(len(ids))):
        raise DataError(
            "the new images have neither ids nor paths, so that images that were counted before "
            "cannot be recognized. Add a column id, unique over all days.",
            column="id",
        )


def represent_new(
    pool: Pool,
    out: Path,
    config: RunConfig,
    state: Path,
    *,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Pool:
    """Compute the features of the run for new images; components are those of the run."""
    if pool.images is None:
        return pool
    options: dict[str, Any] = {
        "cache": usable_cache(config),
        "jobs": jobs or config.engine.jobs,
        "tolerance": config.sources.tolerance,
        "progress": progress,
    }
    features = config.features()
    if not features:
        return hash_images(pool, **options)
    folder = out
    if find_projected(read_representations(features)) and not (out / PROJECTIONS).is_file():
        folder = state
        if not (state / PROJECTIONS).is_file():
            state.mkdir(parents=True, exist_ok=True)
            write_projections(read_inputs(config, progress=progress), state, progress=progress)
    return represent_alike(pool, features, folder, max_pixels=config.sources.max_pixels, **options)
