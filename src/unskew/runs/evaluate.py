"""Predictions judged with the weights of an output folder: `evaluate_run`, `write_metrics`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.debiasing.train_fit import LACKING
from unskew.errors import ConfigError, DataError
from unskew.evaluation.predictions import Evaluation, evaluate_predictions, population_sentences
from unskew.files.fingerprints import find_versions, fingerprint_file
from unskew.files.plain_json import write_json
from unskew.records.target import THE_TARGET
from unskew.runs.output import MEMBERSHIPS
from unskew.weigh.weights_table import read_weights_table

if TYPE_CHECKING:
    import pandas as pd

METRICS_FILE = "metrics.json"


def evaluate_run(
    folder: str | PathLike[str],
    predictions: str | PathLike[str],
    *,
    second: str | PathLike[str] | None = None,
    **settings: Any,
) -> Evaluation:
    """Judge predictions with the results that `unskew weigh` wrote into a folder.

    Weights, attributes, bins and privacy are those of the run; ``settings`` are the keywords of
    `unskew.evaluation.predictions.evaluate_predictions`.
    """
    out = Path(folder)
    table = read_weights_table(out / "weights.parquet")
    private, bins = run_rules(out)
    options: dict[str, Any] = {
        "private": private,
        "bins": bins,
        "attributes": read_attributes(out / "features.parquet", settings.get("by", ()), table),
        "memberships": read_memberships_table(out),
    }
    evaluation = evaluate_predictions(table, predictions, second=second, **options | settings)
    files = {"weights": out / "weights.parquet", "predictions": Path(predictions)}
    if second is not None:
        files["second"] = Path(second)
    if settings.get("target_predictions") is not None:
        files["target_predictions"] = Path(settings["target_predictions"])
    origin = {
        "fingerprints": {name: fingerprint_file(path) for name, path in files.items()},
        "versions": find_versions(),
    }
    notes = (*part_notes(out, evaluation.split), *evaluation.notes)
    return replace(evaluation, notes=notes, origin=origin)


def read_memberships_table(out: Path) -> pd.DataFrame | None:
    """Read memberships.parquet; None where there is none."""
    import pandas as pd

    path = out / MEMBERSHIPS
    return pd.read_parquet(path) if path.is_file() else None


def run_rules(out: Path) -> tuple[bool, dict[str, list[float]]]:
    """Read whether only aggregates may be shown, and the bins of the run's target.

    The stricter of the run's settings and its report decides on privacy.
    """
    private, bins = False, dict[str, list[float]]()
    path = out / "run.toml"
    if path.is_file():
        try:
            settings = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        private = settings.get("report", {}).get("privacy") == "aggregate"
        bins = dict(settings.get("target", {}).get("bins", {}))
    return private or _read_report(out).get("privacy") == "aggregate", bins


def write_metrics(
    evaluation: Evaluation, folder: str | PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write metrics.json into the folder, atomically, and return its path."""
    check_place(folder, overwrite)
    path = Path(folder) / METRICS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, evaluation.to_dict())
    return path


def check_place(folder: str | PathLike[str], overwrite: bool) -> None:
    """Raise an error if metrics.json may not be written there; call this before the work."""
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; {METRICS_FILE} is written into a folder. Name another one "
            "with -o.",
            path=str(out),
        )
    path = out / METRICS_FILE
    if path.exists() and not overwrite:
        raise ConfigError(
            f"{str(path)!r} exists already. Add --overwrite to replace it, or name another folder "
            "with -o.",
            path=str(path),
            option="overwrite",
        )


def read_attributes(features: Path, by: Sequence[str], table: pd.DataFrame) -> pd.DataFrame | None:
    """Read the requested columns of features.parquet only, because embeddings are large.

    ``content``, which tells copies of one image, is read wherever it is known. Where one
    of the requested does not exist, read all columns: the error message lists them.
    """
    import pandas as pd
    import pyarrow.parquet as pq

    if not features.is_file():
        return None
    stored = set(pq.read_schema(features).names)
    if not by and "content" not in stored:
        return None
    columns = [part for name in by for part in ([name] if name in stored else name.split("*"))]
    wanted = [name for name in dict.fromkeys([*columns, "content"]) if name in stored - {"id"}]
    known = all(name in stored or name in table.columns for name in columns)
    return pd.read_parquet(features, columns=["id", *wanted] if known else None)


def part_notes(out: Path, judged: str) -> list[str]:
    """Repeat the report's notes on weights, or judged splits, that cover a part of the target."""
    report, names = _read_report(out), judged.split(" + ")
    verdict = report.get("verdict", {})
    population = verdict.get("population", THE_TARGET) if isinstance(verdict, dict) else THE_TARGET
    parts = [
        f"{row['name']}: {row['note']}"
        for row in report.get("splits", [])
        if isinstance(row, dict) and row.get("name") in names and LACKING in str(row.get("note"))
    ]
    return population_sentences(str(population)) + parts


def _read_report(out: Path) -> dict[str, Any]:
    """Read report.json; empty where there is none."""
    path = out / "report.json"
    if not path.is_file():
        return {}
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    return report if isinstance(report, dict) else {}


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read ({error}). Was it edited after the run?", path=str(path)
    )
