"""The further methods, the statuses, and inputs at the edge of double precision."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from problems import Blocks, random_problem
from raising import refused
from unskew.scenarios import nested_sets, nested_sets_solution, overlapping_classes, tilts

IGNORE_WEAK = pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")


@IGNORE_WEAK
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
@pytest.mark.parametrize("by", ["rows", "columns", "both"])
@pytest.mark.parametrize("streamed", [False, True])
def test_extreme_scales_change_nothing(by: str, streamed: bool) -> None:
    scenario = tilts(300, n_sources=3, dim=2, rng=0)
    rng = np.random.default_rng(0)
    n = scenario.source.size
    row = rng.uniform(-300, 300, n) * np.log(10) if by != "columns" else np.zeros(n)
    column = np.array([-300, 0, 300]) * np.log(10) if by != "rows" else np.zeros(3)
    log_omega = scenario.log_omega + row[:, None] + column
    plain = unskew.debias_weights(scenario.log_omega - 0 * row[:, None], scenario.source, log=True)
    omega = log_omega if not streamed else Blocks(log_omega, 50)
    scaled = unskew.debias_weights(omega, scenario.source, log=True)
    log_ratio = np.log(plain.weight) - row
    visible = (scaled.weight > 1e-250) & (log_ratio > log_ratio.max() - 500)
    difference = np.log(scaled.weight[visible]) - log_ratio[visible]
    assert np.ptp(difference) < 1e-9
    expected = plain.solution.log_normalizer
    if by == "columns":
        np.testing.assert_allclose(scaled.solution.log_normalizer - column, expected, atol=1e-9)


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


@pytest.mark.parametrize("faint", [30.0, 300.0, 700.0, 3000.0, 1e6])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_one_image_that_its_own_source_hardly_selects_does_not_lead_astray(faint, noise):
    """It belongs to the last source as good as surely. Of images that are all alike but for it Σ_i
    q_ik = n_k gives the rest exactly.

    Sums of ω_ik/ω_il over images of l, from which a start is balanced, are nothing but that image.
    """
    source = np.concatenate([np.arange(300) % 2, np.full(200, 2)])
    log_omega = noise * np.random.default_rng(0).normal(size=(500, 3))
    log_omega[0, :2] -= faint
    solution = unskew.solve_normalizers(log_omega, source, log=True)
    if noise == 0.0:
        np.testing.assert_allclose(solution.u[:2] - solution.u[2], np.log(150 / 199), rtol=1e-10)
    else:
        q = np.exp(log_omega + solution.u)
        np.testing.assert_allclose(
            (q / q.sum(axis=1, keepdims=True)).sum(axis=0), [150, 150, 200], rtol=1e-9
        )
    assert solution.n_steps < 20
    shift = np.array(
        [200.0, -100.0, 0.0]
    )  # a constant factor of a source changes nothing but its u
    moved = unskew.solve_normalizers(log_omega + shift, source, log=True)
    np.testing.assert_allclose(moved.u + shift - moved.u[2], solution.u - solution.u[2], atol=1e-9)
