"""The figures of every cell of a breakdown, of one model or of two and their difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError, first_few
from unskew.evaluation.bootstrap import (
    Drawing,
    DrawnModel,
    Sampled,
    describe_cells,
    describe_differences,
    describe_worst,
    draw_models,
    plan_drawing,
)
from unskew.evaluation.metric_families import Metrics, make_metrics
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.metrics import (
    BY_CLASS,
    FEW_EFFECTIVE,
    Answers,
    Cells,
    Truth,
)
from unskew.evaluation.subgroups import View, small_classes
from unskew.records import Floats, Ints
from unskew.report.summary.privacy import SMALLEST_CELL, count_units, shown_size


@dataclass(frozen=True)
class Cell:
    """The figures of one part of the images.

    Attributes
    ----------
    name : the level of the column; "all" for all images.
    images, groups : judged images, and groups; those of weight 0 included.
    weight_share : share of the weight.
    ess, ess_groups : effective number of images and of groups, copies of one image being one.
    few : are they fewer than `few_effective` (groups, or images where there are none)?
    figures : {metric: figure} of the model; what does not exist is left out.
    second, difference : the same of the second model, and second − first; None without one.
    """

    name: str
    images: int
    groups: int | None
    weight_share: float
    ess: float
    ess_groups: float | None
    few: bool
    figures: Mapping[str, MetricValue]
    second: Mapping[str, MetricValue] | None = None
    difference: Mapping[str, MetricValue] | None = None


@dataclass(frozen=True, eq=False)
class JudgedImages:
    """The judged images with truth and answers; those of weight 0 count in unweighted figures only.

    ``group`` is what privacy protects, ``unit`` what is drawn again: groups
    and copies of one image. ``answers`` of each model are those of its trainings.
    """

    source: npt.NDArray[Any]
    weight: Floats
    group: Ints | None
    unit: Ints | None
    truth: Truth
    answers: list[tuple[Answers, ...]]

    def check_private(self) -> None:
        units = self.weight.size if self.group is None else np.unique(self.group).size
        if units < SMALLEST_CELL:
            what = "images" if self.group is None else "groups"
            raise ConfigError(
                f'privacy = "aggregate" shows nothing about fewer than {SMALLEST_CELL} {what}; '
                f"{units} are judged.",
                count=units,
                limit=SMALLEST_CELL,
            )

    @property
    def kept(self) -> Ints:
        """Images with weight."""
        return np.flatnonzero(self.weight > 0)

    def plan_drawing(self, replicates: int, seed: int, level: float) -> Drawing:
        names, code = np.unique(self.source[self.kept].astype(str), return_inverse=True)
        unit = None if self.unit is None else self.unit[self.kept]
        return plan_drawing(
            Sampled(tuple(names.tolist()), code.astype(np.int32), self.weight[self.kept], unit),
            replicates,
            seed,
            level,
        )


def _with_worst(cell: Cell, worst: MetricValue) -> Cell:
    """Give the accuracy of the cell that was found to be the worst the interval of an extreme.

    It is the same number: its own percentiles would not count that it was picked for being small.
    """
    own = cell.figures["accuracy"]
    figure = replace(own, interval=worst.interval, stderr=worst.stderr)
    return replace(cell, figures={**cell.figures, "accuracy": figure})


class CellJudge:
    """Metrics of the models in the cells of a view, and what to know about them."""

    def __init__(
        self,
        images: JudgedImages,
        drawing: Drawing,
        private: bool,
        metrics: Callable[..., Metrics] = make_metrics,
    ) -> None:
        self.images, self.drawing, self.private = images, drawing, private
        self.metrics = metrics
        self.unranked: list[str] = []

    def judge(self, views: Sequence[View]) -> list[tuple[tuple[Cell, ...], MetricValue | None]]:
        """Judge all views on the same draws.

        For each view: one cell for each of its levels, and the worst of them for the first model.
        """
        images, kept = self.images, self.images.kept
        truth = images.truth.take(kept)
        answers = [[one.take(kept) for one in model] for model in images.answers]
        # One list of metrics, of every view and model, because one loop draws for all of them.
        metrics = [
            self.metrics(self.inside(view), truth, model)
            for view in views
            if view.levels
            for model in answers
        ]
        drawn = iter(draw_models(metrics, self.drawing))
        return [
            self._judge_view(view, [next(drawn) for _ in answers]) if view.levels else ((), None)
            for view in views
        ]

    def _judge_view(
        self, view: View, models: Sequence[DrawnModel]
    ) -> tuple[tuple[Cell, ...], MetricValue | None]:
        """Judge one view from the metrics and the replicates of each model."""
        cells = self._cells(view, models)
        worst = describe_worst(models[0], view.levels, self.drawing.level)
        if worst is None:
            return cells, None
        c, figure = worst
        shown = self._shown({"accuracy": figure}, False)["accuracy"]
        return tuple(
            _with_worst(cell, shown) if at == c else cell for at, cell in enumerate(cells)
        ), shown

    def inside(self, view: View) -> Cells:
        kept, drawing = self.images.kept, self.drawing
        return Cells(
            view.code[kept],
            len(view.levels),
            drawing.units.unit_n,
            drawing.n_units,
            self.images.weight[kept],
        )

    def _cells(self, view: View, models: Sequence[DrawnModel]) -> tuple[Cell, ...]:
        images, level, n = self.images, self.drawing.level, self.images.weight.size
        plain = Cells(view.code, len(view.levels), np.arange(n), n, np.ones(n))
        unweighted = [self.metrics(plain, images.truth, model) for model in images.answers]
        if any(not model.metrics.can_rank(self.drawing.replicates) for model in models):
            self.unranked.append(view.name)
        figures = [
            describe_cells(model, plain_metrics, level)
            for model, plain_metrics in zip(models, unweighted, strict=True)
        ]
        second = figures[1] if len(figures) == 2 else None
        gaps = None if second is None else describe_differences(figures[0], second, models, level)
        small_c = (
            small_classes(view, images.truth, images.group)
            if self.private
            else np.zeros(len(view.levels), dtype=np.bool_)
        )
        cells = []
        for c, cell in enumerate(self.count_cells(view, models[0].metrics.cells)):
            shown = [
                None if part is None else self._shown(part[c], bool(small_c[c]))
                for part in (figures[0], second, gaps)
            ]
            cells.append(
                replace(
                    cell,
                    name=view.levels[c],
                    figures=shown[0] or {},
                    second=shown[1],
                    difference=shown[2],
                )
            )
        return tuple(cells)

    def count_cells(self, view: View, inside: Cells) -> list[Cell]:
        """Count the images, groups and weight of the cells; their figures come later."""
        images, n_cells = self.images, inside.size
        count_c = count_units(None, view.code, n_cells)
        groups_c = None if images.group is None else count_units(images.group, view.code, n_cells)
        own = replace(inside, unit=np.arange(images.kept.size), n_units=images.kept.size)
        ess_c, ess_units_c = (
            own.effective(own.code, n_cells),
            inside.effective(inside.code, n_cells),
        )
        mass_c = (
            np.bincount(
                inside.code[inside.code >= 0],
                weights=inside.weight[inside.code >= 0],
                minlength=n_cells,
            )
            / inside.weight.sum()
        )
        return [
            Cell(
                name="",
                images=int(count_c[c]),
                groups=None if groups_c is None else int(groups_c[c]),
                weight_share=float(mass_c[c]),
                ess=self._rounded(float(ess_c[c])),
                ess_groups=None if groups_c is None else self._rounded(float(ess_units_c[c])),
                few=bool(ess_units_c[c] < FEW_EFFECTIVE),
                figures={},
            )
            for c in range(n_cells)
        ]

    def _shown(self, figures: Mapping[str, MetricValue], small: bool) -> dict[str, MetricValue]:
        """Keep the figures that exist and may be shown."""
        kept = {
            name: figure
            for name, figure in figures.items()
            if (figure.value is not None or figure.unweighted is not None)
            and not (small and name in BY_CLASS)
        }
        if not self.private:
            return kept
        return {
            name: figure
            if figure.effective is None
            else replace(figure, effective=self._rounded(figure.effective))
            for name, figure in kept.items()
        }

    def _rounded(self, effective: float) -> float:
        return float(shown_size(effective, self.private) or 0.0)

    def notes(self) -> list[str]:
        """Say what a reader of the intervals should know."""
        drawing, notes = self.drawing, []
        if drawing.replicates and drawing.units.cannot_vary:
            notes.append(
                "There are no intervals: with one group in every source it is unknown how much "
                "groups differ."
            )
        elif drawing.replicates and drawing.n_single:
            notes.append(
                f"{drawing.n_single} sources have a single group or image, whose variation no "
                "interval can see."
            )
        if self.unranked:
            notes.append(
                f"AUROC has no interval, or is left out (by {first_few(self.unranked)}): too many "
                "images × classes × replicates."
            )
        return notes
