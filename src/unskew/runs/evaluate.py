"""Predictions judged with the weights of an output folder: `evaluate_run`, `write_metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.config.toml_text import parse_toml
from unskew.debiasing.train_fit import LACKING
from unskew.engine.arguments import checked
from unskew.errors import ConfigError
from unskew.evaluation.predictions import Evaluation, evaluate_predictions, population_sentences
from unskew.files.atomic import written_together
from unskew.files.checksums import check_files
from unskew.files.fingerprints import find_versions, fingerprint_file
from unskew.files.plain_json import write_json
from unskew.files.reading import damage_named, parquet_columns, read_parquet, read_text
from unskew.records.levels import INDICATOR
from unskew.records.target import THE_TARGET
from unskew.runs.output import (
    CONFIGURATION,
    FEATURES,
    MEMBERSHIPS,
    SUMMARY,
    WEIGHTS,
    find_target_file,
    read_report,
    read_target_names,
)
from unskew.weigh.weights_table import read_weights_table

if TYPE_CHECKING:
    import pandas as pd

    from unskew.training.arm_scores import Scores

METRICS_FILE = "metrics.json"


@checked
def evaluate_run(
    folder: str | PathLike[str],
    predictions: str | PathLike[str],
    *,
    second: Sequence[str | PathLike[str]] = (),
    second_name: str = "",
    target: str | None = None,
    force: bool = False,
    **settings: Any,
) -> Evaluation:
    """Judge predictions with the results that `unskew weigh` wrote into a folder.

    ``force``: also if its files are not those that the run wrote. ``target`` is the name of one of
    several targets; None: the main one. Weights, attributes, bins and privacy are those of the run;
    ``settings`` are the keywords of `unskew.evaluation.predictions.evaluate_predictions`.
    ``second`` are the files of another model: one, or one for each seed that it was trained with.
    """
    out = Path(folder)
    weights = find_target_file(out, WEIGHTS, target)
    memberships = find_target_file(out, MEMBERSHIPS, target)
    names = (weights.name, memberships.name, FEATURES, CONFIGURATION, SUMMARY)
    check_files(out, names, force=force)
    table = read_weights_table(weights)
    private, bins = run_rules(out, target)
    others = [Path(path) for path in second]
    options: dict[str, Any] = {
        "private": private,
        "bins": bins,
        "attributes": read_attributes(out / FEATURES, settings.get("by", ()), table),
        "memberships": read_memberships_table(out, target),
        "names": _model_names(Path(predictions), second_name),
    }
    if others:
        options["second"] = others
    # One model against several trainings of another.
    first = [predictions] * max(1, len(others))
    evaluation = evaluate_predictions(table, first, **options | settings)
    files = {"weights": weights, "predictions": Path(predictions)}
    for number, path in enumerate(others):
        files["second" if len(others) == 1 else f"second {number + 1}"] = path
    if settings.get("target_predictions") is not None:
        files["target_predictions"] = Path(settings["target_predictions"])
    origin = {
        "fingerprints": {name: fingerprint_file(path) for name, path in files.items()},
        "versions": find_versions(),
    }
    notes = (*part_notes(out, evaluation.split, target), *evaluation.notes)
    return replace(evaluation, notes=notes, origin=origin)


def _model_names(predictions: Path, second: str) -> list[str]:
    """Name two models by their files, or the second by its arm; without a second one: both."""
    first = predictions.stem
    return [first, second if second and second != first else "second"]


@dataclass(frozen=True, eq=False)
class EvaluationsByTarget:
    """One model judged on each of several targets.

    Attributes
    ----------
    evaluations : by name of the target, the main one first.
    """

    evaluations: Mapping[str, Evaluation]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that exist on every target."""
        figures = [own.overall.figures for own in self.evaluations.values()]
        return tuple(
            name
            for name in figures[0]
            if all(name in own and own[name].value is not None for own in figures)
        )

    @checked
    def worst(self, metric: str) -> str:
        """Return the target on which a metric is worst: highest of an error, else lowest."""
        sign = 1.0 if metric in _ERRORS else -1.0
        return max(
            self.evaluations,
            key=lambda name: sign * (self.evaluations[name].overall.figures[metric].value or 0.0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: the targets, and for each metric the one where it is worst."""
        return {
            "targets": {name: own.to_dict() for name, own in self.evaluations.items()},
            "worst": {metric: self.worst(metric) for metric in self.metrics},
        }


# Metrics of which more is worse.
_ERRORS = ("log_loss", "calibration_error", "mae", "rmse")


@checked
def evaluate_run_targets(
    folder: str | PathLike[str], predictions: str | PathLike[str], **settings: Any
) -> EvaluationsByTarget:
    """Judge predictions on every target of a run, as `evaluate_run` does on one."""
    names = read_target_names(Path(folder))
    if not names:
        raise ConfigError(
            f"{str(folder)!r} is a run with a single target: call evaluate_run.",
            path=str(folder),
        )
    return EvaluationsByTarget(
        {name: evaluate_run(folder, predictions, target=name, **settings) for name in names}
    )


def read_memberships_table(out: Path, target: str | None = None) -> pd.DataFrame | None:
    """Read memberships.parquet; None where there is none."""
    path = find_target_file(out, MEMBERSHIPS, target)
    return read_parquet(path) if path.is_file() else None


def run_rules(out: Path, target: str | None = None) -> tuple[bool, dict[str, list[float]]]:
    """Read whether only aggregates may be shown, and the bins of the run's target.

    The stricter of the run's settings and its report decides on privacy.
    """
    private, bins = False, dict[str, list[float]]()
    path = out / "run.toml"
    if path.is_file():
        with damage_named(path, "the settings of a run"):
            settings = parse_toml(read_text(path), str(path))
            private = settings.get("report", {}).get("privacy") == "aggregate"
            tables = settings.get("targets", {})
            chosen = next(iter(tables), "") if target is None else target
            bins = dict(tables.get(chosen, settings.get("target", {})).get("bins", {}))
    return private or read_report(out).get("privacy") == "aggregate", bins


def write_metrics(
    evaluation: Evaluation | EvaluationsByTarget | Scores,
    folder: str | PathLike[str],
    *,
    overwrite: bool = False,
) -> Path:
    """Write metrics.json into the folder, atomically, and return its path."""
    with written_together(folder, ()) as temporary:
        check_place(folder, overwrite)
        write_json(temporary / METRICS_FILE, evaluation.to_dict())
    return Path(folder) / METRICS_FILE


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

    ``content``, which tells copies of one image, and ``label=<name>``, whose gaps are unknown
    labels, are read wherever they are known. Where one of the requested does not exist, read all
    columns: the error message lists them.
    """
    if not features.is_file():
        return None
    stored = set(parquet_columns(features))
    always = ["content", *(name for name in stored if name.startswith(INDICATOR))]
    if not by and not stored & {*always}:
        return None
    columns = [part for name in by for part in ([name] if name in stored else name.split("*"))]
    wanted = [name for name in dict.fromkeys([*columns, *always]) if name in stored - {"id"}]
    known = all(name in stored or name in table.columns for name in columns)
    return read_parquet(features, ["id", *wanted] if known else None)


def part_notes(out: Path, judged: str, target: str | None = None) -> list[str]:
    """Repeat the report's notes on weights, or judged splits, that cover a part of the target."""
    report, names = read_report(out), judged.split(" + ")
    panel = report.get("targets") or {}
    for row in panel.get("rows", ()):
        if row["name"] == target:
            parts = [f"{name}: {note}" for name, note in row["splits"] if name in names]
            return population_sentences(row["population"]) + [
                part for part in parts if LACKING in part
            ]
    verdict = report.get("verdict", {})
    population = verdict.get("population", THE_TARGET) if isinstance(verdict, dict) else THE_TARGET
    parts = [
        f"{row['name']}: {row['note']}"
        for row in report.get("splits", [])
        if isinstance(row, dict) and row.get("name") in names and LACKING in str(row.get("note"))
    ]
    return population_sentences(str(population)) + parts
