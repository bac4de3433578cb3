"""The largest weighted mean against brute force, a linear program and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from bounded_means import brute_force_range, weights_and_values
from unskew.weigh.extreme_means import order_values, solve_log_factor
from unskew.weigh.sensitivity import bound_mean


def _linear_program(weight_n, value_n, factor):
    """(low, high) by Charnes & Cooper: p = y w/Σ y w, with y_i between s and Γ s, all free but Σ y
    w = 1.
    """
    n = len(weight_n)
    lower = np.hstack([-np.eye(n), np.ones((n, 1))])
    upper = np.hstack([np.eye(n), np.full((n, 1), -factor)])
    found = []
    for sign in (1, -1):
        done = scipy.optimize.linprog(
            np.append(sign * weight_n * value_n, 0.0),
            A_ub=np.vstack([lower, upper]),
            b_ub=np.zeros(2 * n),
            A_eq=np.append(weight_n, 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * (n + 1),
        )
        assert done.status == 0
        found.append(sign * done.fun)
    return tuple(found)


@pytest.mark.parametrize("factor", [1.0, 1.3, 2.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_range_is_that_of_brute_force_and_of_a_linear_program(seed: int, factor: float) -> None:
    weight_n, value_n = weights_and_values(seed, 9)
    found = bound_mean(weight_n, value_n, factor)
    assert (found.low, found.high) == pytest.approx(
        brute_force_range(weight_n, value_n, factor), abs=1e-12
    )
    # HiGHS stops at a feasibility of 1e-7.
    assert (found.low, found.high) == pytest.approx(
        _linear_program(weight_n / weight_n.sum(), value_n, factor), abs=1e-6
    )


@settings(deadline=None, max_examples=60)
@given(
    value=st.lists(st.integers(-3, 3), min_size=1, max_size=7),
    seed=st.integers(0, 1000),
    factor=st.floats(1.0, 20.0),
)
def test_the_range_with_ties_is_that_of_brute_force(
    value: list[int], seed: int, factor: float
) -> None:
    weight_n = np.random.default_rng(seed).gamma(1.0, size=len(value))
    found = bound_mean(weight_n, value, factor)
    assert (found.low, found.high) == pytest.approx(
        brute_force_range(weight_n, np.array(value, dtype=float), factor), abs=1e-12
    )


def test_with_cells_the_masses_stay_and_every_cell_has_its_own_range() -> None:
    weight_n, value_n = weights_and_values(7, 90)
    cell_n = np.random.default_rng(7).integers(0, 4, size=90)
    weight_n[cell_n == 2] = 0.0
    found = bound_mean(weight_n, value_n, 3.0, cell=np.array(["a", "b", "c", "d"])[cell_n])
    low = high = 0.0
    for c in (0, 1, 3):
        part = bound_mean(weight_n[cell_n == c], value_n[cell_n == c], 3.0)
        mass = weight_n[cell_n == c].sum() / weight_n.sum()
        low, high = low + mass * part.low, high + mass * part.high
        assert found.weight_high[cell_n == c].sum() == pytest.approx(mass)
    assert (found.low, found.high) == pytest.approx((low, high))
    anywhere = bound_mean(weight_n, value_n, 3.0)
    assert anywhere.low < found.low < found.value < found.high < anywhere.high


def test_the_end_of_a_cell_is_exact_where_few_images_have_a_tiny_weight() -> None:
    """A sum over all cells would lose the cell's first weight of 1e-13 to rounding."""
    cell_n = np.repeat([0, 1], 500)
    value_n = np.tile(np.append(np.zeros(499), 1.0), 2)
    weight_n = np.where(value_n == 1, 1e-13, 1.0)
    assert bound_mean(weight_n, value_n, math.inf, cell=cell_n).high == pytest.approx(
        1.0, rel=1e-12
    )


def test_by_levels_only_equals_the_problem_of_the_levels() -> None:
    weight_n, value_n = weights_and_values(8, 60)
    by_n = np.random.default_rng(8).integers(0, 5, size=60)
    level_l = np.bincount(by_n, weights=weight_n)
    mean_l = np.bincount(by_n, weights=weight_n * value_n) / level_l
    found = bound_mean(weight_n, value_n, 2.0, by=by_n)
    assert (found.low, found.high) == pytest.approx(brute_force_range(level_l, mean_l, 2.0))
    assert np.unique((found.weight_low / weight_n).round(12)).size == 2
    for level in range(5):
        assert np.ptp((found.weight_high / weight_n)[by_n == level]) == pytest.approx(
            0.0, abs=1e-12
        )
    every = bound_mean(weight_n, value_n, 2.0, by=np.arange(60))
    assert every.high == pytest.approx(bound_mean(weight_n, value_n, 2.0).high)
    none = bound_mean(weight_n, value_n, 2.0, by=np.zeros(60))
    assert (none.low, none.high) == pytest.approx((none.value, none.value))


