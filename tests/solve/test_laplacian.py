"""Laplacian systems against least squares, a chain in closed form, and links of any size."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from problems import random_problem, rows_of
from unskew.solve import laplacian
from unskew.solve.laplacian import newton_step, solve_flows, solve_laplacian
from unskew.solve.objective import evaluate, hessian_matrix


def random_graph(seed: int, n_sources: int, density: float = 1.0) -> np.ndarray:
    """Positive weights, on a ring at least."""
    rng = np.random.default_rng(seed)
    weight_kk = np.triu(rng.uniform(0.1, 1.0, (n_sources, n_sources)), 1)
    weight_kk *= rng.uniform(size=weight_kk.shape) < density
    ring = np.arange(n_sources)
    weight_kk[ring[:-1], ring[1:]] = 0.5
    return weight_kk + weight_kk.T


def least_squares(weight_kk: np.ndarray, right_k: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.diag(weight_kk.sum(axis=1)) - weight_kk, right_k)[0]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n_sources", "density"), [(1, 1.0), (3, 1.0), (7, 1.0), (60, 0.05)])
def test_the_solution_is_that_of_least_squares(form, n_sources, density) -> None:
    weight_kk = random_graph(n_sources, n_sources, density)
    right_k = np.random.default_rng(0).normal(size=n_sources)
    right_k -= right_k.mean()
    found_k = solve_laplacian(form(weight_kk), right_k)
    np.testing.assert_allclose(found_k, least_squares(weight_kk, right_k), atol=1e-11)
    assert found_k.mean() == pytest.approx(0.0, abs=1e-13)


def test_two_sources_have_a_closed_form() -> None:
    """w (x₀ − x₁) = b."""
    found_k = solve_laplacian(np.array([[0.0, 0.25], [0.25, 0.0]]), np.array([3.0, -3.0]))
    np.testing.assert_allclose(found_k, [6.0, -6.0], rtol=1e-15)


def test_dense_graphs_beyond_the_limit_are_factorised_and_agree(monkeypatch) -> None:
    weight_kk = random_graph(3, 30)
    right_k = np.random.default_rng(1).normal(size=30)
    right_k -= right_k.mean()
    eliminated_k = solve_laplacian(weight_kk, right_k)
    monkeypatch.setattr(laplacian, "_DENSE_ELIMINATE", 10)
    factorised_k = solve_laplacian(weight_kk, right_k)
    np.testing.assert_allclose(factorised_k, eliminated_k, atol=1e-13)


def test_conjugate_gradients_take_over_where_no_band_is_narrow(monkeypatch) -> None:
    weight_kk = random_graph(4, 40)
    right_k = np.random.default_rng(1).normal(size=40)
    right_k -= right_k.mean()
    monkeypatch.setattr(laplacian, "_MOST_BAND_WORK", 10)
    found_k = solve_laplacian(sp.csr_array(weight_kk), right_k)
    np.testing.assert_allclose(found_k, least_squares(weight_kk, right_k), atol=1e-10)


@pytest.mark.parametrize("link", [1e-3, 1e-12, 1e-100])
def test_a_weak_link_is_solved_to_full_relative_precision(link: float) -> None:
    """A flow of 1 from one end of a chain to the other: every step is 1/weight."""
    weight_k = np.array([1.0, 2.0, link, 4.0])
    weight_kk = np.diag(weight_k, 1) + np.diag(weight_k, -1)
    flow_kk = np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1)
    found_k = solve_flows(weight_kk, flow_kk * link)
    # b = (link, 0, …, 0, −link): the same flow crosses every link.
    assert found_k[2] - found_k[3] == pytest.approx(1.0, rel=1e-14)
    assert found_k[0] - found_k[4] == pytest.approx(link * np.sum(1 / weight_k), rel=1e-14)


def test_sources_without_a_link_have_no_step() -> None:
    right_k = np.array([1.0, -1.0])
    assert solve_laplacian(np.zeros((2, 2)), right_k) is None
    assert solve_laplacian(sp.csr_array((2, 2)), right_k) is None


@pytest.mark.parametrize("by_source", [False, True])
def test_the_newton_step_solves_hessian_times_step_is_minus_gradient(by_source: bool) -> None:
    evaluation = evaluate(
        rows_of(random_problem(4, 200, 5)), np.linspace(-1, 1, 5), by_source=by_source
    )
    step_k = newton_step(evaluation)
    np.testing.assert_allclose(
        hessian_matrix(evaluation) @ step_k, -evaluation.gradient_k, atol=1e-14
    )
    assert step_k.mean() == pytest.approx(0.0, abs=1e-14)
    # A Hessian from elsewhere, twice as large, halves the step.
    np.testing.assert_allclose(
        newton_step(evaluation, 2 * evaluation.cross_kk), step_k / 2, rtol=1e-9
    )


def test_two_sources_in_a_sparse_graph_have_one_unknown() -> None:
    """w (x_0 − x_1) = r_0, centred."""
    step_k = solve_laplacian(sp.csr_array([[0.0, 0.25], [0.25, 0.0]]), np.array([3.0, -3.0]))
    np.testing.assert_allclose(np.diff(step_k), [-12.0])
