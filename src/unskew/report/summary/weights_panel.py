"""The weights: how they are spread, and how concentrated they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unskew.records import Floats, Ints
from unskew.report.summary.column_balance import ShownDistribution
from unskew.report.summary.columns import bin_codes, round_edges
from unskew.report.summary.plain import rounded
from unskew.report.summary.record import Histogram, Number, Spread, WeightsPanel
from unskew.report.summary.source_table import hidden_sources
from unskew.report.summary.stratum_table import StratumTable
from unskew.report.summary.suppression import SMALLEST_CELL, hidden_cells
from unskew.report.summary.weighted_pool import WeightedPool

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_POINTS = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
)
_MOST_BINS = 30
_MOST_SOURCES = 60
_MOST_BY = 12


def show_weights(
    weighed: WeightedPool, label: ShownDistribution | None, table: StratumTable
) -> WeightsPanel:
    """Show the weights; nothing of the single heaviest image where only aggregates are shown."""
    diagnosis, private = weighed.weights.diagnosis, weighed.private
    histogram, zeros = _histogram(weighed, table)
    digits = 2 if private else 10
    few = private and math.ceil(weighed.n / 100) < SMALLEST_CELL
    sorted_n = np.sort(weighed.weights.sample_weight)
    return WeightsPanel(
        images=diagnosis.images,
        groups=diagnosis.groups,
        ess=rounded(diagnosis.ess, digits),
        ess_groups=rounded(diagnosis.ess_groups, digits),
        design_effect=rounded(diagnosis.design_effect, digits),
        pareto_k=rounded(diagnosis.pareto_k, digits),
        pareto_k_threshold=diagnosis.pareto_k_threshold,
        largest_sample_weight=None if private else diagnosis.largest_sample_weight,
        top_percent_share=None if few else rounded(diagnosis.top_percent_share, digits),
        zero_weights=zeros,
        histogram=histogram,
        quantiles={
            f"{100 * level:g}%": _quantile(sorted_n, level, private) for level in _QUANTILES
        },
        concentration=_concentration(sorted_n, private),
        by_source=_by_source(weighed),
        by_label=() if label is None else _by_label(weighed, label),
    )


def _histogram(weighed: WeightedPool, table: StratumTable) -> tuple[Histogram, int | None]:
    """Return log10 of the positive sample weights, and the number of weights that are 0."""
    positive = np.flatnonzero(weighed.weight_n > 0)
    log_m = np.log10(weighed.weights.sample_weight[positive])
    edges = round_edges(
        log_m,
        SMALLEST_CELL if weighed.private and positive.size > 2 * SMALLEST_CELL else 0,
        _MOST_BINS,
    )
    size = len(edges) - 1
    code_n = np.full(weighed.n, size, dtype=np.int64)
    code_n[positive] = bin_codes(log_m, edges)
    count = np.bincount(code_n, minlength=size + 1)
    if not weighed.private:
        return Histogram(
            edges, tuple(count[:-1].tolist()), _histogram_by_source(weighed, code_n, size)
        ), int(count[-1])
    # How many images the model left out may be withheld elsewhere, so it is here, too. Images of a
    # stratum may all have one weight: a bin would reveal what the table of strata withholds.
    forced = np.append(np.zeros(size, dtype=np.bool_), count[-1] > 0)
    if weighed.strata is not None and table.hidden is not None:
        forced[
            np.unique(code_n[(weighed.strata.code >= 0) & table.hidden[weighed.strata.code]])
        ] = True
    hidden = hidden_cells(weighed.cell_sizes(code_n, size + 1), forced)
    shown = tuple(None if hide else int(images) for images, hide in zip(count, hidden, strict=True))
    return Histogram(edges, shown[:-1]), shown[-1]


def _histogram_by_source(
    weighed: WeightedPool, code_n: Ints, size: int
) -> dict[str, tuple[Number, ...]]:
    """Count for every source, where there are few."""
    n_sources = len(weighed.names)
    if n_sources < 2 or n_sources > _MOST_BY:
        return {}
    count = np.bincount(
        weighed.source_n * (size + 1) + code_n, minlength=n_sources * (size + 1)
    ).reshape(n_sources, size + 1)
    return {name: tuple(count[k, :-1].tolist()) for k, name in enumerate(weighed.names)}


def _quantile(sorted_n: Floats, level: float, private: bool) -> float | None:
    """Return the quantile, unless fewer than ten images on one side of it must be hidden."""
    n = sorted_n.size
    if n == 0 or (private and min(level, 1 - level) * n < SMALLEST_CELL):
        return None
    return rounded(float(np.quantile(sorted_n, level)), 2 if private else 10)


def _concentration(sorted_n: Floats, private: bool) -> tuple[tuple[float, float], ...]:
    """Return points (share of the images, heaviest first; share of the weight they carry).

    From (0, 0) to (1, 1).
    """
    n = sorted_n.size
    carried = np.append(0.0, np.cumsum(sorted_n[::-1])) / sorted_n.sum()
    points = sorted({round(share * n) for share in _POINTS} - {0, n})
    if private:
        points = [at for at in points if SMALLEST_CELL <= at <= n - SMALLEST_CELL]
    digits = 3 if private else 10
    middle = [
        (at / n, float(rounded(min(float(carried[at]), 1.0), digits) or 0.0)) for at in points
    ]
    return ((0.0, 0.0), *middle, (1.0, 1.0))


def _spread(name: str, weight_m: Floats, private: bool, images: int | None) -> Spread:
    sorted_m = np.sort(weight_m)
    low, lower, median, upper, high = (_quantile(sorted_m, level, private) for level in _LEVELS)
    return Spread(
        name=name,
        images=images,
        low=low,
        lower=lower,
        median=median,
        upper=upper,
        high=high,
        largest=None if private or not sorted_m.size else float(sorted_m[-1]),
    )


def _by_source(weighed: WeightedPool) -> tuple[Spread, ...]:
    hidden_k = hidden_sources(weighed)
    sample_weight = weighed.weights.sample_weight
    order = np.argsort(weighed.source_n, kind="stable")
    parts = np.split(
        order, np.cumsum(np.bincount(weighed.source_n, minlength=len(weighed.names)))[:-1]
    )
    largest = sorted(range(len(parts)), key=lambda k: -parts[k].size)[:_MOST_SOURCES]
    return tuple(
        _spread(weighed.names[k], sample_weight[parts[k]], weighed.private, int(parts[k].size))
        for k in sorted(largest)
        if not hidden_k[k]
    )


def _by_label(weighed: WeightedPool, label: ShownDistribution) -> tuple[Spread, ...]:
    """Return the spread in each class that the panel of labels shows."""
    sample_weight: Any = weighed.weights.sample_weight
    names = label.panel.levels
    return tuple(
        _spread(name, sample_weight[label.rows_of_cell(at)], weighed.private, label.panel.count[at])
        for at, name in enumerate(names)
        if not label.hidden[at] and label.panel.count[at]
    )
