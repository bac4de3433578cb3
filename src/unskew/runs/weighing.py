"""The stages in order, on files: the only file that knows all of them."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.bias.base import Bias
from unskew.config.paths import named_inputs
from unskew.config.run_config import RunConfig, read_config, resolved, write_config
from unskew.config.starter_file import starting_config
from unskew.debiasing.by_split import SplitWeights, weigh_splits
from unskew.errors import (
    ConfigError,
    CoverageError,
    DataError,
    OverlapError,
    did_you_mean,
    first_few,
)
from unskew.files.atomic import (
    may_write,
    nearest_existing,
    write_text,
    written_together,
    written_whole,
)
from unskew.files.fingerprints import find_versions, fingerprint_file, fingerprint_pool
from unskew.files.plain_json import json_value
from unskew.records import Pool, Target
from unskew.report.summary.record import SplitRow, Summary
from unskew.report.summary.refusal import summarize_refusal
from unskew.report.summary.summarize import summarize_run
from unskew.report.writing import write_summary
from unskew.represent.content import hash_images
from unskew.represent.pool_features import represent_images
from unskew.runs.export_tables import Export, export_run
from unskew.runs.tables import (
    diagnostics_table,
    features_table,
    solution_record,
    write_frame,
)
from unskew.sources.description import PoolDescription, describe_pool
from unskew.sources.discovery import find_sources
from unskew.sources.labels import label_indicators
from unskew.sources.settings import read_sample, read_sources
from unskew.splits.assignment import check_splits, join_splits, split_pool
from unskew.weigh.weights_table import write_weights_table

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

WEIGHTS, SOLUTION, DIAGNOSTICS, FEATURES = (
    "weights.parquet",
    "solution.json",
    "diagnostics.parquet",
    "features.parquet",
)
CONFIGURATION, PAGE, SUMMARY, UNREADABLE = (
    "run.toml",
    "report.html",
    "report.json",
    "unreadable.csv",
)
# Also written by `unskew forecast`, before or after the run: not one of the files that a run
# without a forecast takes away.
FORECAST = "forecast.json"
_FILES = (WEIGHTS, SOLUTION, DIAGNOSTICS, FEATURES, UNREADABLE, CONFIGURATION, PAGE, SUMMARY)

# Over all galleries of the page.
_MOST_PICTURES = 120


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a run works on: the pool with its features, the target, and the bias model.

    Attributes
    ----------
    config : the settings.
    pool : images of all sources, represented.
    target : None where the bias model needs none.
    bias : not fitted.
    """

    config: RunConfig
    pool: Pool = field(repr=False)
    target: Target | None
    bias: Bias


@dataclass(frozen=True, eq=False)
class Run:
    """A run in memory: its inputs, the weights of every split, what the page shows, and the
    forecast if one was made with it.
    """

    inputs: Inputs
    weights: SplitWeights
    summary: Summary = field(repr=False)
    forecast: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Refusal:
    """A run that ends without weights because the target is not identifiable: why, and what the
    page shows.
    """

    inputs: Inputs
    error: OverlapError | CoverageError
    summary: Summary = field(repr=False)


def load_config(
    path: Path, *, seed: int | None = None, jobs: int | None = None, forecast: bool | None = None
) -> RunConfig:
    """The settings of a file, with what the command line overrides."""
    config = read_config(path)
    given = {
        name: value for name, value in {"seed": seed, "jobs": jobs}.items() if value is not None
    }
    changes: dict[str, Any] = {"engine": config.engine.model_copy(update=given)} if given else {}
    if forecast is not None:
        changes["report"] = config.report.model_copy(update={"forecast": forecast})
    return config.model_copy(update=changes) if changes else config


def read_pool(config: RunConfig) -> Pool:
    """The images of all sources with their splits; no image is opened."""
    sources = config.sources.settings()
    split = sources.get("split")
    split_file = (
        sources.pop("split")["file"] if isinstance(split, dict) and "file" in split else None
    )
    pool = read_sources(sources, config.folder)
    if split_file is not None:
        pool = join_splits(pool, config.place(split_file))
    check_splits(pool)
    if _names_indicator(
        {
            "target": config.target and config.target.settings(),
            "bias": config.bias,
            "outcomes": config.report.outcomes,
        }
    ):
        pool = label_indicators(pool)
    return pool


