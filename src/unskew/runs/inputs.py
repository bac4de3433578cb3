"""What a run works on: configuration, sources, features; and where all of it comes from."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from unskew.bias.base import Bias
from unskew.config.families import AUTO
from unskew.config.problems import named_inputs
from unskew.config.run_config import RunConfig, read_config, resolved, with_settings
from unskew.config.sections import PARTS, TargetSection
from unskew.errors import ConfigError, InvalidConfigError, OverlapError, first_few
from unskew.files.atomic import may_write
from unskew.files.fingerprints import find_versions, fingerprint_file, fingerprint_pool
from unskew.records import Pool, Target
from unskew.records.pool_table import name_design_weight
from unskew.represent.feature_cache import hash_images
from unskew.represent.pool_features import represent_images
from unskew.runs.part_inputs import (
    Beyond,
    fingerprint_parts,
    read_part_pool,
    sample_parts,
    settle_parts,
    subsample_size,
)
from unskew.sources.feature_tables import join_features
from unskew.sources.label_sets import label_indicators
from unskew.sources.part_pool import PartPool
from unskew.sources.readers import read_sample, read_sources
from unskew.splits.assignment import check_copies_of_splits, check_groups_of_splits, join_splits

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a run works on: the pool with its features, the target, and the bias model.

    Attributes
    ----------
    config : the settings.
    pool : images of all sources, represented.
    target : None where the bias model needs none; of several, the main one.
    bias : not fitted.
    targets : several targets by name, the main one first; empty where there is only one.
    whole : the parts of which ``pool`` is a subsample; None: it is the whole pool.
    """

    config: RunConfig = field(repr=False)
    pool: Pool
    target: Target | None
    bias: Bias
    targets: Mapping[str, Target] = field(default_factory=dict)
    whole: PartPool | None = None


def load_config(
    path: Path,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    forecast: bool | None = None,
    target: str | None = None,
    engine: str | None = None,
    allow_code: Collection[str] = (),
) -> RunConfig:
    """Read the settings of a file, and let the command line override some.

    ``target`` is the name of one of several, which becomes the only one.
    """
    config = read_config(path, allow_code=allow_code)
    if target is not None:
        config = config.for_target(target)
    if engine is not None:
        if config.sources.parquet is None:
            raise ConfigError(
                "--engine is for sources.parquet; other sources are read into memory.",
                option="--engine",
                value=engine,
            )
        config = with_settings(config, "engine", {"name": engine})
    overridden = {"seed": seed, "jobs": jobs}
    changed = {name: value for name, value in overridden.items() if value is not None}
    changes: dict[str, Any] = (
        {"engine": config.engine.model_copy(update=changed)} if changed else {}
    )
    if forecast is not None:
        changes["report"] = config.report.model_copy(update={"forecast": forecast})
    return config.model_copy(update=changes) if changes else config


def read_moved_config(
    path: Path, data: str | PathLike[str] | None, allow_code: Collection[str] | None
) -> RunConfig:
    """Read the run.toml of a run; ``data`` is where its paths start, if the data were moved."""
    if data is not None and not Path(data).is_dir():
        raise ConfigError(
            f"--data names the folder of the data; {str(data)!r} is no folder.",
            option="--data",
            path=str(data),
        )
    try:
        return read_config(path, folder=data, allow_code=allow_code)
    except InvalidConfigError as error:
        hint = (
            "Were the results or the data moved? Name with --data the folder that the paths of "
            "run.toml start from."
        )
        raise InvalidConfigError(f"{error}\n\n{hint}", error.problems, **error.facts) from None


def read_pool(config: RunConfig) -> Pool:
    """Read the list of images of all sources with their splits; no image is opened.

    Parts of more images than the subsample has stay a pool in parts.
    """
    sources = config.sources.settings()
    split = sources.get("split")
    split_file = None
    if isinstance(split, dict) and "file" in split:
        split_file = sources.pop("split")["file"]
    if PARTS in sources:
        pool = read_part_pool(config, usable_cache(config))
        if isinstance(pool, PartPool):
            return pool
    else:
        pool = read_sources(sources, config.folder)
    if split_file is not None:
        pool = join_splits(pool, config.place(split_file))
    return _checked_pool(config, join_tables(config, pool))


