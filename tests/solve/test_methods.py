"""The further methods, the statuses, and inputs at the edge of double precision."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from problems import random_problem
from raising import refused
from unskew.scenarios import nested_sets, nested_sets_solution, tilts

IGNORE_WEAK = pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")


@IGNORE_WEAK
def test_max_steps_is_an_error_or_a_status() -> None:
    problem = random_problem(1, 200, 4, zeros=0.4)
    start = np.array([5.0, -5.0, 3.0, 0.0])
    with refused(unskew.ConvergenceError, option="tol", value=1e-10) as caught:
        unskew.solve_normalizers(problem.omega, problem.source, start=start, max_steps=1)
    assert caught.value.solution is not None
    assert caught.value.solution.status is unskew.Status.MAX_STEPS
    failed = unskew.solve_normalizers(
        problem.omega, problem.source, start=start, max_steps=1, throw=False
    )
    assert failed.error_estimate > 1e-3


@IGNORE_WEAK
def test_overlap_below_double_precision_is_said() -> None:
    """ω of 1e-320 links the sources in the graph, but is lost in any arithmetic: no number is made
    up.
    """
    omega = np.ones((40, 2))
    omega[:20, 1] = omega[20:, 0] = 1e-320
    source = np.repeat([0, 1], 20)
    assert unskew.check_overlap(omega, source).connected
    solution = unskew.solve_normalizers(omega, source, throw=False)
    exact = solution.log_normalizer[0] - solution.log_normalizer[1]
    assert solution.status is unskew.Status.TOO_WEAK or abs(exact) < 1e-6


@IGNORE_WEAK
@pytest.mark.parametrize("power", [-300, 300])
def test_plain_omega_of_extreme_size(power: int) -> None:
    problem = random_problem(2, 300, 3, zeros=0.2)
    plain = unskew.debias_weights(problem.omega, problem.source)
    omega = problem.omega.copy()
    omega[:, 1] *= 10.0**power
    scaled = unskew.debias_weights(omega, problem.source)
    np.testing.assert_allclose(scaled.weight, plain.weight, rtol=1e-9)
    rows = problem.omega * np.where(np.arange(300) % 2 == 0, 10.0**power, 1.0)[:, None]
    whole = unskew.solve_normalizers(rows, problem.source)
    relative = whole.log_normalizer - whole.log_normalizer[0]
    assert np.all(np.isfinite(relative))
    assert whole.converged


def test_nested_sets_have_a_closed_form() -> None:
    scenario = nested_sets([50, 80, 200], rng=0)
    weights = unskew.debias_weights(scenario.omega, scenario.source)
    closed = nested_sets_solution(scenario.label, scenario.source)
    np.testing.assert_allclose(weights.weight, closed.weight, rtol=1e-9)


def test_true_omega_recovers_true_normalizers() -> None:
    scenario = tilts(4000, n_sources=3, dim=2, rng=0)
    solution = unskew.solve_normalizers(scenario.log_omega, scenario.source, log=True)
    weights = unskew.debias_weights(scenario.log_omega, scenario.source, log=True)
    stderr = np.sqrt(np.diag(weights.covariance()))
    assert np.all(np.abs(solution.log_normalizer - scenario.log_normalizer) < 4 * stderr)
