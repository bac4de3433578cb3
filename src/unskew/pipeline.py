"""The stages in order, on files: the only file that knows all of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.bias.base import Bias
from unskew.bias.fit_check import check_fit
from unskew.config import RunConfig, read_config, resolved, write_config
from unskew.errors import ConfigError, CoverageError, DataError, OverlapError
from unskew.provenance import find_versions, fingerprint_file, fingerprint_pool
from unskew.records import Pool, Target
from unskew.report.entry import read_summary, write_summary
from unskew.report.record import SplitRow, Summary
from unskew.report.summarize import summarize_refusal, summarize_run
from unskew.represent.content import hash_images
from unskew.represent.entry import represent_images
from unskew.saving import write_text, written_whole
from unskew.sources.entry import read_sample, read_sources
from unskew.split_weights import SplitWeights, weigh_splits, write_weights_table
from unskew.splitting import check_splits, split_pool

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

WEIGHTS, SOLUTION, DIAGNOSTICS, FEATURES = "weights.parquet", "solution.json", "diagnostics.parquet", "features.parquet"
CONFIGURATION, PAGE, SUMMARY, UNREADABLE = "run.toml", "report.html", "report.json", "unreadable.csv"


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
    """A run in memory: its inputs, the weights of every split, and what the page shows."""

    inputs: Inputs
    weights: SplitWeights
    summary: Summary = field(repr=False)


@dataclass(frozen=True, eq=False)
class Refusal:
    """A run that ends without weights because the target is not identifiable: why, and what the page shows."""

    inputs: Inputs
    error: OverlapError | CoverageError
    summary: Summary = field(repr=False)


def load_config(path: Path, *, seed: int | None = None, jobs: int | None = None) -> RunConfig:
    """The settings of a file, with what the command line overrides."""
    config = read_config(path)
    given = {name: value for name, value in {"seed": seed, "jobs": jobs}.items() if value is not None}
    if not given:
        return config
    return config.model_copy(update={"engine": config.engine.model_copy(update=given)})


def read_inputs(config: RunConfig) -> Inputs:
    """Sources -> represent: the pool with copies marked, features computed and unusable images set aside, and the target's sample."""
    sources = config.sources
    pool = read_sources(sources.settings(), config.folder)
    check_splits(pool)
    settings = {} if config.target is None else config.target.settings()
    sample = read_sample(settings["sample"], config.folder) if "sample" in settings else None
    pools = [pool] if sample is None else [pool, sample]
    if pool.images is not None:
        pools = list(_represented(config, pools))
    target = _make_target(settings, config.folder, pools[1] if sample is not None else None)
    check_splits(pools[0])
    return Inputs(config, pools[0], target, config.read_bias())


def _represented(config: RunConfig, pools: Sequence[Pool]) -> Sequence[Pool]:
    options = {"cache": config.cache, "jobs": config.engine.jobs}
    hashed = [hash_images(each, **options) for each in pools]
    features = config.represent.features
    if not features:
        return hashed
    limit = {} if config.sources.max_pixels is None else {"max_pixels": config.sources.max_pixels}
    return represent_images(hashed, features, tolerance=config.sources.tolerance, **options, **limit)


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
        "title": config.report.title or "Weights",
        "privacy": config.report.privacy,
        "provenance": describe_origin(inputs, command),
    }
    solve = {name: value for name, value in config.solve.settings().items() if name != "max_unlike"}
    try:
        weights = weigh_splits(
            inputs.pool, inputs.bias, inputs.target, seed=config.engine.seed, max_unlike=config.solve.max_unlike, solve=solve
        )
    except (OverlapError, CoverageError) as error:
        return Refusal(inputs, error, summarize_refusal(inputs.pool, error, target=inputs.target, **told))
    train = weights.parts[0]
    summary = summarize_run(
        inputs.pool.take(train.row),
        weights.weights,
        splits=_split_rows(weights),
        outcomes=config.report.outcomes or None,
        thumbnails=config.report.thumbnails,
        seed=config.engine.seed,
        set_aside=inputs.pool.set_aside,
        **told,
    )
    return Run(inputs, weights, summary)


def _split_rows(weights: SplitWeights) -> tuple[SplitRow, ...]:
    if len(weights.parts) == 1:
        return ()
    return tuple(SplitRow(part.name, part.images, part.groups, part.ess, part.note) for part in weights.parts)


