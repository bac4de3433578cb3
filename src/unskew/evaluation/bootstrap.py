"""Intervals of metrics: whole groups are drawn within their sources; two models share the draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unskew.evaluation.metrics import EXTREMES, SHARES, Metrics, figures_of_data, join_replicates
from unskew.records import Codes, Floats, Ints
from unskew.weigh.bootstrap import draw_counts
from unskew.weigh.sampling_units import Units, find_units

# Figures that rest on fewer effective units than this are flagged: even their interval is rough.
FEW_EFFECTIVE = 30.0
# Sums in another order differ by this much.
_ROUNDING = 1e-12
# Replicates held at once: numbers in the largest table of them.
_LARGEST_TABLE = 2**23
_WIDEST_BLOCK = 64
_PIECE = 512


@dataclass(frozen=True)
class MetricValue:
    """One metric in one cell.

    Attributes
    ----------
    value : of the weighted images: an estimate for the target; None where it does not exist.
    interval : two-sided; None where there is none.
    stderr : standard deviation of the replicates.
    naive : the same of the images without weights.
    effective : effective number of units (groups and copies, else images) behind it.
    few : are they fewer than `FEW_EFFECTIVE`?
    undefined : replicates in which it did not exist, because a class was not drawn.
    where : of the worst class, its name.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    stderr: float | None = None
    naive: float | None = None
    effective: float | None = None
    few: bool = False
    undefined: int = 0
    where: str | None = None


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
    if drawing.replicates == 0 or drawing.units.cannot_vary:
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


def describe_cells(
    metrics: Metrics, naive: Metrics, replicate: Mapping[str, Floats], level: float
) -> list[dict[str, MetricValue]]:
    """Describe every cell as {metric: figure}, with intervals from the replicates."""
    value, plain, effective, worst = (
        figures_of_data(metrics),
        figures_of_data(naive),
        metrics.effective(),
        metrics.worst(),
    )
    cells = []
    for c in range(metrics.cells.size):
        figures = {}
        for name, value_c in value.items():
            figure = _figure(
                name,
                float(value_c[c]),
                replicate[name][c] if name in replicate else None,
                level,
                float(effective[name][c]),
            )
            unweighted = _number(plain[name][c]) if name in plain else None
            figures[name] = replace(
                figure, naive=unweighted, where=worst[c] if name == "worst_class" else None
            )
        cells.append(figures)
    return cells


def describe_worst(
    metrics: Metrics, names: Sequence[str], replicate: Mapping[str, Floats], level: float
) -> MetricValue | None:
    """Find the smallest accuracy over the cells, and the name of its cell.

    None for a regression, or with fewer than two cells. Cells with fewer than `FEW_EFFECTIVE`
    effective units are skipped if there are two others: the smallest of many noisy values says
    nothing. The interval is that of an extreme, see `_figure`.
    """
    value_c = figures_of_data(metrics).get("accuracy")
    if value_c is None:
        return None
    effective_c = metrics.effective()["accuracy"]
    known_c = np.isfinite(value_c)
    kept = np.flatnonzero(known_c & (effective_c >= FEW_EFFECTIVE))
    kept = kept if kept.size >= 2 else np.flatnonzero(known_c)
    if kept.size < 2:
        return None
    worst = int(kept[np.argmin(value_c[kept])])
    drawn_b = replicate["accuracy"][kept].min(axis=0) if "accuracy" in replicate else None
    figure = _figure(
        "worst_class", float(value_c[worst]), drawn_b, level, float(effective_c[worst])
    )
    return replace(figure, where=names[worst])


def describe_differences(
    first: Sequence[Mapping[str, MetricValue]],
    second: Sequence[Mapping[str, MetricValue]],
    first_replicate: Mapping[str, Floats],
    second_replicate: Mapping[str, Floats],
    level: float,
) -> list[dict[str, MetricValue]]:
    """Describe every cell as {metric: second − first}.

    The differences are paired: both models are judged on the same draws, so that what they share
    cancels.
    """
    cells = []
    for c, (one, other) in enumerate(zip(first, second, strict=True)):
        figures = {}
        for name in [name for name in one if name in other]:
            both = name in first_replicate and name in second_replicate
            gap_b = second_replicate[name][c] - first_replicate[name][c] if both else None
            value = _difference(other[name].value, one[name].value)
            effective = min(one[name].effective or 0.0, other[name].effective or 0.0)
            figure = _figure(
                name,
                float("nan") if value is None else value,
                gap_b,
                level,
                effective,
                difference=True,
            )
            figures[name] = replace(figure, naive=_difference(other[name].naive, one[name].naive))
        cells.append(figures)
    return cells


def _figure(
    name: str,
    value: float,
    replicate_b: Floats | None,
    level: float,
    effective: float,
    difference: bool = False,
) -> MetricValue:
    """Describe a value with the percentile interval of its replicates.

    Percentiles stay within the range of the metric. Replicates of a smallest recall, and of a
    calibration error, are on one side of the estimate (the minimum of noisier numbers is smaller),
    and so does the estimate of the truth: see `_moved`. A share of 0 or 1 has replicates without
    any spread; its interval then ends where n_eff independent units would show the same with
    probability (1 − level)/2 (as Clopper and Pearson's does; Korn and Graubard 1998 for weights).
    """
    if not np.isfinite(value):
        return MetricValue(None)
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
    if (
        name in SHARES
        and not difference
        and np.ptp(known_b) <= _ROUNDING
        and min(value, 1.0 - value) <= _ROUNDING
    ):
        reach = float(((1.0 - level) / 2.0) ** (1.0 / max(effective, 1.0)))
        low, high = (reach, 1.0) if value > 0.5 else (0.0, 1.0 - reach)
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
