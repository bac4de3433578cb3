"""Independent answers to the same equations: pymbar, and Newton's method in 50 digits."""

from __future__ import annotations

import logging

import mpmath as mp
import numpy as np
import pytest

import unskew
from problems import Problem, random_problem


@pytest.fixture
def pymbar() -> object:
    logging.disable(logging.WARNING)  # pymbar greets at import
    module = pytest.importorskip(
        "pymbar", reason="pymbar, the independent oracle, is not installed"
    )
    logging.disable(logging.NOTSET)
    return module


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_normalizers_agree_with_pymbar(pymbar, seed: int) -> None:
    scenario = unskew.scenarios.tilts(400, n_sources=4, dim=2, rng=seed)
    order = np.argsort(scenario.source, kind="stable")
    # The default, steps below 1e-12, is never reached on some processors: rounding is in the way.
    protocol = ({"method": "adaptive", "tol": 1e-10, "options": {}},)
    mbar = pymbar.MBAR(
        -scenario.log_omega[order].T, np.bincount(scenario.source), solver_protocol=protocol
    )
    solution = unskew.solve_normalizers(scenario.log_omega, scenario.source, log=True)
    relative = solution.log_normalizer - solution.log_normalizer[0]
    np.testing.assert_allclose(relative, -(mbar.f_k - mbar.f_k[0]), atol=1e-8)


def solve_in_50_digits(problem: Problem, near: np.ndarray) -> list[mp.mpf]:
    """u with u_0 = 0 by Newton's method in 50 digits from a nearby start, cut to steps of 1."""
    with mp.workdps(50):
        n, n_sources = problem.omega.shape
        omega = [[mp.mpf(float(x)) for x in row] for row in problem.omega]
        u = [mp.mpf(float(x - near[0])) for x in near]
        for _ in range(200):
            gradient = [-mp.mpf(float(size)) / n for size in np.bincount(problem.source)]
            hessian = mp.zeros(n_sources)
            for row in omega:
                q = [mp.e**v * x for v, x in zip(u, row, strict=True)]
                total = mp.fsum(q)
                q = [x / total for x in q]
                for k in range(n_sources):
                    gradient[k] += q[k] / n
                    hessian[k, k] += q[k] / n
                    for other in range(n_sources):
                        hessian[k, other] -= q[k] * q[other] / n
            step = mp.lu_solve(hessian[1:, 1:], mp.matrix([-g for g in gradient[1:]]))
            longest = max(abs(x) for x in step)
            cut = 1 / max(1, longest)
            u = [u[0]] + [v + cut * x for v, x in zip(u[1:], step, strict=True)]
            if longest < mp.mpf(10) ** -25:
                return u
    raise AssertionError("the reference did not converge")


def weakly_linked(link: float, seed: int) -> Problem:
    """Two groups of two sources; between the groups ω is smaller by the factor ``link``."""
    problem = random_problem(seed, 80, 4, zeros=0.0)
    group = np.array([0, 0, 1, 1])
    return Problem(
        problem.omega * np.where(group[problem.source][:, None] == group, 1.0, link), problem.source
    )


@pytest.mark.parametrize("link", [1.0, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("start", [None, "random"])
@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_weak_overlap_costs_no_accuracy(link: float, start: str | None) -> None:
    """A link of 1e-12 has curvature 1e-12: a solver that loses eps to cancellation would be off by
    1e-4 in log W, ours by rounding.
    """
    problem = weakly_linked(link, seed=7)
    first = None if start is None else np.random.default_rng(3).normal(scale=5, size=4)
    solution = unskew.solve_normalizers(problem.omega, problem.source, start=first)
    exact = solve_in_50_digits(problem, solution.u)
    error = max(abs(float((solution.u[k] - solution.u[0]) - exact[k])) for k in range(4))
    assert error <= 1e-12
    assert solution.error_estimate <= 1e-10


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_an_unconverged_solution_knows_its_error() -> None:
    """A tiny gradient is not a tiny error where the curvature is small: the estimate is the Newton
    step.
    """
    problem = weakly_linked(1e-6, seed=11)
    exact = unskew.solve_normalizers(problem.omega, problem.source, throw=False)
    off = exact.u + np.array([0, 0, 0.3, 0.3])
    stopped = unskew.solve_normalizers(
        problem.omega, problem.source, method="fixed_point", start=off, max_steps=3, throw=False
    )
    error = np.ptp(
        (stopped.log_normalizer - exact.log_normalizer)
        - (stopped.log_normalizer - exact.log_normalizer)[0]
    )
    assert stopped.gradient_norm < 1e-5
    assert 0.1 * error <= stopped.error_estimate <= 10 * error
    assert stopped.status is unskew.Status.MAX_STEPS
