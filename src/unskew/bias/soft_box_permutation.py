"""Do the sources differ in these features at all? A test against constant ω, calibrated by permuting source labels."""

from __future__ import annotations

import numpy as np

from unskew.bias.soft_box_likelihood import LabelProblem
from unskew.records import Floats, Ints

MOST_PERMUTATIONS = 199
ENOUGH_EXCEEDANCES = 20  # then p > 0.1 for certain (Besag & Clifford 1991)
PLACES = np.linspace(0.0, 1.0, 17)[1:-1]  # quantiles of the pool at which each source's tails are compared


def permutation_p_value(
    problem: LabelProblem, constant_nk: Floats, group_n: Ints | None, rng: np.random.Generator
) -> tuple[float, int]:
    """p-value of the hypothesis that ω is constant, and the number of permutations made.

    The statistic stands for the refit: an edge of source k pays if k lacks images beyond it, so T = Σ_{k,d} max_b z²_{kdb}, where z_{kdb} is
    the standardised difference between the images of k below the b-th place along feature d and those expected, Σ_i q⁰_ik. Any statistic
    gives an exact level as long as it treats the permuted labels as it treats the given ones.

    Labels are permuted within cells; images of one group (and source) keep a common label. With an offset labels are not exchangeable:
    they are drawn from q⁰ instead (a parametric bootstrap, given the features).
    """
    if problem.offset.shape[1]:
        draw, units = _drawn_labels(problem, constant_nk, group_n), constant_nk
    else:
        draw, units = _permuted_labels(problem, group_n), None
    bin_nd = np.stack([np.searchsorted(np.quantile(column, PLACES), column) for column in problem.feature.T], axis=1)
    observed = _tail_statistic(problem, bin_nd, problem.source, units)
    exceeding = 0
    for done in range(1, MOST_PERMUTATIONS + 1):
        exceeding += _tail_statistic(problem, bin_nd, draw(rng), units) >= observed * (1 - 1e-12)
        if exceeding == ENOUGH_EXCEEDANCES:
            return exceeding / done, done
    return (1 + exceeding) / (1 + MOST_PERMUTATIONS), MOST_PERMUTATIONS


def _tail_statistic(problem: LabelProblem, bin_nd: Ints, label_n: Ints, constant_nk: Floats | None) -> float:
    n_cells, n_sources = problem.count.shape
    n_bins = PLACES.size + 1
    total = 0.0
    for d in range(bin_nd.shape[1]):
        seen_kb = np.bincount(label_n * n_bins + bin_nd[:, d], minlength=n_sources * n_bins).reshape(n_sources, n_bins)
        if constant_nk is None:
            pool_cb = np.bincount(problem.cell * n_bins + bin_nd[:, d], minlength=n_cells * n_bins).reshape(n_cells, n_bins)
            count_ck = np.bincount(problem.cell * n_sources + label_n, minlength=n_cells * n_sources).reshape(n_cells, n_sources)
            share_ck = count_ck / count_ck.sum(axis=1, keepdims=True)
            expected_kb = share_ck.T @ pool_cb
            spread_kb = (share_ck * (1.0 - share_ck)).T @ pool_cb
        else:
            expected_kb, spread_kb = (
                np.stack([np.bincount(bin_nd[:, d], weights=column, minlength=n_bins) for column in weight_nk.T])
                for weight_nk in (constant_nk, constant_nk * (1.0 - constant_nk))
            )
        total += _largest_gaps(seen_kb - expected_kb, spread_kb)
    return total


def _largest_gaps(gap_kb: Floats, spread_kb: Floats) -> float:
    """Σ_k max_b z²_kb, gaps summed from below, centred and standardised as sums with a given total."""
    whole_k = np.maximum(spread_kb.sum(axis=1, keepdims=True), 1e-300)
    below_kb = np.cumsum(spread_kb, axis=1) / whole_k
    gap_kb = np.cumsum(gap_kb, axis=1) - below_kb * gap_kb.sum(axis=1, keepdims=True)
    variance_kb = (whole_k * below_kb * (1.0 - below_kb))[:, :-1]
    usable_kb = variance_kb > 1e-6
    z2_kb = np.where(usable_kb, gap_kb[:, :-1] ** 2 / np.where(usable_kb, variance_kb, 1.0), 0.0)
    return float(z2_kb.max(axis=1).sum())


def _units(problem: LabelProblem, group_n: Ints | None) -> tuple[Ints, Ints]:
    """The unit (images of one group, source and cell) of every image, and the first image of every unit."""
    n = problem.source.size
    if group_n is None:
        return np.arange(n), np.arange(n)
    key_n3 = np.stack([problem.cell, problem.source, group_n], axis=1)
    _, first_m, unit_n = np.unique(key_n3, axis=0, return_index=True, return_inverse=True)
    return unit_n.reshape(-1), first_m


def _permuted_labels(problem: LabelProblem, group_n: Ints | None):  # type: ignore[no-untyped-def]
    unit_n, first_m = _units(problem, group_n)
    label_m, cell_m = problem.source[first_m], problem.cell[first_m]
    members = [np.flatnonzero(cell_m == c) for c in range(len(problem.cells))]

    def draw(rng: np.random.Generator) -> Ints:
        new_m = label_m.copy()
        for member in members:
            new_m[member] = rng.permutation(label_m[member])
        return new_m[unit_n]

    return draw


def _drawn_labels(problem: LabelProblem, constant_nk: Floats, group_n: Ints | None):  # type: ignore[no-untyped-def]
    unit_n, first_m = _units(problem, group_n)
    size_m = np.bincount(unit_n)
    mean_mk = np.stack([np.bincount(unit_n, weights=column) / size_m for column in constant_nk.T], axis=1)
    cumulative_mk = np.cumsum(mean_mk, axis=1)

    def draw(rng: np.random.Generator) -> Ints:
        level_m = rng.uniform(size=first_m.size) * cumulative_mk[:, -1]
        return (level_m[:, None] >= cumulative_mk[:, :-1]).sum(axis=1)[unit_n]

    return draw
