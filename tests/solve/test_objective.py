"""Value, gradient and Hessian of the compiled sweeps against plain NumPy and against finite
differences.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from problems import FORMS, random_problem
from solver_rows import rows_in
from unskew.solve.objective import evaluate, hessian_matrix


def plain(
    omega: np.ndarray, source: np.ndarray, count: np.ndarray, u: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """D, gradient and Hessian as the textbook writes them."""
    q = omega * np.exp(u)
    row = q.sum(axis=1)
    q = q / row[:, None]
    share = np.bincount(source, weights=count, minlength=u.size) / count.sum()
    mean = count @ q / count.sum()
    value = float(count @ np.log(row) / count.sum() - share @ u)
    return value, mean - share, np.diag(mean) - (q * count[:, None]).T @ q / count.sum()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_sources", [2, 5, 9, 40])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("by_source", [False, True])
def test_sweeps_equal_the_textbook(
    form: str, n_sources: int, counted: bool, by_source: bool
) -> None:
    rng = np.random.default_rng(n_sources)
    problem = random_problem(n_sources, 1300, n_sources)
    count = rng.integers(0, 4, 1300).astype(float) if counted else np.ones(1300)
    u = rng.normal(size=n_sources)
    rows = rows_in(form, problem.omega, problem.source, count if counted else None, jobs=2)
    result = evaluate(rows, u, by_source=by_source)
    value, gradient, hessian = plain(problem.omega, problem.source, count, u)
    # Sums of 1,300 terms of order one.
    assert result.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(result.gradient_k, gradient, atol=1e-14)
    np.testing.assert_allclose(hessian_matrix(result), hessian, atol=1e-14)


def test_thousands_of_sources_are_summed_sparsely() -> None:
    problem = random_problem(1, 3000, 2100, zeros=0.997)
    rows = rows_in("csr", problem.omega, problem.source, None, jobs=1)
    u = np.random.default_rng(0).normal(size=2100)
    result = evaluate(rows, u)
    value, gradient, hessian = plain(problem.omega, problem.source, np.ones(3000), u)
    assert sp.issparse(result.cross_kk)
    assert result.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(result.gradient_k, gradient, atol=1e-14)
    np.testing.assert_allclose(hessian_matrix(result).toarray(), hessian, atol=1e-14)


def test_a_banded_csr_equals_the_dense_form() -> None:
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(60), 20)
    omega = np.zeros((1200, 60))
    for i, k in enumerate(source):
        low = max(0, k - rng.integers(0, 3))
        omega[i, low : min(60, low + 4)] = rng.uniform(0.5, 2, min(60, low + 4) - low)
    u = rng.normal(size=60)
    banded = rows_in("csr", omega, source, None, jobs=1)
    assert banded.band < 60
    sparse, dense = evaluate(banded, u), evaluate(rows_in("dense", omega, source, None, jobs=1), u)
    np.testing.assert_allclose(sparse.gradient_k, dense.gradient_k, atol=1e-15)
    np.testing.assert_allclose(sparse.cross_kk, dense.cross_kk, rtol=1e-12)


def test_derivatives_equal_finite_differences() -> None:
    problem = random_problem(2, 300, 4)
    rows = rows_in("dense", problem.omega, problem.source, None, jobs=1)
    u, h = np.random.default_rng(1).normal(size=4), 1e-5
    result = evaluate(rows, u)
    steps = h * np.eye(4)
    gradient = [
        (evaluate(rows, u + e).value - evaluate(rows, u - e).value) / (2 * h) for e in steps
    ]
    hessian = [
        (evaluate(rows, u + e).gradient_k - evaluate(rows, u - e).gradient_k) / (2 * h)
        for e in steps
    ]
    # Central differences: truncation h² = 1e-10, rounding eps/h = 2e-11.
    np.testing.assert_allclose(result.gradient_k, gradient, atol=1e-9)
    np.testing.assert_allclose(hessian_matrix(result), hessian, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_storage_in_single_precision_accumulates_in_double(dtype: type) -> None:
    problem = random_problem(3, 5000, 6)
    omega = problem.omega.astype(np.float32)
    u = np.random.default_rng(1).normal(size=6)
    result = evaluate(rows_in("dense", omega.astype(dtype), problem.source, None, jobs=1), u)
    _, gradient, _ = plain(omega.astype(np.float64), problem.source, np.ones(5000), u)
    np.testing.assert_allclose(result.gradient_k, gradient, atol=1e-14)