def join_tables(config: RunConfig, pool: Pool, *, optional: bool = False) -> Pool:
    """Add what was computed elsewhere, such as embeddings, found by id.

    ``optional``: a table without any of these images is passed over.
    """
    for table in config.represent.tables:
        place, id_column = table["file"], table["id"]
        pool = join_features(pool, place, config.folder, id_column, optional=optional)
    return pool


def _checked_pool(config: RunConfig, pool: Pool) -> Pool:
    # Groups that cross splits are refused before any image is opened; copies are known later.
    check_groups_of_splits(pool)
    return with_named_indicators(config, pool)


def with_named_indicators(config: RunConfig, pool: Pool) -> Pool:
    """Add columns such as ``label=cat``, of images with several labels, where settings name one."""
    settings = {
        "targets": [section.settings() for section in target_sections(config).values()],
        "bias": config.bias,
        "outcomes": config.report.outcomes,
    }
    return label_indicators(pool) if _names_indicator(settings) else pool


def _names_indicator(settings: Any) -> bool:
    """Tell whether a column such as ``label=cat`` is named (images with several labels)."""
    if isinstance(settings, Mapping):
        return any(
            _names_indicator(key) or _names_indicator(value) for key, value in settings.items()
        )
    if isinstance(settings, list | tuple):
        return any(_names_indicator(value) for value in settings)
    return isinstance(settings, str) and settings.startswith("label=")


def read_inputs(
    config: RunConfig, *, progress: bool | None = None, beyond: Beyond = "refuse"
) -> Inputs:
    """Read the sources, compute features, set unusable images aside, and build target and model.

    ``beyond``: what to do with parts of more images than the subsample has.
    """
    pool, whole = read_pool(config), None
    if isinstance(pool, PartPool):
        whole, pool = pool, settle_parts(config, pool, beyond)
        pool = pool if isinstance(pool, PartPool) else _checked_pool(config, pool)
    in_parts = isinstance(pool, PartPool)
    has_parts = config.sources.parquet is not None
    if pool.images is None and config.represent.computed and not has_parts:
        raise ConfigError(
            f"represent.features asks for {first_few(list(map(str, config.represent.computed)))}, "
            "computed from pixels, but sources.images = false says that no image is opened. "
            "Remove one of the two.",
            key="represent.features",
        )
    sections = target_sections(config)
    samples = {
        name: _read_target_sample(config, section.sample, pool)
        for name, section in sections.items()
        if section.sample is not None
    }
    pools: Sequence[Pool] = [pool, *samples.values()]
    if pool.images is not None:
        pools = _represented(config, pools, progress)
    elif samples and config.represent.computed:
        pools = [pool, *_represented(config, list(samples.values()), progress)]
    if not in_parts:
        check_copies_of_splits(pools[0])
    sample_of = dict(zip(samples, pools[1:], strict=True))
    targets = {
        name: Target.sample(sample_of[name], section.holdout or 0.0)
        if name in sample_of
        else config.for_target(name or None).read_target()
        for name, section in sections.items()
    }
    named = {name: target for name, target in targets.items() if target is not None and name}
    main = next(iter(targets.values()), None)
    if config.bias["family"] == AUTO:
        config = _with_chosen_bias(config, pools[0], main)
    whole = None if in_parts else whole
    return Inputs(config, pools[0], main, config.read_bias(), named, whole)


def target_sections(config: RunConfig) -> dict[str, TargetSection]:
    """Return the settings of the targets by name; a single one without a name has the name ""."""
    return config.targets or ({} if config.target is None else {"": config.target})


def guessed_target(inputs: Inputs) -> str | None:
    """Return what a target that `unskew init` guessed says, in a sentence; None: all are known."""
    for name, section in target_sections(inputs.config).items():
        if section.guessed:
            target = inputs.targets.get(name, inputs.target)
            assert target is not None
            return f"{f'Target {name}: ' if name else ''}{target.describe()[0]}"
    return None


def warn_of_placeholder(inputs: Inputs) -> None:
    """Warn that the target is a placeholder, where no verdict says so."""
    guess = guessed_target(inputs)
    if guess is not None:
        log.warning(
            "the target is a placeholder that `unskew init` guessed: %s Write what you know into "
            "[target], and remove the line guessed = true.",
            guess,
        )