def describe_origin(inputs: Inputs, command: str | None) -> dict[str, Any]:
    """Versions, settings, seed and fingerprints: what somebody needs to compute the same again."""
    config = inputs.config
    fingerprints: dict[str, Any] = {"pool": fingerprint_pool(inputs.pool)}
    if inputs.target is not None and isinstance(inputs.target.reference, Pool):
        fingerprints["target sample"] = fingerprint_pool(inputs.target.reference)
    files = {key: path for key, path in config.inputs.items() if path.is_file()}
    fingerprints["files"] = {key: fingerprint_file(path) for key, path in files.items()}
    # Where the data lie on this machine is nobody's business, and changes no result.
    settings = {name: each for name, each in resolved(config).items() if name != "folder"}
    return {
        "command": command or "",
        "seed": config.engine.seed,
        "versions": find_versions(),
        "settings": settings,
        "fingerprints": fingerprints,
    }


def write_run(run: Run | Refusal, out: Path) -> list[str]:
    """Write the files of a run, each whole or not at all; their names. Of a refused one, the page and the settings."""
    out.mkdir(parents=True, exist_ok=True)
    inputs = run.inputs
    written = []
    if isinstance(run, Run):
        write_weights_table(inputs.pool, run.weights.frame(), out / WEIGHTS)
        write_text(out / SOLUTION, json.dumps(_solution_record(run), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        _write_frame(_diagnostics_table(run.summary), out / DIAGNOSTICS)
        _write_frame(_features_table(inputs.pool), out / FEATURES)
        written += [WEIGHTS, SOLUTION, DIAGNOSTICS, FEATURES]
    if inputs.pool.set_aside is not None and len(inputs.pool.set_aside):
        with written_whole(out / UNREADABLE) as beside:
            inputs.pool.set_aside.to_csv(beside, index=False)
        written.append(UNREADABLE)
    write_config(inputs.config, out / CONFIGURATION)
    write_summary(run.summary, out / PAGE)
    return [*written, CONFIGURATION, PAGE, SUMMARY]


def _write_frame(frame: pd.DataFrame, path: Path) -> None:
    with written_whole(path) as beside:
        frame.to_parquet(beside, index=False)


def _features_table(pool: Pool) -> pd.DataFrame:
    """What is known of every image: id, source, content, attributes and features."""
    frame = pool.frame.drop(columns=[name for name in ("path", "label", "group", "split") if name in pool.frame.columns])
    return frame.assign(source=frame["source"].astype(str))


def _diagnostics_table(summary: Summary) -> pd.DataFrame:
    """One row for each source and each stratum: sizes, shares and effective sizes."""
    import pandas as pd

    sources = [
        {
            "kind": "source",
            "name": row.name,
            "images": row.images,
            "groups": row.groups,
            "share": row.share,
            "weight_share": row.weight_share,
            "ess": row.ess,
            "ess_groups": row.ess_groups,
            "normalizer": row.normalizer,
            "stderr": row.stderr,
            "stderr_bootstrap": row.stderr_bootstrap,
        }
        for row in summary.sources
    ]
    strata = [
        {
            "kind": "stratum",
            "name": row.stratum,
            "images": row.images,
            "groups": row.groups,
            "share": row.pool,
            "weight_share": row.weighted,
            "ess": row.ess,
            "target": row.target,
            "target_stderr": row.target_stderr,
        }
        for row in summary.strata
    ]
    table = pd.DataFrame(sources + strata)
    numbers = [name for name in table.columns if name not in ("kind", "name")]
    return table.astype(dict.fromkeys(numbers, "float64"))


def _solution_record(run: Run) -> dict[str, Any]:
    """The solved equations as plain values."""
    weights = run.weights.weights
    solution, overlap = weights.solution, weights.overlap
    stderr = np.sqrt(np.maximum(np.diag(weights.covariance()), 0.0))
    return plain(
        {
            "sources": list(solution.names),
            "images": np.bincount(weights.source, minlength=len(solution.names)),
            "share": solution.share,
            "u": solution.u,
            "log_normalizer": solution.log_normalizer,
            "log_normalizer_stderr": stderr,
            "relative_normalizer": solution.relative_normalizer,
            "method": solution.method,
            "status": solution.status.value,
            "converged": solution.converged,
            "gradient_norm": solution.gradient_norm,
            "error_estimate": solution.error_estimate,
            "steps": solution.n_steps,
            "verdict": overlap.verdict,
            "message": overlap.message,
            "kappa": overlap.kappa,
            "epsilon": overlap.epsilon,
            "spectral_gap": overlap.spectral_gap,
            "sigma2": overlap.sigma2,
            "ess": weights.ess,
            "ess_groups": weights.ess_groups,
            "bias": run.inputs.bias.to_dict(),
            "description": str(weights.describe()).splitlines(),
        }
    )


def plain(value: Any) -> Any:
    """Values that JSON can hold; numbers that are not finite are None."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


def report_again(out: Path) -> None:
    """The page once more, from report.json."""
    if not (out / SUMMARY).is_file():
        raise DataError(f"{str(out)!r} holds no {SUMMARY}; it is written by `unskew weigh run.toml -o {out}`.")
    write_summary(read_summary(out / SUMMARY), out / PAGE)
