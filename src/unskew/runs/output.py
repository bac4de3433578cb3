"""The output folder of a run: its files, and whether they may be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.config.run_config import (
    RunConfig,
    effective_settings,
    read_config,
    resolved,
    write_config,
)
from unskew.config.toml_text import parse_toml
from unskew.errors import (
    ConfigError,
    DataError,
    UnreadableError,
    UnskewError,
    did_you_mean,
    first_few,
)
from unskew.files.atomic import nearest_existing, written_together, written_whole
from unskew.files.checksums import LISTING, check_listing, unfinished_folder
from unskew.files.plain_json import json_value, write_json
from unskew.files.reading import damage_named, read_json, read_text
from unskew.files.spreadsheet_text import guard_table
from unskew.records import Pool
from unskew.records.levels import as_text
from unskew.report.files import write_summary
from unskew.report.summary.record import Summary
from unskew.runs.image_map import MAP, map_images
from unskew.runs.inputs import Inputs
from unskew.weigh.weights_table import write_weights_table

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias
    from unskew.debiasing.pool_weights import SplitWeights
    from unskew.records import Weights
    from unskew.runs.pipeline import Run

WEIGHTS, SOLUTION = "weights.parquet", "solution.json"
DIAGNOSTICS, FEATURES = "diagnostics.parquet", "features.parquet"
MEMBERSHIPS = "memberships.parquet"
CONFIGURATION, PAGE, SUMMARY = "run.toml", "report.html", "report.json"
# In place of weights.parquet, of a run over parts: the list of the parts, and their folder.
PARTS_FILE, PARTS_FOLDER = "weights.json", "weights"
UNREADABLE = "unreadable.csv"
# `unskew forecast` writes it, too, before or after the run: a run without a forecast leaves it.
FORECAST = "forecast.json"
REHEARSAL = "rehearsal.json"
# Only `unskew train` writes it: where it is, the folder holds models.
TRAINING = "training.json"
_FILES = (
    *(WEIGHTS, PARTS_FILE, MEMBERSHIPS, SOLUTION, DIAGNOSTICS, FEATURES, MAP, UNREADABLE),
    *(CONFIGURATION, PAGE, SUMMARY),
)
# Numbers in the table of memberships beyond which it is not written: 64 MB.
_MOST_MEMBERSHIPS = 2**24


def write_run(run: Run, out: Path) -> list[str]:
    """Write the files of a run, all of them or none; return their names.

    Files of an earlier run in the folder are replaced or removed, so that weights and page are
    always of one run.
    """
    inputs = run.inputs
    with replacing_run(out) as folder:
        for name, weights in files_by_target(run).items():
            write_weights_table(inputs.pool, weights.frame(), folder / file_of(WEIGHTS, name))
            record = solution_record(weights.weights, inputs.bias)
            write_json(folder / file_of(SOLUTION, name), record)
            if has_memberships(weights):
                write_frame(weights.memberships(), folder / file_of(MEMBERSHIPS, name))
        write_frame(features_table(inputs.pool), folder / FEATURES)
        if (points := map_images(inputs.pool, run.weights.frame())) is not None:
            write_frame(points, folder / MAP)
        if run.forecast is not None:
            write_json(folder / FORECAST, run.forecast)
        return write_page_of(run, folder, out)


def replacing_run(out: Path) -> AbstractContextManager[Path]:
    """Yield a folder whose files take the place of those of the run in ``out``, all or none."""
    names = [*_FILES, *_files_of_targets(out)]
    return written_together(out, names, [PARTS_FOLDER] if is_in_parts(out) else [])


def write_page_of(run: Run, folder: Path, out: Path) -> list[str]:
    """Write diagnostics, page and settings into ``folder``; return the names of all its files."""
    write_frame(diagnostics_table(run.summary), folder / DIAGNOSTICS)
    return [*_write_page(run.inputs, run.summary, folder, out), LISTING]


def is_in_parts(out: Path) -> bool:
    """Tell whether the weights in the output folder of a run are in parts."""
    return (out / PARTS_FILE).is_file()


def check_in_one_file(out: Path) -> None:
    """Refuse the output folder of a run whose weights are in parts."""
    if is_in_parts(out):
        raise ConfigError(
            f"the weights in {str(out)!r} are in parts, one for each part of the pool "
            f"({PARTS_FOLDER}/), and this reads all of them at once. `unskew verify`, `unskew "
            "export --to csv`, jsonl and class-weights read them part by part. If they fit into "
            "memory, weigh again with [engine] subsample of at least the number of images; else "
            "read the parts you need, or weigh a subsample: pool.sample(n) in Python.",
            path=str(out / PARTS_FILE),
            key="engine.subsample",
        )


def file_of(file: str, target: str | None = None) -> str:
    """Return the name of a file of one target; None: of the main one, or the only one.

    >>> file_of("weights.parquet"), file_of("weights.parquet", "city")
    ('weights.parquet', 'weights-city.parquet')
    """
    stem, dot, kind = file.partition(".")
    return file if target is None else f"{stem}-{target}{dot}{kind}"


def files_by_target(run: Run) -> dict[str | None, SplitWeights]:
    """Return the weights of each target by the name that its files have: None for the main one."""
    return {None: run.weights} | {
        name: weights for name, weights in run.targets.items() if weights is not run.weights
    }


def read_target_names(out: Path) -> list[str]:
    """Return the targets that run.toml in a folder names, the main one first; none of [target]."""
    path = out / CONFIGURATION
    if not path.is_file():
        return []
    with damage_named(path, "the settings of a run"):
        settings = parse_toml(read_text(path), str(path))
    tables = settings.get("targets")
    return list(tables) if isinstance(tables, dict) else []


def find_target_file(out: Path, file: str, target: str | None) -> Path:
    """Return the path of a file of one target of a run; None: of the main one, or the only one."""
    if file == WEIGHTS:
        check_in_one_file(out)
    names = read_target_names(out)
    if target is None or names[:1] == [target]:
        return out / file
    if target not in names:
        known = first_few(names) if names else "a single one, without a name"
        raise ConfigError(
            f"there is no target {target!r} in {str(out)!r}; it has {known}."
            f"{did_you_mean(target, names)}",
            option="--target",
            value=target,
            allowed=names,
        )
    return out / file_of(file, target)


def read_report(out: Path) -> dict[str, Any]:
    """Read report.json; empty where there is none."""
    path = out / SUMMARY
    if not path.is_file():
        return {}
    report = read_json(path)
    return report if isinstance(report, dict) else {}


def _files_of_targets(out: Path) -> list[str]:
    """Return the files that an earlier run in the folder may have written for further targets."""
    try:
        names = read_target_names(out)
    except DataError:  # of an unreadable file nothing is known
        return []
    written = [file_of(file, name) for name in names for file in (WEIGHTS, SOLUTION, MEMBERSHIPS)]
    return [file for file in written if Path(file).name == file]


def write_refusal(inputs: Inputs, summary: Summary, out: Path) -> None:
    """Write the page and the settings of a run that was refused; weights of an earlier run go."""
    with replacing_run(out) as folder:
        _write_page(inputs, summary, folder, out)


def files_of_refusal(out: Path) -> list[str]:
    """Return the names of what `write_refusal` wrote."""
    names = (UNREADABLE, CONFIGURATION, PAGE, SUMMARY, LISTING)
    return [name for name in names if (out / name).exists()]


def _write_page(inputs: Inputs, summary: Summary, folder: Path, home: Path) -> list[str]:
    set_aside = inputs.pool.set_aside
    if set_aside is not None and len(set_aside):
        write_unreadable(set_aside, folder)
    write_config(inputs.config, folder / CONFIGURATION, home=home)
    write_summary(summary, folder / PAGE)
    known = [name for name in (*_FILES, FORECAST, REHEARSAL) if (folder / name).exists()]
    return known + sorted(file.name for file in folder.iterdir() if file.name not in known)


@contextmanager
def unreadable_listed(out: Path | None) -> Iterator[None]:
    """Write unreadable.csv where reading ends because too many images cannot be used."""
    try:
        yield
    except UnreadableError as error:
        if out is None or error.set_aside is None:
            raise
        with written_together(out, ()) as folder:
            file = write_unreadable(error.set_aside, folder)
        message = f"{error} All that were seen are listed in {out / file.name}."
        raise UnreadableError(message, error.set_aside, **error.facts) from error


def write_unreadable(set_aside: pd.DataFrame, folder: Path) -> Path:
    """Write the images that cannot be used, with their reasons; return the file."""
    with written_whole(folder / UNREADABLE) as temporary:
        guard_table(set_aside).to_csv(temporary, index=False)
    return folder / UNREADABLE


def verdict_record(summary: Summary) -> dict[str, Any]:
    """Return the verdict, the sources and the outcomes as plain values, for machines."""
    record = asdict(summary.verdict)
    record["sources"] = [asdict(row) for row in summary.sources]
    record["outcomes"] = [asdict(panel) for panel in summary.outcomes]
    if summary.targets is not None:
        record["targets"] = asdict(summary.targets)
    return json_value(record)  # type: ignore[no-any-return]


def check_output(out: Path, overwrite: bool, config: RunConfig) -> None:
    """Refuse, before the work, a folder that results cannot or must not be written into."""
    if (out / TRAINING).exists():
        raise ConfigError(
            f"{str(out)!r} contains a training, whose models learned from other weights. Name "
            "another folder with -o; or replace weights and models together: `unskew train` with "
            f"-o {out} --force; or delete the folder first.",
            path=str(out),
        )
    # A run that was stopped, or refused, left no results.
    has_results = ((out / WEIGHTS).exists() or is_in_parts(out)) and (out / SUMMARY).exists()
    if has_results and not overwrite and unfinished_folder(out) is None:
        raise ConfigError(
            f"{str(out)!r} contains {_whose_results(out, config)}. Pass overwrite=True "
            "(--overwrite) to replace them, or name another folder (-o).",
            path=str(out),
        )
    check_writable(out)


def _whose_results(out: Path, config: RunConfig) -> str:
    """Tell results of the same settings, which need not be computed again, from others."""
    try:
        known = read_config(out / CONFIGURATION, check_paths=False, allow_code=None)
    except (UnskewError, OSError):
        return "the results of a run whose settings cannot be read"
    old, new = (effective_settings(resolved(own)) for own in (known, config))
    changed = [
        f"[{name}]" for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)
    ]
    if known.folder != config.folder:
        changed.append("the folder of the data")
    if changed:
        return f"the results of a run with other settings ({first_few(changed)} differ)"
    return "the results of this very configuration already (`unskew verify` compares the images)"


def check_writable(out: Path) -> None:
    """Refuse a path that is no folder, is read-only, or holds a run.toml that no run wrote."""
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; results are written into a folder. Give another one with -o.",
            path=str(out),
        )
    if (out / CONFIGURATION).exists() and not (out / SUMMARY).exists():
        raise ConfigError(
            f"{str(out)!r} contains your own {CONFIGURATION}, which the resolved settings would "
            f"overwrite. Name another folder, such as -o {out / 'results'}.",
            path=str(out / CONFIGURATION),
        )
    check_listing(out)
    above = nearest_existing(out)
    if not above.is_dir():
        raise ConfigError(
            f"results cannot be written into {str(out)!r}: {str(above)!r} is a file. Give another "
            "folder with -o.",
            path=str(above),
        )


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write Parquet atomically."""
    with written_whole(path) as temporary:
        frame.to_parquet(temporary, index=False)


