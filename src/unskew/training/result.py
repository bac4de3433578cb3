"""A training before and after: what is about to happen, and what came out, with scores of every
arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import first_few
from unskew.evaluation.cells import Cell
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.predictions import Evaluation, evaluate_predictions, population_sentences
from unskew.files.plain_json import json_value
from unskew.records import Floats
from unskew.runs.output import PAGE, features_table
from unskew.training.folder import CARD
from unskew.training.inputs import GIVEN, SPLITS, TrainingArm, TrainingInputs, worth_of

if TYPE_CHECKING:
    import pandas as pd

    from unskew.evaluation.metric_value import MetricValue
    from unskew.learn.presets import TrainSettings
    from unskew.learn.ways import WayChoice
    from unskew.runs.pipeline import Run


@dataclass(frozen=True, eq=False)
class Scores:
    """Models judged on the held-out split.

    Attributes
    ----------
    main : the arm that the run is about.
    evaluations : of every arm.
    gains : for every other arm, main − other of every metric, paired on the same draws.
    predictions : of every arm: id, y, prediction, score_<class>.
    part_only : which part of the target the figures cover, where the held-out split has no image of
        some strata of it; empty: all of it.
    choices : of every arm, the way that its model was trained in.
    """

    main: str
    evaluations: Mapping[str, Evaluation]
    gains: Mapping[str, Cell]
    predictions: Mapping[str, pd.DataFrame] = field(repr=False)
    part_only: str = ""
    choices: Mapping[str, WayChoice] = field(repr=False, default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what metrics.json contains.

        The evaluation of the main arm as `unskew evaluate` writes it, and the arms side by side.
        """
        records = {name: evaluation.to_dict() for name, evaluation in self.evaluations.items()}
        arms = {
            name: {
                "overall": record["overall"],
                "worst": {part["column"]: part["worst"] for part in record["breakdowns"]},
            }
            for name, record in records.items()
        }
        for name, choice in self.choices.items():
            arms[name]["way"] = choice.to_dict()
        gains = {name: cell.difference or {} for name, cell in self.gains.items()}
        notes = [*([self.part_only] if self.part_only else []), *records[self.main]["notes"]]
        return {
            **records[self.main],
            "notes": notes,
            "arm": self.main,
            "way": arms[self.main].get("way"),
            "arms": arms,
            "gains": json_value(gains),
        }

    def accuracy(self, arm: str) -> MetricValue:
        """Return the accuracy on all held-out images, weighted to the target."""
        return self.evaluations[arm].overall.figures["accuracy"]

    @property
    def judged_on_validation(self) -> bool:
        """Tell whether the held-out split is the one that also chose the epoch."""
        return self.evaluations[self.main].split.strip().lower() not in ("test", "testing")

    def worst(self, arm: str) -> tuple[str, MetricValue] | None:
        """Return the name of a breakdown, and the smallest accuracy of its cells.

        It is that of the last column that was asked for, else of the classes, else of the sources.
        """
        parts = [part for part in self.evaluations[arm].breakdowns if part.worst is not None]
        order = [
            *[part for part in parts if part.column not in ("source", "label", "y")][::-1],
            *parts[::-1],
        ]
        names = {"y": "class", "label": "class"}
        for part in order:
            if part.worst is not None:
                return names.get(part.column, part.column), part.worst
        return None


def prediction_frame(
    ids: Any, truth: Any, classes: Sequence[str], score_nm: Floats
) -> pd.DataFrame:
    """Return id, y, prediction and score_<class>, as `unskew evaluate --predictions` reads them."""
    import pandas as pd

    frame = pd.DataFrame({"id": list(ids)})
    if truth is not None:
        frame["y"] = list(truth)
    frame["prediction"] = np.array(classes, dtype=object)[score_nm.argmax(axis=1)]
    return pd.concat(
        [frame, pd.DataFrame(score_nm, columns=[f"score_{name}" for name in classes])], axis=1
    )


def held_out_predictions(training: TrainingInputs, score_nm: Floats) -> pd.DataFrame:
    """Return the predictions of the held-out split as a table."""
    rows = training.rows(training.splits.held_out)
    names = np.array(training.classes, dtype=object)
    return prediction_frame(
        training.inputs.pool.frame["id"].to_numpy()[rows],
        names[training.label[rows]],
        training.classes,
        score_nm,
    )