@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("threshold", [-0.4, 0.0, 0.6])
def test_at_the_turning_factor_the_range_just_reaches_the_threshold(
    threshold: float, cells: int
) -> None:
    weight_n, value_n = weights_and_values(9, 80)
    cell_n = np.arange(80) % cells
    found = bound_mean(weight_n, value_n, cell=cell_n, threshold=threshold)
    at_turn = bound_mean(weight_n, value_n, found.turning_factor, cell=cell_n)
    near = at_turn.high if threshold > found.value else at_turn.low
    assert near == pytest.approx(threshold, abs=1e-10)
    assert found.turning_factor > 1.0
    assert 1.0 <= found.safe_factor <= found.turning_factor


@pytest.mark.parametrize("cell", [None, [0, 0, 1, 1]])
def test_turning_at_once_and_never(cell: list[int] | None) -> None:
    weight_n, value_n = np.full(4, 0.25), np.array([0.0, 1.0, 0.0, 1.0])
    assert bound_mean(weight_n, value_n, cell=cell, threshold=0.5).turning_factor == 1.0
    assert bound_mean(weight_n, value_n, cell=cell, threshold=0.75).turning_factor == pytest.approx(
        3.0
    )
    for beyond in (1.0, 2.0, -0.1):
        assert bound_mean(weight_n, value_n, cell=cell, threshold=beyond).turning_factor == math.inf


@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("factor", [1.0, 1.7, 40.0])
def test_the_extreme_is_reached_by_weights_that_keep_the_cells_and_differ_by_the_factor(
    cells: int, factor: float
) -> None:
    weight_n, value_n = weights_and_values(3, 60)
    weight_n /= weight_n.sum()
    cell_n = np.arange(60) % cells
    ordered = order_values(weight_n, value_n, cell_n, None)
    extreme = ordered.extreme(factor)
    changed_n = weight_n * extreme.ratio_n
    assert ordered.high(factor) == pytest.approx(extreme.value, rel=1e-12)
    assert changed_n @ value_n == pytest.approx(extreme.value, abs=1e-12)
    for c in range(cells):
        own = cell_n == c
        assert changed_n[own].sum() == pytest.approx(weight_n[own].sum(), rel=1e-12)
        assert np.ptp(np.log(extreme.ratio_n[own])) <= math.log(factor) + 1e-12
        mean = changed_n[own] @ value_n[own] / changed_n[own].sum()
        np.testing.assert_allclose(extreme.mean_n[own], mean, rtol=1e-10)
    np.testing.assert_allclose(
        extreme.residual_n, extreme.ratio_n * (value_n - extreme.mean_n), atol=1e-12
    )


def test_images_without_weight_have_no_atom_and_cells_without_weight_disappear() -> None:
    weight_n, value_n = np.array([0.5, 0.0, 0.5, 0.0]), np.array([1.0, 9.0, 2.0, 9.0])
    ordered = order_values(weight_n, value_n, np.array([0, 0, 4, 2]), None)
    assert ordered.atom_n.tolist() == [0, -1, 1, -1]
    assert ordered.mass_c.tolist() == [0.5, 0.5]
    assert ordered.high(math.inf) == 1.5


def test_atoms_of_a_cell_stand_from_the_largest_value() -> None:
    weight_n, value_n = weights_and_values(5, 40)
    ordered = order_values(weight_n, value_n, np.arange(40) % 2, None)
    for c in range(2):
        assert np.all(np.diff(ordered.value_a[ordered.cell_a == c]) <= 0)
        last = np.flatnonzero(ordered.cell_a == c)[-1]
        assert ordered.share_a[last] == pytest.approx(1.0, rel=1e-12)
        assert ordered.gain_a[last] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(ordered.value_a[ordered.atom_n], value_n)


def test_a_factor_is_the_root_within_its_limits() -> None:
    assert solve_log_factor(lambda x: x - math.log(3.0), 10.0, 1e-13) == pytest.approx(3.0)
    assert solve_log_factor(lambda x: x + 1.0, 10.0, 1e-13) == 1.0
    assert solve_log_factor(lambda x: x - 11.0, 10.0, 1e-13) == math.exp(10.0)


def test_cells_of_any_size_have_sums_of_their_own() -> None:
    rng = np.random.default_rng(4)
    cell = rng.permutation(np.repeat(np.arange(30), np.arange(30) % 7 + 1))
    weight, value = rng.random(cell.size), rng.normal(size=cell.size)
    ordered = order_values(weight / weight.sum(), value, cell, None)
    for begin, end in itertools.pairwise([*ordered.start_c, cell.size]):
        np.testing.assert_array_equal(
            ordered.share_a[begin:end], np.cumsum(ordered.part_a[begin:end])
        )
