"""A training that is finished: how good its models are, its files, and what is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.runs.output import PAGE
from unskew.training.folder import CARD
from unskew.training.scores import Scores

if TYPE_CHECKING:
    from unskew.evaluation.bootstrap import MetricValue


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A finished training.

    Attributes
    ----------
    out : the output folder.
    scores : how good the models are.
    files : what the folder contains.
    epochs : for every arm, the epoch whose weights its model has, and how many were trained.
    """

    out: Path
    scores: Scores
    files: tuple[str, ...]
    epochs: Mapping[str, tuple[int, int]]

    def lines(self) -> list[str]:
        """Describe the results and where they are."""
        return [
            "",
            *self._accuracy(),
            *self._comparisons(),
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

    def _epoch(self) -> list[str]:
        best, trained = self.epochs[self.scores.main]
        if trained <= 1:
            return []
        lines = [f"The model has the weights of epoch {best} of {trained}."]
        if self.scores.judged_on_validation:
            lines.append(
                "The same images chose the epoch, which flatters the model a little; a test split "
                "would not (`unskew split`)."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return what metrics.json contains, and where the files are."""
        return {**self.scores.to_dict(), "folder": str(self.out), "files": list(self.files)}


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