def judge_arms(
    training: TrainingInputs,
    table: pd.DataFrame,
    predictions: Mapping[str, pd.DataFrame],
    main: str,
    *,
    replicates: int = 1000,
    part_only: str = "",
    choices: Mapping[str, WayChoice] | None = None,
    memberships: pd.DataFrame | None = None,
) -> Scores:
    """Evaluate every arm on the held-out split with the weights of the run, and compare them.

    It makes the same call as `unskew evaluate OUT --predictions OUT/predictions.parquet`, so that
    both give the same numbers.
    """
    config = training.inputs.config
    options: dict[str, Any] = {
        "split": training.splits.held_out,
        "by": breakdown_columns(training),
        "attributes": features_table(training.inputs.pool),
        "bins": {} if config.target is None else dict(config.target.bins or {}),
        "private": config.report.privacy == "aggregate",
        "replicates": replicates,
        "memberships": memberships,
    }
    evaluations = {
        name: evaluate_predictions(table, frame, **options) for name, frame in predictions.items()
    }
    others = [name for name in predictions if name != main]
    gains = {
        name: evaluate_predictions(
            table, predictions[name], second=predictions[main], **{**options, "by": ()}
        ).overall
        for name in others
    }
    return Scores(main, evaluations, gains, predictions, part_only, choices or {})


def try_judging(training: TrainingInputs, table: pd.DataFrame) -> None:
    """Evaluate made-up predictions, so that what cannot be evaluated fails before the training.

    An example is a column of [learn] by that does not exist.
    """
    rows, classes = training.rows(training.splits.held_out), len(training.classes)
    alike = held_out_predictions(training, np.full((rows.size, classes), 1.0 / classes))
    judge_arms(training, table, {"trial": alike}, "trial", replicates=0)


def breakdown_columns(training: TrainingInputs) -> tuple[str, ...]:
    """Return the columns of [learn] by, else the target's strata if they are not labels alone."""
    asked = training.inputs.config.learn.by
    if asked:
        return tuple(asked)
    target = training.inputs.target
    by = (
        []
        if target is None
        else [name for name in target.by if name in training.inputs.pool.frame.columns]
    )
    return ("*".join(by),) if [name for name in by if name != "label"] else ()


