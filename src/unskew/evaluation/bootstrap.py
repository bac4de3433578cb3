"""Intervals of metrics: whole groups are drawn within their sources; two models share the draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from unskew.evaluation.metric_families import Metrics, figures_of_data, join_replicates
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.metrics import EXTREMES, FEW_EFFECTIVE, SHARES
from unskew.evaluation.training_noise import NOISE_REPLICATES, TrainingNoise, measure_noise
from unskew.records import Codes, Floats, Ints
from unskew.weigh.bootstrap import draw_counts
from unskew.weigh.sampling_units import Units, find_units

# Sums in another order differ by this much.
_ROUNDING = 1e-12
# Replicates held at once: numbers in the largest table of them.
_LARGEST_TABLE = 2**23
_WIDEST_BLOCK = 64
_PIECE = 512


@dataclass(frozen=True)
class Sampled:
    """The images as rows of weights, from which units are found."""

    names: tuple[str, ...]
    source: Codes = field(repr=False)
    weight: Floats = field(repr=False)
    unit: Ints | None = field(repr=False)
    design_weight: Floats | None = field(repr=False, default=None)


@dataclass(frozen=True)
class Drawing:
    """How replicates are drawn.

    Attributes
    ----------
    units : images, or groups and copies of one image, and the sources (or sources linked by these)
        within which they are drawn.
    replicates, seed, level : their number, the seed of the draws, the coverage of intervals.
    """

    units: Units = field(repr=False)
    replicates: int
    seed: int
    level: float

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.units.stratum_m.size)

    @property
    def n_single(self) -> int:
        """Sources (or linked sources) with a single unit, which every replicate draws."""
        return int(np.count_nonzero(self.units.size_s == 1))

    def blocks(self, n_sums: int) -> Iterator[Floats]:
        """Draw blocks of replicates, (m, b): how often each unit counts.

        The draws do not depend on the size of the blocks.
        """
        width = int(np.clip(_LARGEST_TABLE // max(self.n_units, n_sums, 1), 1, _WIDEST_BLOCK))
        counts = draw_counts(
            replace(self.units, unit_n=np.arange(self.n_units)),
            self.replicates,
            np.random.default_rng(self.seed),
        )
        for first in range(0, self.replicates, width):
            yield _side_by_side([next(counts) for _ in range(min(width, self.replicates - first))])


def _side_by_side(drawn: Sequence[Floats]) -> Floats:
    """Make the replicates columns, (m, b).

    In pieces that fit the cache: a single transpose is several times slower.
    """
    count_bm = np.array(drawn)
    count_mb: Floats = np.empty((drawn[0].size, len(drawn)))
    for first in range(0, drawn[0].size, _PIECE):
        count_mb[first : first + _PIECE] = count_bm[:, first : first + _PIECE].T
    return count_mb


def plan_drawing(sampled: Sampled, replicates: int, seed: int, level: float) -> Drawing:
    """Find the units and strata of the images, which must be sorted by id."""
    return Drawing(find_units(sampled), replicates, seed, level)


def replicate_metrics(metrics: Sequence[Metrics], drawing: Drawing) -> list[dict[str, Floats]]:
    """Compute each of ``metrics`` on the same draws: {metric: (C, B)}.

    Empty where units cannot vary; without AUROC where that would be too slow.
    """
    if not metrics or drawing.replicates == 0 or drawing.units.cannot_vary:
        return [{} for _ in metrics]
    ranked = [model.can_rank(drawing.replicates) for model in metrics]
    for model, can_rank in zip(metrics, ranked, strict=True):
        if can_rank:
            model.rank_images()
    blocks: list[list[dict[str, Floats]]] = [[] for _ in metrics]
    for count_mb in drawing.blocks(max(model.n_sums for model in metrics)):
        for figures, model, can_rank in zip(blocks, metrics, ranked, strict=True):
            figures.append(model.figures(count_mb, can_rank))
    return [join_replicates(figures) for figures in blocks]


@dataclass(frozen=True, eq=False)
class DrawnModel:
    """The metrics of one model in the cells of a view, and their replicates.

    Attributes
    ----------
    metrics : of the mean over the trainings.
    replicate : {metric: (C, B)}.
    trainings : the metrics of each training, and replicates on the first of the same draws; none
        where there is one training only.
    """

    metrics: Metrics
    replicate: Mapping[str, Floats]
    trainings: Sequence[tuple[Metrics, Mapping[str, Floats]]] = ()

    @cached_property
    def value(self) -> dict[str, Floats]:
        """{metric: (C,)} on the images themselves."""
        return figures_of_data(self.metrics)

    @cached_property
    def values_by_training(self) -> list[dict[str, Floats]]:
        """The same of each training."""
        return [figures_of_data(metrics) for metrics, _ in self.trainings]

    def noise(self, name: str, c: int, other: DrawnModel | None = None) -> TrainingNoise | None:
        """Measure the noise of training in a cell; with ``other``, that of self − other."""
        value_s = np.array([value[name][c] for value in self.values_by_training])
        known = all(name in replicate for _, replicate in self.trainings)
        replicate_sb = (
            np.array([replicate[name][c] for _, replicate in self.trainings]) if known else None
        )
        if other is not None:
            value_s = value_s - [value[name][c] for value in other.values_by_training]
            both = replicate_sb is not None and all(name in drawn for _, drawn in other.trainings)
            replicate_sb = (
                replicate_sb - np.array([drawn[name][c] for _, drawn in other.trainings])
                if both and replicate_sb is not None
                else None
            )
        return measure_noise(value_s, replicate_sb)


def draw_models(models: Sequence[Metrics], drawing: Drawing) -> list[DrawnModel]:
    """Compute the metrics of all models on the same draws, and those of each training."""
    trainings = [
        [metrics.of_one_training(s) for s in range(len(metrics.answers))]
        if len(metrics.answers) > 1
        else []
        for metrics in models
    ]
    fewer = replace(drawing, replicates=min(drawing.replicates, NOISE_REPLICATES))
    single = iter(replicate_metrics([one for part in trainings for one in part], fewer))
    return [
        DrawnModel(metrics, replicate, [(one, next(single)) for one in part])
        for metrics, replicate, part in zip(
            models, replicate_metrics(models, drawing), trainings, strict=True
        )
    ]


def describe_cells(
    model: DrawnModel, unweighted: Metrics, level: float
) -> list[dict[str, MetricValue]]:
    """Describe every cell as {metric: figure}, with intervals from the replicates."""
    metrics, plain = model.metrics, figures_of_data(unweighted)
    effective, worst = metrics.effective(), metrics.worst()
    cells = []
    for c in range(metrics.cells.size):
        figures = {}
        for name, value_c in model.value.items():
            figure = _figure(
                name,
                float(value_c[c]),
                model.replicate[name][c] if name in model.replicate else None,
                level,
                float(effective[name][c]),
                noise=model.noise(name, c),
            )
            figures[name] = replace(
                figure,
                unweighted=_number(plain[name][c]) if name in plain else None,
                where=worst[c] if name in ("worst_class", "worst_label") else None,
            )
        cells.append(_with_one_interval(figures, metrics))
    return cells


def _with_one_interval(figures: dict[str, MetricValue], metrics: Metrics) -> dict[str, MetricValue]:
    """Of two classes, give the recall that is also that of the worst class its interval."""
    positive, worst = metrics.truth.positive_class, figures.get("worst_class")
    if positive is None or worst is None or worst.where is None:
        return figures
    name = "sensitivity" if worst.where == positive else "specificity"
    same = replace(figures[name], interval=worst.interval, stderr=worst.stderr)
    return {**figures, name: same}


def describe_worst(
    model: DrawnModel, names: Sequence[str], level: float
) -> tuple[int, MetricValue] | None:
    """Find the smallest accuracy over the cells: (its cell, the figure with the cell's name).

    None for a regression, or with fewer than two cells. Cells with fewer than `FEW_EFFECTIVE`
    effective units are skipped if there are two others: the smallest of many noisy values says
    nothing. The interval is that of an extreme, see `_figure`.
    """
    value_c = model.value.get("accuracy")
    if value_c is None:
        return None
    effective_c = model.metrics.effective()["accuracy"]
    known_c = np.isfinite(value_c)
    kept = np.flatnonzero(known_c & (effective_c >= FEW_EFFECTIVE))
    kept = kept if kept.size >= 2 else np.flatnonzero(known_c)
    if kept.size < 2:
        return None
    worst = int(kept[np.argmin(value_c[kept])])
    replicate_cb = model.replicate.get("accuracy")
    figure = _figure(
        "worst_class",
        float(value_c[worst]),
        None if replicate_cb is None else replicate_cb[kept].min(axis=0),
        level,
        float(effective_c[worst]),
        noise=model.noise("accuracy", worst),
    )
    return worst, replace(figure, where=names[worst])


def describe_differences(
    first: Sequence[Mapping[str, MetricValue]],
    second: Sequence[Mapping[str, MetricValue]],
    models: Sequence[DrawnModel],
    level: float,
) -> list[dict[str, MetricValue]]:
    """Describe every cell as {metric: second − first}.

    The differences are paired: both models are judged on the same draws, so that what they share
    cancels; of several trainings, those of the same number are subtracted.
    """
    one_model, other_model = models
    one_drawn, other_drawn = one_model.replicate, other_model.replicate
    # Models that agree in every figure of every draw are taken to be the same one.
    is_same = all(
        name in other_drawn and np.array_equal(drawn, other_drawn[name], equal_nan=True)
        for name, drawn in one_drawn.items()
    )
    cells = []
    for c, (one, other) in enumerate(zip(first, second, strict=True)):
        figures = {}
        for name in [name for name in one if name in other]:
            both = name in one_drawn and name in other_drawn
            value = _difference(other[name].value, one[name].value)
            figure = _figure(
                name,
                float("nan") if value is None else value,
                other_drawn[name][c] - one_drawn[name][c] if both else None,
                level,
                min(one[name].effective or 0.0, other[name].effective or 0.0),
                difference=True,
                noise=other_model.noise(name, c, one_model),
            )
            if is_same and figure.interval is not None:
                figure = replace(figure, interval=(0.0, 0.0))
            figures[name] = replace(
                figure, unweighted=_difference(other[name].unweighted, one[name].unweighted)
            )
        cells.append(figures)
    return cells


def _figure(
    name: str,
    value: float,
    replicate_b: Floats | None,
    level: float,
    effective: float,
    difference: bool = False,
    noise: TrainingNoise | None = None,
) -> MetricValue:
    """Describe a value with the percentile interval of its replicates, and with training noise.

    Percentiles stay within the range of the metric. Replicates of a smallest recall, and of a
    calibration error, are on one side of the estimate (the minimum of noisier numbers is smaller),
    and so does the estimate of the truth: see `_moved`. A share of 0 or 1 has replicates without
    any spread; its interval then ends where n_eff independent units would show the same with
    probability (1 − level)/2 (as Clopper and Pearson's does; Korn and Graubard 1998 for weights).
    So does that of a difference which all units have alike: the share of others that they would
    not show may differ by −1, or by 1.
    """
    if not np.isfinite(value):
        return MetricValue(None)
    figure = _sampled_figure(name, value, replicate_b, level, effective, difference)
    if noise is None:
        return figure
    highest = 1.0 if name in (*SHARES, "calibration_error") or name == "r2" else np.inf
    lowest = -np.inf if name == "r2" else 0.0
    if difference:
        lowest, highest = (
            (-1.0, 1.0) if name in (*SHARES, "calibration_error") else (-np.inf, np.inf)
        )
    return noise.widen(figure, level, lowest, highest)


def _sampled_figure(
    name: str,
    value: float,
    replicate_b: Floats | None,
    level: float,
    effective: float,
    difference: bool,
) -> MetricValue:
    few = effective < FEW_EFFECTIVE
    if replicate_b is None:
        return MetricValue(value, effective=effective, few=few)
    known_b = replicate_b[np.isfinite(replicate_b)]
    undefined = int(replicate_b.size - known_b.size)
    # Too few replicates, or those in which it exists are no fair draw any more.
    if known_b.size < 2 or undefined > replicate_b.size / 2:
        return MetricValue(value, effective=effective, few=few, undefined=undefined)
    low, high = np.quantile(known_b, [0.5 - level / 2, 0.5 + level / 2]).tolist()
    if name in EXTREMES:
        low, high = _moved(low, high, float(known_b.mean()) - value, difference)
    if name in SHARES and np.ptp(known_b) <= _ROUNDING:
        unseen = 1.0 - float(((1.0 - level) / 2.0) ** (1.0 / max(effective, 1.0)))
        if difference:
            low, high = value - unseen * (1.0 + value), value + unseen * (1.0 - value)
        elif min(value, 1.0 - value) <= _ROUNDING:
            low, high = (1.0 - unseen, 1.0) if value > 0.5 else (0.0, unseen)
    return MetricValue(
        value, (low, high), float(known_b.std(ddof=1)), None, effective, few, undefined
    )


def _moved(low: float, high: float, excess: float, difference: bool) -> tuple[float, float]:
    """Move an interval back once, and its far side twice.

    Replicates exceed the estimate as the estimate exceeds the truth.
    """
    floor = -1.0 if difference else 0.0
    low, high = low - excess - max(excess, 0.0), high - excess - min(excess, 0.0)
    return max(low, floor), min(high, 1.0)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _difference(second: float | None, first: float | None) -> float | None:
    return None if second is None or first is None else second - first