def _names_indicator(settings: Any) -> bool:
    """Is a column such as ``label=cat`` named, which says whether an image shows it (images with
    several labels)?
    """
    if isinstance(settings, Mapping):
        return any(
            _names_indicator(key) or _names_indicator(value) for key, value in settings.items()
        )
    if isinstance(settings, list | tuple):
        return any(_names_indicator(each) for each in settings)
    return isinstance(settings, str) and settings.startswith("label=")


def read_inputs(config: RunConfig, *, progress: bool | None = None) -> Inputs:
    """Sources -> represent: the pool with copies marked, features computed and unusable images set
    aside, and the target's sample.
    """
    _find_modules_beside(config)
    pool = read_pool(config)
    if pool.images is None and config.represent.features:
        raise ConfigError(
            "represent.features asks for "
            f"{first_few([str(each) for each in config.represent.features])}, computed from "
            "pixels, but "
            "sources.images = false says that no image is opened. Leave one of the two out."
        )
    settings = {} if config.target is None else config.target.settings()
    sample = (
        read_sample(settings["sample"], config.folder, images=pool.images is not None)
        if "sample" in settings
        else None
    )
    pools = [pool] if sample is None else [pool, sample]
    if pool.images is not None:
        pools = list(_represented(config, pools, progress))
    target = _make_target(settings, config.folder, pools[1] if sample is not None else None)
    check_splits(pools[0])
    return Inputs(config, pools[0], target, config.read_bias())


def _find_modules_beside(config: RunConfig) -> None:
    """A ``module:function`` of the user's own may lie beside the data; what is installed goes
    first.
    """
    if str(config.folder) not in sys.path:
        sys.path.append(str(config.folder))


def usable_cache(cache: Path | None) -> Path | None:
    """None where nothing can be kept: data often lie on a disk that is read-only."""
    if cache is None or may_write(cache):
        return cache
    log.warning(
        "nothing can be kept in %s, which is read-only: the next run will compute everything "
        "again. Name another folder by "
        "represent.cache, or say cache = false.",
        cache,
    )
    return None


def _represented(config: RunConfig, pools: Sequence[Pool], progress: bool | None) -> Sequence[Pool]:
    options: dict[str, Any] = {
        "cache": usable_cache(config.cache),
        "jobs": config.engine.jobs,
        "tolerance": config.sources.tolerance,
        "progress": progress,
    }
    features = config.features()
    if not features:
        return [hash_images(each, **options) for each in pools]
    if config.sources.max_pixels is not None:
        options["max_pixels"] = config.sources.max_pixels
    return represent_images(pools, features, content=True, **options)


def _make_target(settings: Mapping[str, Any], folder: Path, sample: Pool | None) -> Target | None:
    if not settings:
        return None
    if sample is not None:
        return Target.sample(sample, settings.get("holdout", 0.0))
    return Target.from_dict(settings, folder)


def weigh_inputs(inputs: Inputs, *, command: str | None = None) -> Run | Refusal:
    """Bias -> solve -> weigh -> report, in memory."""
    config = inputs.config
    told: dict[str, Any] = {
        "title": config.report.title or "Debiasing report",
        "privacy": config.report.privacy,
        "provenance": describe_origin(inputs, command),
    }
    solve = {name: value for name, value in config.solve.settings().items() if name != "max_unlike"}
    try:
        weights = weigh_splits(
            inputs.pool,
            inputs.bias,
            inputs.target,
            seed=config.engine.seed,
            max_unlike=config.solve.max_unlike,
            solve=solve,
        )
    except (OverlapError, CoverageError) as error:
        return Refusal(
            inputs, error, summarize_refusal(inputs.pool, error, target=inputs.target, **told)
        )
    # The page is about the images that the model was fitted on; the other splits are listed.
    pool = replace(inputs.pool.take(weights.parts[0].row), set_aside=inputs.pool.set_aside)
    summary = summarize_run(
        pool,
        weights.weights,
        splits=_split_rows(weights),
        outcomes=_outcomes(pool, config.report.outcomes),
        seed=config.engine.seed,
        thumbnails=_MOST_PICTURES if config.report.thumbnails else 0,
        **told,
    )
    return Run(inputs, weights, summary)


def _split_rows(weights: SplitWeights) -> tuple[SplitRow, ...]:
    if len(weights.parts) == 1:
        return ()
    return tuple(
        SplitRow(part.name, part.images, part.groups, part.ess, part.note) for part in weights.parts
    )