@dataclass(frozen=True, eq=False)
class Preparation:
    """Everything a training needs, read and weighed; nothing is trained yet.

    Attributes
    ----------
    out : the output folder.
    training : the images, their classes and splits.
    run : the weights, as `unskew weigh` computes them.
    arms : what is trained, the main one first.
    settings : of the training.
    record : what training.json contains.
    command : the command that was typed.
    resume : continue the training in the folder.
    """

    out: Path
    training: TrainingInputs
    run: Run
    arms: tuple[TrainingArm, ...]
    settings: TrainSettings
    record: dict[str, Any] = field(repr=False)
    command: str = ""
    resume: bool = False

    def lines(self) -> list[str]:
        """Describe what is about to be trained."""
        splits = self.training.splits
        lines = [self._images(), self._effective_images(), self._models()]
        if splits.validation is None:
            lines.append("There is no validation split: no epoch is chosen, the last one counts.")
        lines += self.unlearned()
        part_only = self.part_only(splits.held_out)
        return [*lines, part_only] if part_only else lines

    def _images(self) -> str:
        training = self.training
        counts = ", ".join(f"{part.name} {part.images:,}" for part in self.run.weights.parts)
        made = f" (made here: {SPLITS})" if training.split_table is not None else ""
        kind = f"{len(training.columns)} features" if training.columns else "pixels"
        return (
            f"{len(training.label):,} images of {len(training.inputs.pool.names)} sources, "
            f"{len(training.classes)} classes, as {kind}; {counts}{made}."
        )

    def _effective_images(self) -> str:
        train = self.training.splits.train
        if self.arms[0].name == GIVEN:
            return worth_of(f"given for {train}", self.arms[0].weight[self.training.rows(train)])
        return worth_of(f"of {train}", self.run.weights.parts[0].weight)

    def _models(self) -> str:
        settings, names = self.settings, ", ".join(arm.name for arm in self.arms)
        epochs = f", {settings.epochs} epochs of batches of {settings.batch}"
        return (
            f"Training {names}: preset {settings.preset}, model {settings.model}"
            f"{'' if self.training.columns else epochs}."
        )

    def part_only(self, split: str) -> str:
        """Say which part of the target the weighted images of a split cover; empty: all of it."""
        sentences = population_sentences(self.run.summary.verdict.population)
        if any(part.uncovered for part in self.run.weights.parts if part.name == split):
            rows = self.run.summary.splits
            notes = [row.note for row in rows if row.name == split and row.note]
            sentences.append(f"{split}: {notes[0] if notes else 'Covers a part of the target.'}")
        return " ".join(sentences)

    def unlearned(self) -> list[str]:
        """Name the classes of which train has no image, or images of weight 0 only."""
        training, arm, train = self.training, self.arms[0], self.training.splits.train
        rows, n_classes = training.rows(train), len(training.classes)
        count_m = np.bincount(training.label[rows], minlength=n_classes)
        mass_m = np.bincount(training.label[rows], weights=arm.weight[rows], minlength=n_classes)
        absent = [training.classes[m] for m in np.flatnonzero(count_m == 0)]
        light = [
            f"{training.classes[m]} ({count_m[m]:,})"
            for m in np.flatnonzero((count_m > 0) & ~(mass_m > 0))
        ]
        end = "such a class cannot be learned, and predictions of it mean nothing."
        sentences = []
        if absent:
            sentences.append(f"{train} has no image of {first_few(absent)}: {end}")
        if light:
            sentences.append(
                f"All images of {first_few(light)} in {train} have weight 0 ({arm.name}): {end}"
            )
        return sentences


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A finished training.

    Attributes
    ----------
    out : the output folder.
    scores : how good the models are.
    files : what the folder contains.
    epochs : for every arm, the epoch whose weights its model has, and how many were trained.
    calibrated : whether the validation images calibrated the model of the main arm.
    """

    out: Path
    scores: Scores
    files: tuple[str, ...]
    epochs: Mapping[str, tuple[int, int]]
    calibrated: bool = False

    def lines(self) -> list[str]:
        """Describe the results and where they are."""
        return [
            "",
            *self._accuracy(),
            *self._comparisons(),
            *self._way(),
            *self._epoch(),
            "All of this rests on the bias model; the page says what it assumes.",
            "",
            f"Written to {self.out}: {', '.join(self.files)}",
            f"The card: {self.out / CARD}",
            f"The page: {self.out / PAGE}",
            f"Other images: unskew evaluate {self.out} FOLDER",
        ]

    def _accuracy(self) -> list[str]:
        scores, main = self.scores, self.scores.main
        evaluation, worst = scores.evaluations[main], scores.worst(main)
        where = "a part of the target" if scores.part_only else "the target"
        lines = [
            f"Accuracy on {where}: {show_figure(scores.accuracy(main))}, from "
            f"{evaluation.coverage.judged:,} held-out images ({evaluation.split})."
        ]
        if scores.part_only:
            lines.append(scores.part_only)
        if worst is not None:
            name, figure = worst
            few = " (few effective images: hardly known)" if figure.few else ""
            lines.append(f"Worst {name}: {figure.where}, {show_figure(figure)}{few}.")
        if "calibration_error" in evaluation.overall.figures:
            error = evaluation.overall.figures["calibration_error"]
            lines.append(f"Calibration error: {show_figure(error)}.")
        return lines

    def _comparisons(self) -> list[str]:
        gaps = {
            name: (cell.difference or {}).get("accuracy")
            for name, cell in self.scores.gains.items()
        }
        return [
            f"Against {name} ({show_figure(self.scores.accuracy(name))}): "
            f"{show_figure(gap, points=True)}."
            for name, gap in gaps.items()
            if gap is not None
        ]

    def _way(self) -> list[str]:
        choice = self.scores.choices.get(self.scores.main)
        return [] if choice is None else [f"Way: {choice.reason}"]

    def _epoch(self) -> list[str]:
        best, trained = self.epochs[self.scores.main]
        lines = [f"The model has the weights of epoch {best} of {trained}."] if trained > 1 else []
        uses = uses_of_validation(trained, self.calibrated)
        if uses and self.scores.judged_on_validation:
            lines.append(
                f"The same images {uses}, which flatters the model a little; a test split would "
                "not (`unskew split`)."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return what metrics.json contains, and where the files are."""
        return {**self.scores.to_dict(), "folder": str(self.out), "files": list(self.files)}


def uses_of_validation(epochs: int, calibrated: bool) -> str:
    """Say what the validation images were used for; empty: for nothing."""
    uses = ["chose the epoch"] * (epochs > 1) + ["calibrated the probabilities"] * calibrated
    return " and ".join(uses)


def show_figure(figure: MetricValue, *, points: bool = False) -> str:
    """Return ``84.1 % (83.0 to 85.2)``, or a difference in points."""
    if figure.value is None:
        return "unknown"
    value = f"{100 * figure.value:+.1f} points" if points else f"{100 * figure.value:.1f} %"
    if figure.interval is None:
        return value
    sign = "+" if points else ""
    low, high = (f"{100 * limit:{sign}.1f}" for limit in figure.interval)
    return f"{value} ({low} to {high})"
