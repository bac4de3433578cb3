"""The article's stochastic gradient descent: what it promises, and one step by hand."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from problems import Blocks, random_problem, rows_of
from raising import refused
from unskew.scenarios import overlapping_classes
from unskew.solve.sgd import descend


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_sgd_follows_the_article_and_claims_no_more_than_it_has() -> None:
    """At overlap 0.01 the article's 4000 steps end far from the solution, and the estimate says how
    far.
    """
    scenario = overlapping_classes(overlap=0.01, sizes=10_000, rng=0)
    exact = unskew.solve_normalizers(scenario.omega_estimated, scenario.source)
    sgd = unskew.solve_normalizers(scenario.omega_estimated, scenario.source, method="sgd", rng=1)
    assert sgd.status is unskew.Status.PRESCRIBED
    assert not sgd.converged
    assert sgd.n_steps == 4000
    error = np.ptp(sgd.log_normalizer - exact.log_normalizer)
    assert error > 0.01
    assert error / 10 <= sgd.error_estimate <= 10 * error


def test_sgd_comes_near_where_overlap_is_ample() -> None:
    problem = random_problem(0, 2000, 3, zeros=0.0, spread=0.5)
    exact = unskew.solve_normalizers(problem.omega, problem.source)
    sgd = unskew.solve_normalizers(problem.omega, problem.source, method="sgd")
    # Stationary noise of SGD: step 0.1 (0.01/(1 − 0.9)) times batch noise 0.05; a wide margin.
    assert np.ptp(sgd.log_normalizer - exact.log_normalizer) < 0.3
    again = unskew.solve_normalizers(problem.omega, problem.source, method="sgd")
    assert np.array_equal(sgd.u, again.u)


def test_sgd_reads_storage_that_is_converted_in_blocks() -> None:
    problem = random_problem(0, 150_000, 2, zeros=0.0, spread=0.3)
    plain = unskew.solve_normalizers(problem.omega, problem.source, method="sgd", max_steps=50)
    fortran = unskew.solve_normalizers(
        np.asfortranarray(problem.omega), problem.source, method="sgd", max_steps=50
    )
    np.testing.assert_allclose(fortran.u, plain.u, atol=1e-12)


def test_sgd_needs_memory() -> None:
    problem = random_problem(0, 200, 2, zeros=0.0)
    with refused(unskew.ConfigError, option="method", value="sgd"):
        unskew.solve_normalizers(Blocks(problem.omega), problem.source, method="sgd")


def test_two_steps_on_all_images_follow_the_gradient_with_momentum() -> None:
    """A pool of one batch: every step sees all images, so nothing is random."""
    problem = random_problem(1, 100, 3, zeros=0.2)

    def gradient(u: np.ndarray) -> np.ndarray:
        q = problem.omega * np.exp(u)
        return (q / q.sum(axis=1, keepdims=True)).mean(axis=0) - problem.share

    start = np.array([0.5, 0.0, -0.5])
    u_k, trace = descend(rows_of(problem), start, 2, seed=0)
    first = start - 0.01 * gradient(start)
    second = first - 0.01 * (0.9 * gradient(start) + gradient(first))
    np.testing.assert_allclose(u_k, second, rtol=1e-12)
    assert len(trace) == 1
    assert trace[0].gradient_norm == pytest.approx(np.abs(gradient(start)).max(), rel=1e-12)
    np.testing.assert_array_equal(start, [0.5, 0.0, -0.5])
