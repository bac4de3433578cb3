"""Metrics with intervals: whole groups drawn within their sources, many times; two models on the
same draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unskew.evaluation.metrics import EXTREMES, SHARES, Metrics, figures_of_data, join_replicates
from unskew.records import Codes, Floats, Ints
from unskew.weigh.bootstrap import draw_counts
from unskew.weigh.sampling_units import Units, find_units

# Fewer effective units than this behind a figure are said to be few: the interval itself is then a
# rough one.
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
    effective : effective number of units (groups, or images where there are none) that stand behind
        it.
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
    group: Ints | None = field(repr=False)


@dataclass(frozen=True)
class Drawing:
    """How replicates are drawn.

    Attributes
    ----------
    units : images or groups, and the sources (or sources linked by groups) within which they are
        drawn.
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
        """(m, b) how often each unit counts, replicate beside replicate. The draws do not depend on
        how they are cut into blocks.
        """
        width = int(np.clip(_LARGEST_TABLE // max(self.n_units, n_sums, 1), 1, _WIDEST_BLOCK))
        each = draw_counts(
            replace(self.units, unit_n=np.arange(self.n_units)),
            self.replicates,
            np.random.default_rng(self.seed),
        )
        for first in range(0, self.replicates, width):
            drawn = [next(each) for _ in range(min(width, self.replicates - first))]
            yield _side_by_side(drawn)


def _side_by_side(drawn: Sequence[Floats]) -> Floats:
    """(m, b) the replicates as columns; in pieces that the cache holds, for a transpose at one go
    is several times slower.
    """
    count_bm = np.array(drawn)
    count_mb: Floats = np.empty((drawn[0].size, len(drawn)))
    for first in range(0, drawn[0].size, _PIECE):
        count_mb[first : first + _PIECE] = count_bm[:, first : first + _PIECE].T
    return count_mb


def plan_drawing(sampled: Sampled, replicates: int, seed: int, level: float) -> Drawing:
    """Units and strata of the images; the order of rows must not matter, so rows come sorted
    by id.
    """
    return Drawing(find_units(sampled), replicates, seed, level)


def replicate_metrics(metrics: Sequence[Metrics], drawing: Drawing) -> list[dict[str, Floats]]:
    """{metric: (C, B)} of each of ``metrics`` on the same draws; nothing where units cannot vary.
    AUROC only where it is affordable.
    """
    if drawing.replicates == 0 or drawing.units.cannot_vary:
        return [{} for _ in metrics]
    ranked = [each.can_rank(drawing.replicates) for each in metrics]
    for each, fine in zip(metrics, ranked, strict=True):
        if fine:
            each.rank_images()
    found: list[list[dict[str, Floats]]] = [[] for _ in metrics]
    for count_mb in drawing.blocks(max(each.n_sums for each in metrics)):
        for at, each in enumerate(metrics):
            found[at].append(each.figures(count_mb, ranked[at]))
    return [join_replicates(blocks) for blocks in found]


def describe_cells(
    metrics: Metrics, naive: Metrics, replicate: Mapping[str, Floats], level: float
) -> list[dict[str, MetricValue]]:
    """For every cell {metric: figure}, with intervals from the replicates."""
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
    """The smallest accuracy over the cells, and whose it is; None for a regression, or with fewer
    than two cells.

    Cells with fewer than `FEW_EFFECTIVE` effective units are passed over if there are two others:
    the smallest of many that are hardly known says nothing. The interval is that of an extreme, see
    `_figure`.
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
    """For every cell {metric: second − first}, paired: both models on the same draws, so that what
    they share cancels.
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
    """A value with the percentile interval of its replicates.

    Percentiles stay within the range of the metric. Replicates of a smallest recall, and of a
    calibration error, lie on one side of the estimate (the minimum of noisier numbers is smaller),
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
    low, high = (float(each) for each in np.quantile(known_b, [0.5 - level / 2, 0.5 + level / 2]))
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
    """The interval moved back once, and on the far side twice: replicates exceed the estimate as it
    exceeds the truth.
    """
    floor = -1.0 if difference else 0.0
    low, high = low - excess - max(excess, 0.0), high - excess - min(excess, 0.0)
    return max(low, floor), min(high, 1.0)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _difference(second: float | None, first: float | None) -> float | None:
    return None if second is None or first is None else second - first
