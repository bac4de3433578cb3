"""Vardi's iteration against Newton's method, and a step of it against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from problems import FORMS, Problem, connected_problems, in_form, random_problem, rows_of
from unskew.records import Status
from unskew.solve.fixed_point import iterate_fixed_point, membership_sums

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")

# Newton stops at an estimated error of 1e-10 / 10 and usually lands at rounding.
EXACT = 1e-10


@pytest.mark.parametrize("form", FORMS)
@given(problem=connected_problems(max_sources=3), start_seed=st.integers(0, 100))
@settings(max_examples=15)
def test_fixed_point_agrees_with_newton(form: str, problem: Problem, start_seed: int) -> None:
    newton = unskew.solve_normalizers(problem.omega, problem.source)
    omega, options = in_form(form, problem.omega)
    start = np.random.default_rng(start_seed).normal(scale=2, size=problem.omega.shape[1])
    vardi = unskew.solve_normalizers(
        omega,
        problem.source,
        method="fixed_point",
        start=start,
        throw=False,
        max_steps=5000,
        **options,
    )
    if vardi.converged:  # linear convergence: its tolerance is an estimate from the observed rate
        np.testing.assert_allclose(vardi.log_normalizer, newton.log_normalizer, atol=1e-8)
    else:
        assert vardi.error_estimate > 1e-10


@given(problem=connected_problems(max_sources=4))
@settings(max_examples=20)
def test_one_fixed_point_step_moves_nothing(problem: Problem) -> None:
    newton = unskew.solve_normalizers(problem.omega, problem.source)
    step = unskew.solve_normalizers(
        problem.omega,
        problem.source,
        method="fixed_point",
        max_steps=1,
        start=newton.u,
        throw=False,
    )
    np.testing.assert_allclose(step.log_normalizer, newton.log_normalizer, atol=EXACT)


def test_sums_of_memberships_are_those_of_numpy() -> None:
    problem = random_problem(3, 200, 4)
    count = np.random.default_rng(0).integers(0, 4, 200).astype(float)
    u = np.random.default_rng(1).normal(size=4)
    q = problem.omega * np.exp(u)
    row = q.sum(axis=1)
    size = np.bincount(problem.source, weights=count)
    expected = (count @ np.log(row) - size @ u) / count.sum()
    rows = rows_of(problem).with_counts(count)
    for given_rows in (rows, rows.rescaled(np.array([300.0, -300.0, 0.0, 9.0]))):
        mass_k, value = membership_sums(given_rows, u)
        np.testing.assert_allclose(mass_k, count @ (q / row[:, None]), rtol=1e-12)
        assert value == pytest.approx(expected, rel=1e-11)


def test_the_objective_falls_at_every_step() -> None:
    problem = random_problem(5, 300, 3)
    _, status, error, trace = iterate_fixed_point(rows_of(problem), np.zeros(3), 1e-10, 1000)
    assert status is Status.CONVERGED
    assert error <= 1e-10
    assert np.all(np.diff([step.objective for step in trace]) <= 1e-15)


def test_a_start_beyond_double_precision_stalls() -> None:
    problem = random_problem(5, 30, 2)
    _, status, error, trace = iterate_fixed_point(
        rows_of(problem), np.array([2000.0, -2000.0]), 1e-10, 10
    )
    assert (status, error, trace) == (Status.STALLED, np.inf, ())