def _outcomes(pool: Pool, columns: Sequence[str]) -> dict[str, Any] | None:
    """Numbers as they are; of a column of categories the share of each level."""
    outcomes: dict[str, Any] = {}
    for name in columns:
        if name not in pool.frame.columns:
            known = ("label", *pool.attributes)
            raise ConfigError(
                f"report.outcomes names {name!r}, but the images have the columns "
                f"{first_few(known, 12)}.{did_you_mean(name, known)}"
            )
        column = pool.frame[name]
        if column.dtype.kind in "fiub":
            outcomes[name] = column.to_numpy(dtype="float64")
        else:
            outcomes |= {
                f"{name} = {level}": (column == level).to_numpy(dtype="float64")
                for level in column.dropna().unique().tolist()
            }
    return outcomes or None


def describe_origin(inputs: Inputs, command: str | None) -> dict[str, Any]:
    """Versions, settings, seed and fingerprints: what somebody needs to compute the same again."""
    config = inputs.config
    fingerprints: dict[str, Any] = {"pool": fingerprint_pool(inputs.pool)}
    if inputs.target is not None and isinstance(inputs.target.reference, Pool):
        fingerprints["target sample"] = fingerprint_pool(inputs.target.reference)
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
    """The settings as the page shows them: not where the data lie on this machine, which changes no
    result.
    """
    settings = {name: each for name, each in resolved(config).items() if name != "folder"}
    if config.report.privacy != "aggregate":
        return settings
    return _without_folders(settings, {given for _, given in named_inputs(settings)})  # type: ignore[no-any-return]


def _without_folders(settings: Any, places: set[str]) -> Any:
    """The settings with the last part of each path only: the folders above may tell whose data
    these are.
    """
    if isinstance(settings, Mapping):
        return {key: _without_folders(value, places) for key, value in settings.items()}
    if isinstance(settings, list):
        return [_without_folders(each, places) for each in settings]
    return Path(settings).name if isinstance(settings, str) and settings in places else settings


def write_run(run: Run | Refusal, out: Path) -> list[str]:
    """Write the files of a run, all of them or none; their names. Of a refused one, the page and
    the settings.

    Files of an earlier run in the folder are replaced or go: weights never lie beside the page of
    another run.
    """
    with written_together(out, _FILES) as beside:
        _write_files(run, beside, out)
        return [name for name in (*_FILES, FORECAST) if (beside / name).exists()]


def _write_files(run: Run | Refusal, folder: Path, home: Path) -> None:
    inputs = run.inputs
    if isinstance(run, Run):
        write_weights_table(inputs.pool, run.weights.frame(), folder / WEIGHTS)
        write_text(
            folder / SOLUTION,
            json.dumps(
                solution_record(run.weights.weights, inputs.bias),
                indent=2,
                ensure_ascii=False,
                allow_nan=False,
            )
            + "\n",
        )
        write_frame(diagnostics_table(run.summary), folder / DIAGNOSTICS)
        write_frame(features_table(inputs.pool), folder / FEATURES)
        if run.forecast is not None:
            write_record(run.forecast, folder, FORECAST)
    if inputs.pool.set_aside is not None and len(inputs.pool.set_aside):
        write_unreadable(inputs.pool.set_aside, folder)
    write_config(inputs.config, folder / CONFIGURATION, home=home)
    write_summary(run.summary, folder / PAGE)


