"""The Hessian at the solution, and solves with it, against NumPy and their defining equations."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings

from raising import refused
from unskew.errors import ConfigError, ConvergenceError
from unskew.records import Status
from unskew.weigh.curvature import (
    check_solved,
    invert_hessian,
    read_hessian,
    read_memberships,
    solve_hessian,
)
from weighed_problems import problems
from weighed_tilts import draw, weigh


@settings(max_examples=30, suppress_health_check=[HealthCheck.filter_too_much])
@given(problems())
def test_generalized_inverse_of_the_hessian(problem):
    omega, source, _ = problem
    weights = weigh(omega, source)
    share_k, hessian_kk = weights.solution.share, read_hessian(weights)
    inverse_kk = invert_hessian(hessian_kk, share_k)
    scale = 1 + np.abs(inverse_kk).max()
    np.testing.assert_allclose(
        inverse_kk @ hessian_kk, np.eye(share_k.size) - share_k, atol=1e-12 * scale
    )
    np.testing.assert_allclose(inverse_kk @ share_k, 0.0, atol=1e-12 * scale)
    np.testing.assert_allclose(hessian_kk.sum(axis=1), 0.0, atol=1e-15)


@pytest.mark.parametrize("sparse", [False, True])
def test_many_sources_with_links_lost_in_rounding_have_no_error(sparse):
    n_sources = 70
    weight_kk = np.full((n_sources, n_sources), 1e-20)
    weight_kk[:35, :35] = weight_kk[35:, 35:] = 0.01
    np.fill_diagonal(weight_kk, 0.0)
    hessian_kk = np.diag(weight_kk.sum(axis=1)) - weight_kk
    right_k = np.where(np.arange(n_sources) < 35, 1.0, -1.0)
    with refused(ConvergenceError):
        solve_hessian(sp.csc_array(hessian_kk) if sparse else hessian_kk, right_k)
    weight_kk *= 1e2
    weight_kk[0, 69] = weight_kk[69, 0] = 1e-2
    hessian_kk = np.diag(weight_kk.sum(axis=1)) - weight_kk
    solution_k = solve_hessian(sp.csc_array(hessian_kk) if sparse else hessian_kk, right_k)
    np.testing.assert_allclose(hessian_kk @ solution_k, right_k, atol=1e-9)


def test_too_weak_a_solve_has_no_error():
    _, omega, source, _ = draw(n_k=(9, 9, 9))
    weights = weigh(omega, source)
    for status in (Status.TOO_WEAK, Status.DISCONNECTED):
        failed = replace(weights, solution=replace(weights.solution, status=status))
        for ask in (failed.covariance, lambda failed=failed: failed.mean(source), failed.bootstrap):
            with refused(ConvergenceError, option="weights"):
                ask()


def test_hessian_from_a_subsample_is_replaced_by_the_exact_one():
    z_n, omega, source, _ = draw()
    weights = weigh(omega, source)
    rough = replace(weights.solution, hessian=weights.solution.hessian * 1.3, hessian_exact=False)
    again = replace(weights, solution=rough)
    assert again.mean(z_n).stderr == pytest.approx(weights.mean(z_n).stderr, rel=1e-10)
    np.testing.assert_allclose(again.covariance(), weights.covariance(), atol=1e-12)


@pytest.mark.parametrize("exact", [True, False])
def test_sparse_hessian(exact):
    """Thousands of sources keep the Hessian sparse, and sparse memberships give a sparse one
    back.
    """
    rng = np.random.default_rng(5)
    source = np.repeat(np.arange(6), 40)
    omega = rng.uniform(0.5, 2.0, (240, 6)) * (np.abs(np.arange(6) - source[:, None]) <= 1)
    weights = weigh(sp.csr_array(omega), source, group=np.arange(240) // 3)
    hessian = sp.csr_array(weights.solution.hessian) * (1.0 if exact else 0.7)
    again = replace(
        weights, solution=replace(weights.solution, hessian=hessian, hessian_exact=exact)
    )
    assert sp.issparse(read_hessian(again))
    value_n = rng.standard_normal(240)
    assert again.mean(value_n).stderr == pytest.approx(weights.mean(value_n).stderr, rel=1e-9)
    np.testing.assert_allclose(again.covariance(), weights.covariance(), atol=1e-10)
    apart = replace(
        again, solution=replace(again.solution, hessian=sp.csr_array((6, 6)), hessian_exact=True)
    )
    with refused(ConvergenceError):
        apart.covariance()


def test_no_solution_no_error():
    unsolved = weigh(np.eye(2)[[0, 0, 1, 1]], [0, 0, 1, 1], throw=False)
    for call in (lambda: unsolved.mean([1, 2, 3, 4]), unsolved.covariance, unsolved.bootstrap):
        with pytest.raises(ConvergenceError):
            call()


def memberships(weights, omega):
    q_nk = omega * np.exp(weights.solution.u)
    return q_nk / q_nk.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("max_rows", [None, 1, 7, 1000])
def test_memberships_come_in_blocks_that_cover_every_image_once(max_rows):
    _, omega, source, _ = draw(n_k=(20, 30, 10))
    weights = weigh(omega, source)
    blocks = list(read_memberships(weights, max_rows))
    assert [at for rows, _ in blocks for at in range(rows.start, rows.stop)] == list(range(60))
    assert all(len(q_bk) <= (max_rows or 60) for _, q_bk in blocks)
    np.testing.assert_allclose(
        np.vstack([q_bk for _, q_bk in blocks]), memberships(weights, omega), rtol=1e-12
    )


@pytest.mark.parametrize("exact", [True, False])
def test_the_hessian_is_that_of_the_textbook_and_its_rows_sum_to_zero(exact):
    _, omega, source, _ = draw()
    weights = weigh(omega, source)
    q_nk = memberships(weights, omega)
    if not exact:  # what the solver kept is not looked at
        weights = replace(
            weights, solution=replace(weights.solution, hessian=None, hessian_exact=False)
        )
    hessian_kk = read_hessian(weights)
    n = source.size
    np.testing.assert_allclose(
        hessian_kk, np.diag(q_nk.mean(axis=0)) - q_nk.T @ q_nk / n, atol=1e-12
    )
    np.testing.assert_allclose(hessian_kk.sum(axis=1), 0.0, atol=1e-16)


@pytest.mark.parametrize("n_sources", [1, 5, 70])
@pytest.mark.parametrize("sparse", [False, True])
def test_solving_and_multiplying_give_the_right_side_back(n_sources, sparse):
    rng = np.random.default_rng(0)
    weight_kk = np.triu(rng.uniform(0.1, 1.0, (n_sources, n_sources)), 1)
    weight_kk = weight_kk + weight_kk.T
    hessian_kk = np.diag(weight_kk.sum(axis=1)) - weight_kk
    right_kj = rng.normal(size=(n_sources, 2))
    right_kj -= right_kj.mean(axis=0)
    found_kj = solve_hessian(sp.csc_array(hessian_kk) if sparse else hessian_kk, right_kj)
    np.testing.assert_allclose(hessian_kk @ found_kj, right_kj, atol=1e-12)


def test_weights_without_omega_are_told_so():
    _, omega, source, _ = draw(n_k=(9, 9, 9))
    weights = weigh(omega, source)
    check_solved(weights)
    with refused(ConfigError, option="weights"):
        check_solved(replace(weights, rows=None))
    with refused(ConvergenceError, option="weights"):
        check_solved(replace(weights, weight=np.full(27, np.nan)))
