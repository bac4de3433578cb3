"""Do the sources differ in these features at all? A permutation test against constant ω."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unskew.bias.soft_box.likelihood import LabelProblem, pose_problem
from unskew.records import Floats, Ints

MOST_PERMUTATIONS = 199
ENOUGH_EXCEEDANCES = 20  # then p > 0.1 for certain (Besag & Clifford 1991)
SMALL_ENOUGH = 1e-4  # a bound on the p-value below which permutations would not say more
ENOUGH_ROWS = 20_000  # the bound is tried on about this many images first
LEAST_VARIANCE = 1e-6
PLACES = np.linspace(0.0, 1.0, 17)[
    1:-1
]  # quantiles of the pool at which each source's tails are compared


def permutation_p_value(
    problem: LabelProblem, constant_nk: Floats, group_n: Ints | None, rng: np.random.Generator
) -> tuple[float, int]:
    """Compute the p-value of constant ω, and the number of permutations made.

    The statistic replaces the refit: an edge of source k pays if k lacks images beyond it, so T =
    Σ_{k,d} max_b z²_{kdb}, z_{kdb} being the standardised difference between the images of k below
    the b-th place along feature d and those expected, Σ_i q⁰_ik. Any statistic gives an exact level
    as long as it treats the permuted labels as it treats the given ones.

    Labels are permuted within cells; images of one group (and source) keep a common label. With an
    offset labels are not exchangeable: they are drawn from q⁰ instead (a parametric bootstrap,
    given the features).

    Where a bound on all permutations says enough, none is made.
    """
    has_offset = problem.offset.shape[1] > 0
    has_bound = not has_offset and problem.n_cells == 1 and group_n is None
    stride = problem.source.size // ENOUGH_ROWS
    if has_bound and stride > 1:
        # Some of the images may already say enough.
        source_m = problem.source[::stride]
        some = pose_problem(
            problem.feature[::stride], source_m, problem.n_sources, None, None, None
        )
        bin_md = _bins(some)
        bound = permutation_bound(some, bin_md, _tail_statistic(some, bin_md, None)(source_m))
        if bound <= SMALL_ENOUGH:
            return bound, 0
    bin_nd = _bins(problem)
    statistic = _tail_statistic(problem, bin_nd, constant_nk if has_offset else None)
    observed = statistic(problem.source)
    if has_bound:
        bound = permutation_bound(problem, bin_nd, observed)
        if bound <= SMALL_ENOUGH:
            return bound, 0
    draw = (
        _drawn_labels(problem, constant_nk, group_n)
        if has_offset
        else _permuted_labels(problem, group_n)
    )
    exceeding = 0
    for done in range(1, MOST_PERMUTATIONS + 1):
        exceeding += statistic(draw(rng)) >= observed * (1 - 1e-12)
        if exceeding == ENOUGH_EXCEEDANCES:
            return exceeding / done, done
    return (1 + exceeding) / (1 + MOST_PERMUTATIONS), MOST_PERMUTATIONS


def _bins(problem: LabelProblem) -> Ints:
    """(n, D) the bin of each image, between two places."""
    at = (PLACES * (problem.source.size - 1)).round().astype(np.int64)
    return np.stack(
        [np.searchsorted(np.sort(column_n)[at], column_n) for column_n in problem.feature.T], axis=1
    )


def permutation_bound(problem: LabelProblem, bin_nd: Ints, observed: float) -> float:
    """Bound the share of permutations with T ≥ t = ``observed`` from above, by Hoeffding.

    The bound may exceed 1. One cell.

    T ≥ t needs one z²_{kdb} ≥ t/(KD). Of the n_k images of source k those below place b, B images
    of the pool, are hypergeometric, and

        P(|S − E S| ≥ g) ≤ 2 exp(−2 g²/m),   m the smallest of n_k, n − n_k, B, n − B

    (Hoeffding 1963, section 6: draws without replacement; any of the four may be taken for the
    draws).
    """
    n, size_k = problem.source.size, problem.count.sum(axis=0)
    total = 0.0
    n_used = 0
    for bin_n in bin_nd.T:
        below_b = np.cumsum(np.bincount(bin_n, minlength=PLACES.size + 1))[:-1]
        draws_kb = np.minimum(
            np.minimum(size_k, n - size_k)[:, None], np.minimum(below_b, n - below_b)
        )
        spread_kb = (size_k * (n - size_k))[:, None] / n * (below_b / n) * (1.0 - below_b / n)
        used_kb = spread_kb > LEAST_VARIANCE
        n_used += int(np.count_nonzero(used_kb))
        distance = observed / (problem.n_sources * problem.feature.shape[1])
        total += 2.0 * float(np.exp(-2.0 * distance * spread_kb[used_kb] / draws_kb[used_kb]).sum())
    # Constant features: T = 0 in every permutation.
    return total if n_used else np.inf


def _tail_statistic(
    problem: LabelProblem, bin_nd: Ints, constant_nk: Floats | None
) -> Callable[[Ints], float]:
    """T as a function of the labels; what does not depend on them is counted once."""
    n_cells, n_sources = problem.count.shape
    n_features, n_bins = problem.feature.shape[1], PLACES.size + 1
    place_nd = bin_nd + np.arange(n_features) * n_sources * n_bins
    if constant_nk is not None:
        expected_dkb, spread_dkb = (
            _sums_in_bins(bin_nd, weight_nk)
            for weight_nk in (constant_nk, constant_nk * (1.0 - constant_nk))
        )
    else:
        pool_dcb = _sums_in_bins(bin_nd, np.eye(n_cells)[problem.cell])

    def statistic(label_n: Ints) -> float:
        seen = np.bincount(
            (label_n[:, None] * n_bins + place_nd).reshape(-1),
            minlength=n_features * n_sources * n_bins,
        )
        seen_dkb = seen.reshape(n_features, n_sources, n_bins)
        if constant_nk is not None:
            return _largest_gaps(seen_dkb - expected_dkb, spread_dkb)
        count = np.bincount(
            problem.cell * n_sources + label_n, minlength=n_cells * n_sources
        )  # groups may change the sizes
        share_ck = count.reshape(n_cells, n_sources) / problem.count.sum(axis=1, keepdims=True)
        return _largest_gaps(
            seen_dkb - share_ck.T @ pool_dcb, (share_ck * (1.0 - share_ck)).T @ pool_dcb
        )

    return statistic


def _sums_in_bins(bin_nd: Ints, weight_nk: Floats) -> Floats:
    """(D, K, bins) sums of the weights."""
    n_bins = PLACES.size + 1
    return np.array(
        [
            [np.bincount(bin_n, weights=column, minlength=n_bins) for column in weight_nk.T]
            for bin_n in bin_nd.T
        ]
    )


def _largest_gaps(gap_dkb: Floats, spread_dkb: Floats) -> float:
    """Σ_{d,k} max_b z², gaps summed from below, as sums with a fixed total."""
    whole_dk = np.maximum(spread_dkb.sum(axis=2, keepdims=True), 1e-300)
    below_dkb = np.cumsum(spread_dkb, axis=2) / whole_dk
    gap_dkb = np.cumsum(gap_dkb, axis=2)
    gap_dkb = gap_dkb - below_dkb * gap_dkb[..., -1:]
    variance_dkb = whole_dk * below_dkb * (1.0 - below_dkb)
    usable_dkb = variance_dkb > LEAST_VARIANCE
    z2_dkb = np.where(usable_dkb, gap_dkb**2 / np.where(usable_dkb, variance_dkb, 1.0), 0.0)
    return float(z2_dkb.max(axis=2).sum())


def _units(problem: LabelProblem, group_n: Ints | None) -> tuple[Ints, Ints]:
    """Find the unit (images of one group, source and cell) of every image."""
    n = problem.source.size
    if group_n is None:
        return np.arange(n), np.arange(n)
    key_n3 = np.stack([problem.cell, problem.source, group_n], axis=1)
    _, first_m, unit_n = np.unique(key_n3, axis=0, return_index=True, return_inverse=True)
    return unit_n.reshape(-1), first_m


def _permuted_labels(
    problem: LabelProblem, group_n: Ints | None
) -> Callable[[np.random.Generator], Ints]:
    unit_n, first_m = _units(problem, group_n)
    label_m, cell_m = problem.source[first_m], problem.cell[first_m]
    members = [np.flatnonzero(cell_m == c) for c in range(problem.n_cells)]

    def draw(rng: np.random.Generator) -> Ints:
        new_m = label_m.copy()
        for member in members:
            new_m[member] = rng.permutation(label_m[member])
        return new_m[unit_n]

    return draw


def _drawn_labels(
    problem: LabelProblem, constant_nk: Floats, group_n: Ints | None
) -> Callable[[np.random.Generator], Ints]:
    unit_n, first_m = _units(problem, group_n)
    size_m = np.bincount(unit_n)
    mean_mk = np.stack(
        [np.bincount(unit_n, weights=column) / size_m for column in constant_nk.T], axis=1
    )
    cumulative_mk = np.cumsum(mean_mk, axis=1)

    def draw(rng: np.random.Generator) -> Ints:
        level_m = rng.uniform(size=first_m.size) * cumulative_mk[:, -1]
        label_n: Ints = (level_m[:, None] >= cumulative_mk[:, :-1]).sum(axis=1)[unit_n]
        return label_n

    return draw