def write_unreadable(set_aside: pd.DataFrame, folder: Path) -> Path:
    """The images that cannot be used, with their reasons; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(folder / UNREADABLE) as beside:
        set_aside.to_csv(beside, index=False)
    return folder / UNREADABLE


def verdict_record(run: Run | Refusal) -> dict[str, Any]:
    """The verdict as plain values, for machines."""
    from dataclasses import asdict

    record = asdict(run.summary.verdict)
    record["sources"] = [asdict(row) for row in run.summary.sources]
    return json_value(record)  # type: ignore[no-any-return]


def check_output(out: Path, overwrite: bool, configuration: Path | None = None) -> None:
    """May results be written there? Said before the work, not after it. ``configuration`` is the
    file that the run is read from.
    """
    import os

    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; results are written into a folder. Give another one with -o."
        )
    # A run that was stopped, or refused, left no results.
    results = (out / WEIGHTS).exists() and (out / SUMMARY).exists()
    if results and not overwrite:
        raise ConfigError(
            f"{str(out)!r} holds the results of another run. Add --overwrite to replace them, or "
            "name another folder by -o."
        )
    if (out / CONFIGURATION).exists() and not (out / SUMMARY).exists():
        own = (
            configuration is not None
            and configuration.exists()
            and os.path.samefile(out / CONFIGURATION, configuration)
        )
        raise ConfigError(
            f"{str(out)!r} holds {'the' if own else 'a'} {CONFIGURATION} that "
            f"{'you wrote' if own else 'no run wrote'}, and the settings "
            f"as resolved would take its place. Name another folder, such as -o {out / 'results'}."
        )
    above = nearest_existing(out)
    if not above.is_dir():
        raise ConfigError(
            f"results cannot be written into {str(out)!r}: {str(above)!r} is a file. Give another "
            "folder with -o."
        )
    if not may_write(out):
        raise DataError(
            f"nothing can be written into {str(above)!r}: it is read-only for you. Give another "
            "folder with -o."
        )


def export_results(
    out: Path, to: str, path: Path | None, *, overwrite: bool = False, progress: bool | None = None
) -> Export:
    """The weights of an output folder in another format."""
    return export_run(out, to, path, overwrite=overwrite, progress=progress)


def describe_places(
    places: Sequence[Path],
    *,
    quick: bool = False,
    download: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
) -> PoolDescription:
    """What is in these databases: read, every image looked at, copies found; nothing is written and
    nothing is too broken.
    """
    pool = _read_places(find_sources(places, Path(), download=download), Path(), download)
    if pool.images is not None:
        features = (
            ["size"] if quick else ["size", "brightness", "contrast", "colourfulness", "sharpness"]
        )
        pool = represent_images(
            pool, features, jobs=jobs, tolerance=1.0, progress=progress, content=True
        )
    return describe_pool(pool)


def _read_places(settings: dict[str, Any], folder: Path, download: bool) -> Pool:
    if download and "cifar" not in settings:
        raise ConfigError(
            "--download fetches a CIFAR archive, such as cifar-10-python.tar.gz; what was named is "
            "something else."
        )
    return read_sources(settings | ({"download": True} if download else {}), folder)


def _check_new_file(output: Path, overwrite: bool) -> None:
    """May this file be written? Said before the work, not after it."""
    if output.is_dir():
        raise ConfigError(f"{str(output)!r} is a folder; give the name of a file with -o.")
    if output.exists() and not overwrite:
        raise ConfigError(
            f"{str(output)!r} is there already. Add --overwrite to replace it, or give another "
            "name with -o."
        )
    if not output.parent.is_dir():
        raise ConfigError(
            f"{str(output)!r} cannot be written: there is no folder {str(output.parent)!r}. Make "
            "it first."
        )


def write_starting_config(
    places: Sequence[Path], output: Path, *, overwrite: bool = False, download: bool = False
) -> None:
    """A configuration for these databases that runs as it stands."""
    _check_new_file(output, overwrite)
    settings = find_sources(places, output.parent, download=download)
    pool = _read_places(settings, output.parent, download)
    write_text(output, starting_config(pool, settings, name=output.name))


def read_shares(text: str) -> dict[str, float]:
    """``train=0.7,test=0.3`` as a mapping."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = (each.strip() for each in part.partition("="))
        try:
            value = float(share)
        except ValueError:
            raise ConfigError(
                f"shares are written name=share,name=share, e.g. train=0.8,test=0.2; got {text!r}."
            ) from None
        if name in shares:
            raise ConfigError(
                f"the split {name!r} has two shares in {text!r}; name each split once."
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
    """A table id, source, path, split; how many images of each source went where."""
    import pandas as pd

    _check_new_file(output, overwrite)
    inputs = read_inputs(config, progress=progress)
    if "split" in inputs.pool.frame.columns:
        raise ConfigError(
            "the images have splits already "
            f"({first_few(sorted(set(map(str, inputs.pool.frame['split']))))}); dealing them out "
            "again "
            "would change what is train and what is test. To do that all the same, take `split` "
            "out of [sources] (of folders called "
            "train and test: split = false)."
        )
    by = None if inputs.target is None or not inputs.target.by else list(inputs.target.by)
    pool = split_pool(inputs.pool, shares, by=by, seed=config.engine.seed)
    with written_whole(output) as beside:
        pool.frame[
            [name for name in ("id", "source", "path", "split") if name in pool.frame.columns]
        ].to_csv(beside, index=False)
    counts = pd.crosstab(pool.frame["source"], pool.frame["split"]).reindex(columns=list(shares))
    return {
        str(name): {str(k): int(v) for k, v in row.items()}
        for name, row in counts.to_dict("index").items()
    }


def write_record(record: Mapping[str, Any], folder: Path, name: str) -> None:
    """A record as JSON in a folder, which is made when it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(
        folder / name,
        json.dumps(json_value(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    )