def has_memberships(weights: SplitWeights) -> bool:
    """Tell whether the memberships are kept: there are several sources, and not too many images."""
    n_images, n_sources = sum(part.images for part in weights.parts), len(weights.weights.names)
    return n_sources > 1 and n_images * n_sources <= _MOST_MEMBERSHIPS


def features_table(pool: Pool) -> pd.DataFrame:
    """Return what is known about every image: id, source, content, attributes and features."""
    frame = pool.frame.drop(
        columns=[name for name in ("path", "label", "group", "split") if name in pool.frame.columns]
    )
    return frame.assign(source=as_text(frame["source"]))


def diagnostics_table(summary: Summary) -> pd.DataFrame:
    """Return one row for each source and each stratum: sizes, shares and effective sizes."""
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


def solution_record(weights: Weights, bias: Bias, whole: Weights | None = None) -> dict[str, Any]:
    """Return the solved equations, the verdict and the bias model as plain values.

    ``whole``: the weights over parts, where ``weights`` are those of their subsample.
    """
    whole = weights if whole is None else whole
    solution, overlap, diagnosis = whole.solution, whole.overlap, whole.diagnosis
    stderr = np.sqrt(np.maximum(np.diag(weights.covariance()), 0.0))
    record: dict[str, Any] = json_value(
        {
            "sources": list(solution.names),
            "images": [source.images for source in diagnosis.by_source],
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
            "link_error": overlap.link_error,
            "heaviest": overlap.heaviest,
            "unseen": overlap.unseen,
            "lone": overlap.lone,
            "ess": diagnosis.ess,
            "ess_groups": diagnosis.ess_groups,
            "bias": bias.to_dict(),
            "description": str(whole.describe()).splitlines(),
        }
    )
    return record
