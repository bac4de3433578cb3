"""What is true of every solution, whatever the method, the storage, the start: identities,
invariances and closed forms.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from problems import FORMS, Problem, connected_problems, in_form, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")

# Newton stops at an estimated error of 1e-10 / 10 and usually lands at rounding; the identities are
# sums of up to 200 terms.
EXACT = 1e-10


def assert_identities(problem: Problem, weights: unskew.Weights, atol: float = EXACT) -> None:
    omega, share, n = problem.omega, problem.share, problem.source.size
    normalizer = weights.normalizer
    assert weights.weight.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(weights.weight > 0)
    np.testing.assert_allclose(weights.weight @ omega / normalizer, 1, atol=atol)  # Σ π ω_k = Ω_k
    np.testing.assert_allclose(
        n * weights.weight * (omega @ (share / normalizer)), 1, atol=atol
    )  # row by row
    membership = omega * (share / normalizer) / (omega @ (share / normalizer))[:, None]
    np.testing.assert_allclose(membership.mean(axis=0), share, atol=atol)  # the gradient is zero


@pytest.mark.parametrize("form", FORMS)
@given(problem=connected_problems(), start_seed=st.integers(0, 100))
@settings(max_examples=15)
def test_newton_solves_the_equations_in_every_form_and_from_every_start(
    form: str, problem: Problem, start_seed: int
) -> None:
    omega, options = in_form(form, problem.omega)
    start = np.random.default_rng(start_seed).normal(scale=3, size=problem.omega.shape[1])
    weights = unskew.debias_weights(omega, problem.source, **options)
    assert_identities(problem, weights)
    again = unskew.solve_normalizers(omega, problem.source, start=start, **options)
    np.testing.assert_allclose(again.log_normalizer, weights.solution.log_normalizer, atol=EXACT)
    assert again.converged
    assert again.error_estimate <= 1e-10


@given(problem=connected_problems(), seed=st.integers(0, 100))
@settings(max_examples=15)
def test_a_factor_per_source_changes_no_weight(problem: Problem, seed: int) -> None:
    factor = 10.0 ** np.random.default_rng(seed).uniform(-250, 250, problem.omega.shape[1])
    plain = unskew.debias_weights(problem.omega, problem.source)
    scaled = unskew.debias_weights(problem.omega * factor, problem.source)
    np.testing.assert_allclose(scaled.weight, plain.weight, rtol=1e-9)
    # log of a factor of 1e250 is 576: its rounding error is 576 eps.
    np.testing.assert_allclose(
        scaled.solution.log_normalizer - np.log(factor), plain.solution.log_normalizer, atol=1e-9
    )


@given(problem=connected_problems(), seed=st.integers(0, 100))
@settings(max_examples=15)
def test_a_factor_per_image_divides_its_weight(problem: Problem, seed: int) -> None:
    """Multiplying all ω_k(z) by c(z) leaves memberships and divides the weights by c: what the data
    cannot tell.
    """
    log_factor = np.random.default_rng(seed).uniform(-250, 250, problem.source.size) * np.log(10)
    plain = unskew.debias_weights(problem.omega, problem.source)
    with np.errstate(divide="ignore"):
        scaled = unskew.debias_weights(
            np.log(problem.omega) + log_factor[:, None], problem.source, log=True
        )
    expected = np.log(plain.weight) - log_factor
    expected -= expected.max() + np.log(np.sum(np.exp(expected - expected.max())))
    visible = expected > -600
    np.testing.assert_allclose(np.log(scaled.weight[visible]), expected[visible], atol=1e-9)


@given(problem=connected_problems(), seed=st.integers(0, 100))
@settings(max_examples=15)
def test_the_order_of_rows_and_sources_does_not_matter(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    row, column = rng.permutation(problem.source.size), rng.permutation(problem.omega.shape[1])
    plain = unskew.debias_weights(problem.omega, problem.source)
    mixed = unskew.debias_weights(
        problem.omega[row][:, column], np.argsort(column)[problem.source[row]]
    )
    np.testing.assert_allclose(mixed.weight, plain.weight[row], rtol=1e-9)
    np.testing.assert_allclose(
        mixed.solution.log_normalizer, plain.solution.log_normalizer[column], atol=EXACT
    )


@given(problem=connected_problems())
@settings(max_examples=15)
def test_doubling_all_images_halves_every_weight(problem: Problem) -> None:
    plain = unskew.debias_weights(problem.omega, problem.source)
    double = unskew.debias_weights(np.vstack([problem.omega] * 2), np.tile(problem.source, 2))
    np.testing.assert_allclose(double.weight, np.tile(plain.weight, 2) / 2, rtol=1e-9)
    np.testing.assert_allclose(
        double.solution.log_normalizer, plain.solution.log_normalizer, atol=EXACT
    )


@given(problem=connected_problems(max_sources=4), seed=st.integers(0, 100))
@settings(max_examples=15)
def test_splitting_a_source_changes_nothing(problem: Problem, seed: int) -> None:
    """Two sources with the same ω are one source."""
    rng = np.random.default_rng(seed)
    n_sources = problem.omega.shape[1]
    of_first = np.flatnonzero(problem.source == 0)
    if of_first.size < 2:
        return
    source = problem.source.copy()
    source[rng.permutation(of_first)[: of_first.size // 2]] = n_sources
    split = unskew.debias_weights(np.column_stack([problem.omega, problem.omega[:, 0]]), source)
    plain = unskew.debias_weights(problem.omega, problem.source)
    np.testing.assert_allclose(split.weight, plain.weight, rtol=1e-9)
    assert split.normalizer[0] == pytest.approx(split.normalizer[-1], rel=1e-9)


def test_equal_omega_gives_equal_weights() -> None:
    weights = unskew.debias_weights(np.full((30, 3), 0.7), np.repeat([0, 1, 2], 10))
    np.testing.assert_allclose(weights.weight, 1 / 30, rtol=1e-12)
    np.testing.assert_allclose(weights.normalizer, 0.7, rtol=1e-12)
    assert weights.ess == pytest.approx(30)


def test_one_source_gives_inverse_omega() -> None:
    omega = np.array([[1.0], [2.0], [4.0]])
    weights = unskew.debias_weights(omega, [0, 0, 0])
    np.testing.assert_allclose(weights.weight, np.array([4, 2, 1]) / 7, rtol=1e-14)
    assert weights.overlap.kappa == 1.0
    assert (weights.overlap.matrix, weights.overlap.spectral_gap, weights.overlap.sigma2) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize("overlap", [0.001, 0.01, 0.2])
def test_class_counts_give_the_target_distribution_exactly(overlap: float) -> None:
    """The article's 4.2 with ω̂ = class counts: π ∝ p_target(y)/N_y at every overlap at which the
    draw is connected.
    """
    scenario = unskew.scenarios.overlapping_classes(overlap=overlap, sizes=10_000, rng=3)
    weights = unskew.debias_weights(
        scenario.omega_estimated, scenario.source, start=np.random.default_rng(0).normal(size=5)
    )
    mass = np.bincount(scenario.label, weights=weights.weight)
    np.testing.assert_allclose(mass, 0.1, atol=1e-10)
    count = np.bincount(scenario.label)
    np.testing.assert_allclose(weights.weight, 0.1 / count[scenario.label], rtol=1e-9)


def test_the_objective_never_rises() -> None:
    problem = random_problem(5, 400, 6, zeros=0.5)
    solution = unskew.solve_normalizers(
        problem.omega, problem.source, start=np.random.default_rng(0).normal(scale=20, size=6)
    )
    values = np.array([step.objective for step in solution.trace])
    assert np.all(np.diff(values) <= 1e-12 * (1 + np.abs(values[:-1])))
