"""The smallest change of a distribution: closed forms, and a linear program that decides whether
there is one.
"""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.target.tilting import (
    Gap,
    TiltSolution,
    independent_columns,
    smallest_conflict,
    tilt_to_zero,
)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 12))
def test_tilt_or_gap_is_decided_as_a_linear_program_decides(seed, n_columns, n_cells):
    rng = np.random.default_rng(seed)
    z_cj = rng.integers(-2, 3, (n_cells, n_columns)) / 2.0
    weight_c = rng.dirichlet(np.ones(n_cells))
    reachable = scipy.optimize.linprog(
        np.zeros(n_cells), A_eq=np.vstack([z_cj.T, np.ones(n_cells)]), b_eq=[0] * n_columns + [1]
    ).success
    result = tilt_to_zero(np.maximum(weight_c, 1e-12), z_cj)
    if reachable:
        assert isinstance(result, TiltSolution)
        np.testing.assert_allclose(result.probability @ z_cj, 0.0, atol=1e-11)
        assert result.probability.sum() == pytest.approx(1, abs=1e-12)
    else:
        assert isinstance(result, Gap)
        assert np.abs(result.nearest).sum() > 1e-9


def test_smallest_conflict():
    # The last column is negative everywhere: it needs no other to be out of reach.
    z_cj = np.array([[0.5, -1.5, 1.0], [-0.5, -0.5, -1.0], [1.0, -2.0, 0.5]])
    assert smallest_conflict(z_cj[:, [2, 0, 1]], np.array([0, 1, 2])) == [2]
    # Here the first two sum to 1 in every cell, and the second is asked for a mean of 0.1 more:
    # together with the first only.
    z_cj = np.array(
        [[1.0, 0.0, 1.0], [-1.0, 2.0, -1.0], [1.0, 0.0, -1.0], [-1.0, 2.0, 1.0], [0.5, 0.5, 0.0]]
    )
    assert smallest_conflict(z_cj[:, [2, 0, 1]] - [0, 0, 0.1], np.array([0, 1, 2])) == [1, 2]


def test_rank_detection():
    rng = np.random.default_rng(0)
    z_cj = rng.standard_normal((30, 3))
    combined = np.column_stack([z_cj, z_cj @ [1, -1, 2.0]])
    assert independent_columns(combined).size == 3
    # The same combination with a constant on top asks for another mean: a contradiction.
    assert independent_columns(np.column_stack([z_cj, z_cj @ [1, -1, 2.0] + 0.1])) is None
    assert independent_columns(np.zeros((4, 2))).size == 0


def test_a_coin_gets_the_odds_that_its_mean_needs():
    """Two cells, z = 1 and z = −a: p z sums to zero for p = (a, 1)/(1 + a) only."""
    found = tilt_to_zero(np.array([0.9, 0.1]), np.array([[1.0], [-0.25]]))
    assert isinstance(found, TiltSolution)
    np.testing.assert_allclose(found.probability, [0.2, 0.8], rtol=1e-12)


def test_the_tilt_is_exponential_in_the_columns():
    rng = np.random.default_rng(0)
    weight_c, z_cj = rng.dirichlet(np.ones(40)), rng.uniform(-1, 1, (40, 3))
    found = tilt_to_zero(weight_c, z_cj)
    log_ratio_c = np.log(found.probability / weight_c)
    design_cj = np.column_stack([np.ones(40), z_cj])
    fitted_c = design_cj @ np.linalg.lstsq(design_cj, log_ratio_c)[0]
    np.testing.assert_allclose(log_ratio_c, fitted_c, atol=1e-11)


def test_means_that_hold_already_take_no_step():
    weight_c = np.array([0.25, 0.5, 0.25])
    found = tilt_to_zero(weight_c, np.array([[-1.0], [0.0], [1.0]]))
    assert found.n_steps == 0
    np.testing.assert_array_equal(found.probability, weight_c)


def test_cells_off_the_only_face_are_exactly_empty():
    """z ≥ 0 with mean zero: all mass is where z = 0, in the old proportions."""
    found = tilt_to_zero(np.array([0.2, 0.3, 0.5]), np.array([[0.0], [0.0], [1.0]]))
    np.testing.assert_allclose(found.probability, [0.4, 0.6, 0.0], rtol=1e-12)
    assert found.probability[2] == 0.0


def test_the_gap_is_the_nearest_mean():
    found = tilt_to_zero(np.array([0.5, 0.5]), np.array([[0.5], [0.25]]))
    assert isinstance(found, Gap)
    np.testing.assert_allclose(found.nearest, [0.25], rtol=1e-12)
