"""The spread and concentration of the weights, and the links between sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from unskew.records import Floats, Ints, Overlap
from unskew.report.summary.column_balance import ShownDistribution
from unskew.report.summary.columns import bin_codes, round_edges
from unskew.report.summary.plain import rounded
from unskew.report.summary.privacy import SMALLEST_CELL, hidden_cells, overlap_message, shown_size
from unskew.report.summary.record import Histogram, Number, OverlapPanel, Spread, WeightsPanel
from unskew.report.summary.source_table import hidden_sources
from unskew.report.summary.stratum_table import StratumTable
from unskew.report.summary.weighted_pool import WeightedPool

_MOST_SOURCES = 60

Table = tuple[tuple[Number, ...], ...]


def show_overlap(
    overlap: Overlap, n_images: int, size_k: Any, hidden_k: Any, private: bool
) -> tuple[OverlapPanel, str]:
    """Return the panel, and a note if not all sources are in its tables.

    size_k : (number of columns of ω,) images of each source; a target sample's may be there, too.
    hidden_k : those whose numbers are withheld.
    """
    kept = _chosen(overlap, np.asarray(size_k))
    names = tuple(overlap.names[k] for k in kept)
    hidden = np.asarray(hidden_k, dtype=np.bool_)[kept]
    link, common, matrix = (
        _table(table_kk, kept)
        for table_kk in (overlap.link_count, overlap.common_mass, overlap.matrix)
    )
    count = overlap.weakest_count
    if private:
        link, common = _in_tens(link, 1.0, hidden), _in_tens(common, float(n_images), hidden)
        matrix = (
            None
            if matrix is None
            else np.where(hidden[:, None] | hidden, np.nan, np.round(matrix, 2))
        )
        count = None if count is None or count < SMALLEST_CELL else round(count, -1)
    digits = 2 if private else 10
    panel = OverlapPanel(
        names=names,
        verdict=overlap.verdict,
        message=overlap_message(overlap, private),
        matrix=_rows(matrix),
        link_count=_rows(link),
        common_mass=_rows(common),
        components=overlap.components,
        weakest_link=overlap.weakest_link,
        weakest_count=count,
        kappa=rounded(overlap.kappa, digits),
        # The smallest ω is one image's.
        epsilon=None if private else overlap.epsilon,
        spectral_gap=rounded(overlap.spectral_gap, digits),
        sigma2=rounded(overlap.sigma2, digits),
        thresholds=dict(overlap.thresholds),
        link_error=rounded(overlap.link_error, digits),
        # These are a single image's, or a single stratum's.
        heaviest=None if private else overlap.heaviest,
        unseen=rounded(overlap.unseen, digits),
        lone=None if private else overlap.lone,
    )
    note = (
        ""
        if len(kept) == len(overlap.names)
        else f"The tables show {len(kept)} of {len(overlap.names):,} sources, the largest."
    )
    return panel, note


def _chosen(overlap: Overlap, size_k: Ints) -> list[int]:
    """Choose the sources in the tables: those at the weakest link, then the largest, in order."""
    if len(overlap.names) <= _MOST_SOURCES:
        return list(range(len(overlap.names)))
    ends = [overlap.names.index(name) for name in overlap.weakest_link or ()]
    largest = [int(k) for k in np.argsort(-size_k, kind="stable") if int(k) not in ends]
    return sorted([*ends, *largest][:_MOST_SOURCES])


def _table(table_kk: Any, kept: list[int]) -> Any:
    if table_kk is None:
        return None
    chosen = (
        sp.csr_array(table_kk)[kept][:, kept].toarray()
        if sp.issparse(table_kk)
        else np.asarray(table_kk)[np.ix_(kept, kept)]
    )
    return chosen.astype(np.float64)


def _in_tens(table_kk: Any, scale: float, hidden_k: Any) -> Any:
    """Round counts to tens, because differences of overlapping counts could be small."""
    if table_kk is None:
        return None
    count_kk = np.round(table_kk * scale, 6)
    tens_kk = np.round(count_kk, -1) / scale
    return np.where(
        ((count_kk > 0) & (count_kk < SMALLEST_CELL)) | hidden_k[:, None] | hidden_k,
        np.nan,
        tens_kk,
    )


def _rows(table_kk: Any) -> Table | None:
    if table_kk is None:
        return None
    return tuple(tuple(rounded(value) for value in row) for row in table_kk.tolist())


_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_POINTS = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    *(k / 20 for k in range(1, 10)),
    *(k / 10 for k in range(5, 10)),
)
_MOST_BINS = 30
_WEIGHTS_PANEL_MOST_SOURCES = 60
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
        ess=shown_size(rounded(diagnosis.ess), private),
        ess_groups=shown_size(rounded(diagnosis.ess_groups), private),
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
        unit="different images" if weighed.counts_copies else "groups",
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
    # The two neighbours suffice: np.quantile would look for them among all.
    at = level * (n - 1)
    low, high = sorted_n[math.floor(at)], sorted_n[math.ceil(at)]
    return rounded(float(low + (high - low) * (at % 1)), 2 if private else 10)


def _concentration(sorted_n: Floats, private: bool) -> tuple[tuple[float, float], ...]:
    """Return points (share of the images, heaviest first; share of the weight they carry)."""
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
    largest = sorted(range(len(parts)), key=lambda k: -parts[k].size)[:_WEIGHTS_PANEL_MOST_SOURCES]
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
