"""A training before and after: what is about to happen, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import first_few
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.predictions import population_sentences
from unskew.records.solution import count_of
from unskew.report.summary.privacy import too_small
from unskew.report.summary.training_record import TrainedArm, TrainingPanel, TriedWay
from unskew.runs.output import PAGE
from unskew.training.arm_scores import Scores
from unskew.training.folder import CARD
from unskew.training.inputs import GIVEN, SPLITS, TrainingArm, TrainingInputs, worth_of
from unskew.training.learnable import untaught_labels

if TYPE_CHECKING:
    from unskew.evaluation.predictions import Evaluation
    from unskew.learn.presets import TrainSettings
    from unskew.learn.ways import WayChoice
    from unskew.runs.pipeline import Run


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
    seeds : that every arm is trained with.
    targets : several targets of the configuration, of which this is about the first.
    """

    out: Path
    training: TrainingInputs
    run: Run
    arms: tuple[TrainingArm, ...]
    settings: TrainSettings
    record: dict[str, Any] = field(repr=False)
    command: str = ""
    resume: bool = False
    seeds: tuple[int, ...] = (0,)
    targets: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Describe what is about to be trained."""
        splits = self.training.splits
        lines = [self._images(), *self.chosen_target(), self._effective_images(), self._models()]
        if splits.validation is None:
            lines.append("There is no validation split: no epoch is chosen, the last one counts.")
        lines += [*([self.training.split_note] if self.training.split_note else [])]
        lines += [*self.unlearned(), *self.unlearnable(), *self.unjudged()]
        part_only = self.part_only(splits.held_out)
        return [*lines, part_only] if part_only else lines

    def chosen_target(self) -> list[str]:
        """Name the target, if the configuration has several."""
        if not self.targets:
            return []
        count, first = len(self.targets), self.targets[0]
        return [f"Of {count} targets this is about the first, {first} (--target NAME: another)."]

    def _images(self) -> str:
        training = self.training
        counts = ", ".join(f"{part.name} {part.images:,}" for part in self.run.weights.parts)
        made = f" (made here: {SPLITS})" if training.split_table is not None else ""
        kind = f"{len(training.columns)} features" if training.columns else "pixels"
        return (
            f"{len(training.label):,} images of {len(training.inputs.pool.names)} sources, "
            f"{len(training.classes)} {training.noun}, as {kind}; {counts}{made}."
        )

    def _effective_images(self) -> str:
        train = self.training.splits.train
        if self.arms[0].name == GIVEN:
            return worth_of(f"given for {train}", self.arms[0].weight[self.training.rows(train)])
        return worth_of(f"of {train}", self.run.weights.parts[0].weight)

    def _models(self) -> str:
        settings, names = self.settings, ", ".join(arm.name for arm in self.arms)
        epochs = f", {count_of(settings.epochs, 'epoch')} of batches of {settings.batch}"
        line = (
            f"Training {names}: preset {settings.preset}, model {settings.model}"
            f"{'' if self.training.columns else epochs}"
        )
        asked = self.training.inputs.config.learn.seeds
        if len(self.seeds) > 1:
            return f"{line}, each with {seeds_phrase(self.seeds)}."
        if asked > 1:
            return (
                f"{line}. A probe is fitted exactly: seeds change nothing, so it is trained once, "
                f"not {asked} times."
            )
        return f"{line}."

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
        if training.has_label_sets:
            return []
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

    def unlearnable(self) -> list[str]:
        """Say how much of the held-out split is of classes that train cannot teach."""
        training, splits = self.training, self.training.splits
        train, judged = training.rows(splits.train), training.rows(splits.held_out)
        taught = train[self.arms[0].weight[train] > 0]
        if training.has_label_sets:
            return self._unlearnable_labels(training.label[taught])
        lost = ~np.isin(training.label[judged], training.label[taught])
        if not lost.any():
            return []
        weight_j = self.run.weights.sample_weight[judged]
        names = [training.classes[m] for m in np.unique(training.label[judged[lost]])]
        count = f"{int(lost.sum()):,}"
        if training.inputs.config.report.privacy == "aggregate":
            count = "A few" if too_small(int(lost.sum())) else count
            names = []
        return [
            f"{count} of {judged.size:,} images of {splits.held_out}, with "
            f"{100 * weight_j[lost].sum() / weight_j.sum():.2g} % of its weight, are of classes "
            f"that the model cannot learn from {splits.train}"
            f"{': ' if names else ''}{first_few(names) if names else ''}. They count as wrong in "
            "every figure."
        ]

    def unjudged(self) -> list[str]:
        """Say of which classes that train teaches the held-out split has no image with weight."""
        training, splits = self.training, self.training.splits
        if training.has_label_sets:
            return []
        train, judged = training.rows(splits.train), training.rows(splits.held_out)
        weight_n, n_classes = self.run.weights.sample_weight, len(training.classes)
        taught_m, judged_m = (
            np.bincount(training.label[rows], weights=weight_n[rows], minlength=n_classes)
            for rows in (train, judged)
        )
        lacking_m = (taught_m > 0) & ~(judged_m > 0)
        if not lacking_m.any():
            return []
        names = [training.classes[m] for m in np.flatnonzero(lacking_m)]
        private = training.inputs.config.report.privacy == "aggregate"
        many = f"{len(names)} class" + "es" * (len(names) > 1)
        share = 100 * taught_m[lacking_m].sum() / taught_m.sum()
        return [
            f"{splits.held_out} has no image of "
            f"{many if private else first_few(names)} "
            f"({share:.2g} % of the weight of {splits.train}): no figure shows how well "
            f"{'it is' if len(names) == 1 else 'they are'} recognised."
        ]

    def _unlearnable_labels(self, label_nm: Any) -> list[str]:
        """Name the labels that no image of train with weight has, or none lacks."""
        train, classes = self.training.splits.train, self.training.classes
        private = self.training.inputs.config.report.privacy == "aggregate"
        never, always = untaught_labels(label_nm, classes)
        return [
            f"No image of {train} with weight is known to {verb} "
            f"{f'{len(names)} labels' if private else first_few(names)}: what cannot be learned is "
            f"{often} predicted."
            for names, verb, often in ((never, "have", "never"), (always, "lack", "always"))
            if names
        ]


def seeds_phrase(seeds: Sequence[int]) -> str:
    """Return ``5 seeds (0 to 4)``; seeds follow each other."""
    return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"


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
        evaluation, worst = scores.evaluation, scores.worst(main)
        where = "a part of the target" if scores.part_only else "the target"
        what, figures = "Accuracy", evaluation.overall.figures
        if scores.has_label_sets:
            what = f"Accuracy, the mean of {len(evaluation.classes)} labels,"
        lines = [
            f"{what} on {where}: {show_figure(scores.accuracy(main))}, from "
            f"{evaluation.coverage.judged:,} held-out images ({evaluation.split})."
        ]
        lines += [
            f"{words.capitalize() if words != 'AUROC' else words}, the mean of the labels: "
            f"{show_figure(figures[f'macro_{name}'], decimal=True)}."
            for name, words in LABEL_METRICS.items()
            if f"macro_{name}" in figures
        ]
        lines += _training_noise(scores)
        if scores.part_only:
            lines.append(scores.part_only)
        lines += scores.remarks
        if worst is not None:
            name, figure = worst
            few = " (few effective images: hardly known)" if figure.few else ""
            shown = show_figure(figure, decimal=scores.has_label_sets)
            auroc = "AUROC " * scores.has_label_sets
            lines.append(f"Worst {name}: {figure.where}, {auroc}{shown}{few}.")
        if "calibration_error" in figures:
            mean = ", the mean of the labels" * scores.has_label_sets
            lines.append(f"Calibration error{mean}: {show_figure(figures['calibration_error'])}.")
        return lines + (label_lines(evaluation) if scores.has_label_sets else [])

    def _comparisons(self) -> list[str]:
        gaps = {name: self.scores.gain(name) for name in self.scores.gains}
        return [
            f"Against {name} ({show_figure(self.scores.accuracy(name))}): "
            f"{show_figure(gap, points=True)}."
            for name, gap in gaps.items()
            if gap is not None
        ]

    def _way(self) -> list[str]:
        choice = self.scores.choices.get(self.scores.main)
        if choice is None:
            return []
        width = max((len(row.name) for row in choice.compared), default=0)
        which = " of the first seed" * (len(self.scores.seeds) > 1)
        return [f"Way{which}: {choice.sentence}"] + [
            f"  {row.name:{width}}  {100 * row.score:5.1f}%  {100 * row.gain:+5.1f} ± "
            f"{100 * row.stderr:.1f} points{'  (chosen)' if row is choice.own else ''}"
            for row in choice.compared
        ]

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


def show_training(scores: Scores) -> TrainingPanel:
    """Return the models of a training as the page shows them."""
    none = (None, None)

    def arm_row(name: str) -> TrainedArm:
        figures = scores.evaluations[name].overall.figures
        which = "worst_label" if scores.has_label_sets else "worst_class"
        accuracy, worst = scores.accuracy(name), figures.get(which, MetricValue(None))
        gap = (scores.gain(name) if name in scores.gains else None) or MetricValue(None)
        calibration = figures.get("calibration_error", MetricValue(None))
        return TrainedArm(
            name=name,
            accuracy=accuracy.value,
            accuracy_interval=accuracy.interval or none,
            worst_class=worst.where,
            worst=worst.value,
            worst_interval=worst.interval or none,
            spread=accuracy.spread,
            gain=gap.value,
            gain_interval=gap.interval or none,
            calibration=calibration.value,
            calibration_interval=calibration.interval or none,
        )

    evaluation, choice = scores.evaluation, scores.choices.get(scores.main)
    return TrainingPanel(
        main=scores.main,
        split=evaluation.split,
        images=evaluation.coverage.judged,
        level=evaluation.level,
        seeds=scores.seeds,
        arms=tuple(arm_row(name) for name in scores.evaluations),
        sentences=(*_training_noise(scores), *filter(None, [scores.part_only]), *scores.remarks),
        labels=len(evaluation.classes) if scores.has_label_sets else None,
        way=None if choice is None else choice.sentence,
        ways=() if choice is None else _tried_ways(choice),
    )


def _tried_ways(choice: WayChoice) -> tuple[TriedWay, ...]:
    return tuple(
        TriedWay(row.name, row.score, row.gain, row.stderr, row is choice.own)
        for row in choice.compared
    )


def _training_noise(scores: Scores) -> list[str]:
    """Say how far the trainings of an arm differ; nothing with one seed."""
    spreads = {name: scores.accuracy(name).spread for name in scores.evaluations}
    shown = [f"{name} {100 * spread:.1f}" for name, spread in spreads.items() if spread is not None]
    if not shown:
        return []
    return [
        f"Every figure is the mean over {seeds_phrase(scores.seeds)}; the accuracy of a single "
        f"training varies by (standard deviation, points): {', '.join(shown)}. Intervals count "
        "this training noise and the sampling of the images."
    ]


def uses_of_validation(epochs: int, calibrated: bool) -> str:
    """Say what the validation images were used for; empty: for nothing."""
    uses = ["chose the epoch"] * (epochs > 1) + ["calibrated the probabilities"] * calibrated
    return " and ".join(uses)


# What a label is judged by, besides its accuracy and calibration.
LABEL_METRICS = {"auroc": "AUROC", "average_precision": "average precision", "f1": "F1"}
_MOST_LABELS = 20


def label_lines(evaluation: Evaluation) -> list[str]:
    """Return one line for every label of an evaluation, of few labels."""
    cells = evaluation.breakdown(evaluation.truth).cells
    lines = []
    for cell in cells[:_MOST_LABELS]:
        figures = {name: cell.figures.get(name, MetricValue(None)) for name in _OF_ONE_LABEL}
        shown = ", ".join(
            f"{words} {show_figure(figures[name], decimal=name in LABEL_METRICS)}"
            for name, words in _OF_ONE_LABEL.items()
            if figures[name].value is not None
        )
        few = " (few effective images: hardly known)" if cell.few else ""
        lines.append(f"  {cell.name}: {shown}{few}.")
    more = len(cells) - _MOST_LABELS
    return [*lines, *([f"  … and {more} more labels in metrics.json."] if more > 0 else [])]


_OF_ONE_LABEL = {
    **LABEL_METRICS,
    "label_accuracy": "accuracy",
    "calibration_error": "calibration error",
}


def show_figure(figure: MetricValue, *, points: bool = False, decimal: bool = False) -> str:
    """Return ``84.1 % (83.0 to 85.2)``, or a difference in points; or decimals."""
    if figure.value is None:
        return "unknown"
    if decimal:
        ends = "" if figure.interval is None else " ({:.3f} to {:.3f})".format(*figure.interval)
        return f"{figure.value:.3f}{ends}"
    value = f"{100 * figure.value:+.1f} points" if points else f"{100 * figure.value:.1f} %"
    if figure.interval is None:
        return value
    sign = "+" if points else ""
    low, high = (f"{100 * limit:{sign}.1f}" for limit in figure.interval)
    return f"{value} ({low} to {high})"
