"""Log-linear biasing functions by maximum likelihood, against BFGS and its own equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from raising import refused
from unskew.bias import likelihood
from unskew.bias.likelihood import (
    LogLinearProblem,
    coefficient_variances,
    fit_log_linear,
    own_means,
)
from unskew.errors import ConvergenceError
from unskew.records import Floats


def make_problem(seed: int = 0, n: int = 300, **changes: object) -> LogLinearProblem:
    rng = np.random.default_rng(seed)
    source = np.concatenate([np.arange(3), rng.integers(3, size=n - 3)])
    given = {
        "phi": rng.normal(size=(n, 2)) + 0.4 * source[:, None],
        "source": source,
        "cell": np.zeros(n, dtype=np.int64),
        "n_sources": 3,
        "n_cells": 1,
        "reference": 0,
        "offset": None,
        "ridge": 0.0,
    }
    return LogLinearProblem(**{**given, **changes})


def logits(problem: LogLinearProblem, theta: Floats, u: Floats) -> Floats:
    offset = 0.0 if problem.offset is None else problem.offset
    return offset + problem.phi @ theta.T + u[problem.cell]


def plain_value(problem: LogLinearProblem, theta: Floats, u: Floats) -> float:
    """Σ_i log q_{i,s_i}."""
    log_q = scipy.special.log_softmax(logits(problem, theta, u), axis=1)
    return float(log_q[np.arange(problem.source.size), problem.source].sum())


@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("n_cells", [1, 2])
def test_it_is_the_maximum_that_bfgs_finds(n_cells: int, ridge: float) -> None:
    rng = np.random.default_rng(1)
    problem = make_problem(
        cell=np.arange(300) % n_cells,
        n_cells=n_cells,
        offset=rng.normal(size=(300, 3)),
        ridge=ridge,
    )

    def split(eta: Floats) -> tuple[Floats, Floats]:
        theta, u = np.zeros((3, 2)), np.zeros((n_cells, 3))
        theta[1:], u[:, 1:] = eta[:4].reshape(2, 2), eta[4:].reshape(n_cells, 2)
        return theta, u

    def loss(eta: Floats) -> float:
        theta, u = split(eta)
        return ridge / 2 * float((theta**2).sum()) - plain_value(problem, theta, u)

    best = scipy.optimize.minimize(loss, np.zeros(4 + 2 * n_cells), method="BFGS")
    found = fit_log_linear(problem)
    np.testing.assert_allclose(found.theta, split(best.x)[0], atol=1e-4)
    np.testing.assert_allclose(found.u - found.u[:, :1], split(best.x)[1], atol=1e-4)
    # The penalty is left out of what is told.
    told = plain_value(problem, found.theta, found.u)
    assert found.log_likelihood == pytest.approx(told, rel=1e-9)
    assert (found.theta[0] == 0).all()


def test_a_penalty_for_every_number_and_what_the_images_determine_of_each() -> None:
    ridge_kd = np.array([[1.0, 1.0], [0.5, 1e9], [20.0, 3.0]])
    problem = make_problem(ridge=ridge_kd)
    found = fit_log_linear(problem)

    def loss(eta: Floats) -> float:
        theta, u = np.zeros((3, 2)), np.zeros((1, 3))
        theta[1:], u[0, 1:] = eta[:4].reshape(2, 2), eta[4:]
        return float((ridge_kd * theta**2).sum()) / 2 - plain_value(problem, theta, u)

    eta = np.r_[found.theta[1:].ravel(), found.u[0, 1:] - found.u[0, 0]]
    step, curvature = 1e-3, np.empty((6, 6))
    for a, b in np.ndindex(6, 6):
        one, other = step * np.eye(6)[a], step * np.eye(6)[b]
        ends = loss(eta + one + other) - loss(eta + one - other) - loss(eta - one + other)
        curvature[a, b] = (ends + loss(eta - one - other)) / (4 * step**2)
    expected = np.diag(np.linalg.inv(curvature))[:4].reshape(2, 2)
    # Second differences with steps of 1e-3 are good to about six digits.
    np.testing.assert_allclose(coefficient_variances(problem, found)[1:], expected, rtol=1e-4)
    determined_kd = 1.0 - ridge_kd * coefficient_variances(problem, found)
    np.testing.assert_allclose(determined_kd[0], 0.0, atol=1e-12)  # the reference
    assert determined_kd[1, 1] == pytest.approx(0.0, abs=1e-5)
    assert abs(found.theta[1, 1]) < 1e-6
    assert ((determined_kd > -1e-12) & (determined_kd < 1)).all()


def test_at_the_maximum_every_source_has_its_own_count_and_mean_feature() -> None:
    problem = make_problem()
    found = fit_log_linear(problem)
    q = scipy.special.softmax(logits(problem, found.theta, found.u), axis=1)
    own = np.eye(3)[problem.source]
    np.testing.assert_allclose(q.sum(axis=0), own.sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(q.T @ problem.phi, own.T @ problem.phi, atol=1e-6)


def test_where_it_begins_changes_nothing() -> None:
    problem = make_problem()
    one = fit_log_linear(problem)
    other = fit_log_linear(problem, start_kd=np.array([[0.0, 0.0], [2.0, -1.0], [-1.0, 3.0]]))
    np.testing.assert_allclose(other.theta, one.theta, atol=1e-8)
    np.testing.assert_allclose(other.u - other.u[:, :1], one.u - one.u[:, :1], atol=1e-8)


def test_large_problems_begin_on_some_images_and_end_at_the_same_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = make_problem(n=1000)
    whole = fit_log_linear(problem)
    seen = []
    descend = likelihood.descend_from
    monkeypatch.setattr(likelihood, "_SUBSAMPLE", 200)
    monkeypatch.setattr(
        likelihood,
        "descend_from",
        lambda given, *rest: seen.append(given.phi.shape[0]) or descend(given, *rest),
    )
    by_part = fit_log_linear(problem)
    assert seen == [200, 1000]
    np.testing.assert_allclose(by_part.theta, whole.theta, atol=1e-8)


def test_a_constant_of_a_source_in_the_other_factors_moves_u_alone() -> None:
    offset = np.random.default_rng(2).normal(size=(300, 3))
    shift = np.array([0.0, 300.0, -500.0])
    one = fit_log_linear(make_problem(offset=offset))
    other = fit_log_linear(make_problem(offset=offset + shift))
    np.testing.assert_allclose(other.theta, one.theta, atol=1e-7)
    np.testing.assert_allclose(other.u + shift - other.u[:, :1], one.u - one.u[:, :1], atol=1e-7)


def test_means_of_the_other_factors_by_stratum_and_source() -> None:
    offset = np.arange(12.0).reshape(4, 3)
    found = own_means(offset, np.array([0, 2, 2, 0]), np.array([0, 0, 0, 1]), 2)
    assert found.tolist() == [[0.0, 0.0, (5.0 + 8.0) / 2], [9.0, 0.0, 0.0]]


def test_a_part_of_the_images_has_its_part_of_the_penalty() -> None:
    problem = make_problem(ridge=6.0, offset=np.zeros((300, 3)))
    part = problem.subset(np.arange(0, 300, 3))
    assert part.ridge == 2.0
    np.testing.assert_array_equal(part.phi, problem.phi[::3])
    np.testing.assert_array_equal(part.source, problem.source[::3])
    assert part.offset is not None
    assert part.offset.shape == (100, 3)


def test_a_fit_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "_MAX_STEPS", 1)
    with refused(ConvergenceError, limit=1):
        fit_log_linear(make_problem())