def _read_target_sample(config: RunConfig, path: str, pool: Pool) -> Pool:
    sample = join_tables(config, read_sample(path, config.folder, images=pool.images is not None))
    own = config.sources.design_weight
    if own is not None and own in sample.frame.columns:
        return name_design_weight(sample, own)
    return sample


def _with_chosen_bias(config: RunConfig, pool: Pool, target: Target | None) -> RunConfig:
    """Put the bias model that `choose_bias` proposes and chooses in the place of "auto".

    The settings of the run then name it, so that `unskew verify` has nothing to choose.
    """
    from unskew.choosing.ranking import choose_bias

    if isinstance(pool, PartPool):
        pool = sample_parts(pool, subsample_size(config), target)
    choice = choose_bias(
        images_to_train_on(pool), None, target, check=False, rng=config.engine.seed
    )
    if choice.best is None:
        raise OverlapError(choice.reason, candidates=list(choice.table["candidate"]))
    log.warning('bias.family = "auto": %s', choice.reason)
    return config.model_copy(update={"bias": choice.best.to_dict()})


def images_to_train_on(pool: Pool) -> Pool:
    """Return the images of the split train, or all where there is no such split."""
    if "split" not in pool.frame.columns:
        return pool
    in_train = pool.frame["split"] == "train"
    return pool.take(in_train.to_numpy()) if in_train.any() else pool


def usable_cache(config: RunConfig) -> Path | None:
    """Return the folder for computed features; None, with a warning, where it is not to be used.

    That is where it is read-only, or where a file names a folder of others (`RunConfig.may_keep`).
    """
    cache = config.cache
    if cache is None or (config.may_keep and may_write(cache)):
        return cache
    if not config.may_keep:
        log.warning(
            "nothing is kept in the cache %s: it is outside of the folder of the configuration, "
            "and is not an unskew cache yet. If you want it there, create it, empty.",
            cache,
        )
        return None
    log.warning(
        "nothing can be kept in %s, which is read-only: the next run will compute everything "
        "again. Name another folder by represent.cache, or set cache = false.",
        cache,
    )
    return None


def _represented(config: RunConfig, pools: Sequence[Pool], progress: bool | None) -> Sequence[Pool]:
    options: dict[str, Any] = {
        "cache": usable_cache(config),
        "jobs": config.engine.jobs,
        "tolerance": config.sources.tolerance,
        "progress": progress,
    }
    features = config.features()
    if not features:
        return [hash_images(pool, **options) for pool in pools]
    if config.sources.max_pixels is not None:
        options["max_pixels"] = config.sources.max_pixels
    return represent_images(pools, features, content=True, **options)


def describe_origin(inputs: Inputs, command: str | None) -> dict[str, Any]:
    """Collect what is needed to compute the same results again."""
    config = inputs.config
    pool = inputs.pool if inputs.whole is None else inputs.whole
    fingerprints: dict[str, Any] = {
        "pool": fingerprint_parts(pool) if isinstance(pool, PartPool) else fingerprint_pool(pool)
    }
    targets = inputs.targets or ({} if inputs.target is None else {"": inputs.target})
    for name, target in targets.items():
        if isinstance(target.reference, Pool):
            fingerprints[f"target sample {name}".rstrip()] = fingerprint_pool(target.reference)
    files = {key: path for key, path in config.inputs.items() if path.is_file()}
    fingerprints["files"] = {key: fingerprint_file(path) for key, path in files.items()}
    if config.report.privacy == "aggregate":
        command = " ".join(Path(word).name for word in (command or "").split())
    return {
        "command": command or "",
        "seed": config.engine.seed,
        "versions": find_versions(),
        "settings": shown_settings(config),
        "fingerprints": fingerprints,
    }


def shown_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings as the page shows them, without the folder of the data."""
    settings = {name: values for name, values in resolved(config).items() if name != "folder"}
    if config.report.privacy != "aggregate":
        return settings
    paths = {path for _, path in named_inputs(settings)}
    return _without_folders(settings, paths)  # type: ignore[no-any-return]


def _without_folders(settings: Any, paths: set[str]) -> Any:
    """Keep the last part of each path only: the folders above may reveal whose data these are."""
    if isinstance(settings, Mapping):
        return {key: _without_folders(value, paths) for key, value in settings.items()}
    if isinstance(settings, list):
        return [_without_folders(value, paths) for value in settings]
    is_path = isinstance(settings, str) and settings in paths
    return Path(settings).name if is_path else settings
