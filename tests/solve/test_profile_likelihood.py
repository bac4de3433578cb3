"""Score and information of the profile likelihood against finite differences; strata against solves
of their own.
"""

import numpy as np
import pytest
import scipy.special

from unskew import OverlapError, solve_normalizers
from unskew.solve.profile_likelihood import DenseDerivative, LinearDerivative, Profile, solve_strata


def random_profile(seed=0, form="dense", n=60, k=3, cells=2):
    """log ω_ik = base_ik + θ·J_ik at arbitrary θ and u: the information is that of the likelihood
    anywhere.
    """
    rng = np.random.default_rng(seed)
    linear = LinearDerivative(rng.normal(size=(n, 2)), np.array([0, 2]), k)
    base, jacobian = (
        rng.normal(size=(n, k)),
        rng.normal(size=(n, k, 2)) if form == "dense" else linear.block(np.arange(n)),
    )
    source, cell, u = rng.integers(0, k, n), rng.integers(0, cells, n), rng.normal(size=(cells, k))
    theta = np.array([0.3, -0.2, 0.5, 0.1])[: jacobian.shape[2]]
    log_omega = base + jacobian @ theta
    derivative = (
        linear
        if form == "linear"
        else DenseDerivative(theta.size, lambda at: jacobian[at], log_omega)
    )
    return (
        Profile(log_omega, u, source, cell, derivative, 0.5 * np.eye(theta.size)),
        base,
        jacobian,
        theta,
    )


def negative_log_likelihood(eta, profile, base, jacobian, penalty):
    cells, k = profile.u.shape
    u, theta = eta[: cells * k].reshape(cells, k), eta[cells * k :]
    logit = base + jacobian @ theta + u[profile.cell]
    own = logit[np.arange(len(logit)), profile.source]
    return (scipy.special.logsumexp(logit, axis=1) - own).sum() + theta @ penalty @ theta / 2


@pytest.mark.parametrize("form", ["dense", "linear"])
def test_expected_information_is_the_mean_of_the_hessian_over_the_source_labels(form):
    """Of log-linear ω the second derivative does not depend on the labels, so the information is
    the Hessian.
    """
    profile, base, jacobian, theta = random_profile(0, form)
    eta = np.concatenate([profile.u.ravel(), theta])
    m, step = eta.size, 1e-3
    unit = step * np.eye(m)
    f = lambda x: negative_log_likelihood(x, profile, base, jacobian, profile.penalty)  # noqa: E731
    hessian = np.array(
        [
            [
                (f(eta + a + b) - f(eta + a - b) - f(eta - a + b) + f(eta - a - b)) / (4 * step**2)
                for b in unit
            ]
            for a in unit
        ]
    )
    info = profile.information
    cells, k = profile.u.shape
    full = np.zeros((m, m))
    for c in range(cells):
        own = slice(c * k, (c + 1) * k)
        full[own, own], full[own, cells * k :], full[cells * k :, own] = (
            info.h_ckk[c],
            info.b_ckp[c],
            info.b_ckp[c].T,
        )
    full[cells * k :, cells * k :] = info.t_pp
    np.testing.assert_allclose(full, hessian, atol=2e-5)
    g_ck, g_p = (
        np.random.default_rng(1).normal(size=(cells, k)),
        np.array([0.4, 1.0, -0.3, 0.2])[: theta.size],
    )
    g_ck -= g_ck.mean(axis=1, keepdims=True)
    a_ck, a_p = info.solve(g_ck, g_p)
    np.testing.assert_allclose(
        full @ np.concatenate([a_ck.ravel(), a_p]), np.concatenate([g_ck.ravel(), g_p]), atol=1e-9
    )
    np.testing.assert_allclose(
        info.parameter_covariance(), np.linalg.pinv(full)[cells * k :, cells * k :], atol=1e-9
    )


@pytest.mark.parametrize("form", ["dense", "linear"])
def test_the_residuals_are_the_score(form):
    profile, base, jacobian, theta = random_profile(1, form)
    eta, step = np.concatenate([profile.u.ravel(), theta]), 1e-6
    numeric = [
        (
            negative_log_likelihood(eta + step * unit, profile, base, jacobian, 0 * profile.penalty)
            - negative_log_likelihood(
                eta - step * unit, profile, base, jacobian, 0 * profile.penalty
            )
        )
        / (2 * step)
        for unit in np.eye(eta.size)
    ]
    score_ck, score_p = np.zeros(profile.u.shape), np.zeros(theta.size)
    a_p = np.linspace(1, 2, theta.size)
    for cell, at, q_bk in profile.blocks():
        residual = profile.residuals(at, q_bk)
        score_ck[cell] += residual.sum(axis=0)
        score_p += profile.derivative.total(at, residual)
        by_row = profile.derivative.by_row(at, residual)
        np.testing.assert_allclose(
            by_row, np.einsum("bk,bkp->bp", residual, jacobian[at]), atol=1e-12
        )
        np.testing.assert_allclose(
            profile.derivative.along(at, residual, a_p), by_row @ a_p, atol=1e-12
        )
    np.testing.assert_allclose(np.concatenate([score_ck.ravel(), score_p]), numeric, atol=1e-6)


def test_strata_are_solved_each_by_itself_among_the_sources_that_have_images_there():
    rng = np.random.default_rng(3)
    n = 240
    cell, source = rng.integers(0, 4, n), rng.integers(0, 3, n)
    source[cell == 1] = rng.integers(0, 2, (cell == 1).sum())
    source[cell == 2] = 2
    log_omega = rng.normal(size=(n, 3))
    log_omega[cell == 3] = 0.7
    u = solve_strata(log_omega, source, cell, 4, ["a", "b", "c"])
    for c, present in ((0, [0, 1, 2]), (1, [0, 1]), (3, [0, 1, 2])):
        at = np.flatnonzero(cell == c)
        expected = solve_normalizers(log_omega[np.ix_(at, present)], source[at], log=True).u
        np.testing.assert_allclose(np.diff(u[c, present]), np.diff(expected), atol=1e-9)
        q = scipy.special.softmax(log_omega[np.ix_(at, present)] + u[c, present], axis=1)
        np.testing.assert_allclose(
            q.sum(axis=0), np.bincount(source[at], minlength=3)[present], rtol=1e-8
        )
    assert np.isneginf(u[1, 2])
    assert u[2].tolist() == [-np.inf, -np.inf, np.log((cell == 2).sum())]
    with pytest.raises(OverlapError):
        solve_strata(
            np.array([[0.0, -np.inf], [-np.inf, 0.0]]),
            np.array([0, 1]),
            np.zeros(2, dtype=int),
            1,
            ["a", "b"],
        )


@pytest.mark.parametrize("form", ["dense", "linear"])
def test_slopes_are_the_derivative_of_expected_sums(form):
    profile, base, jacobian, theta = random_profile(3, form)
    value, at, step = np.random.default_rng(1).normal(size=(60, 4)), np.arange(60), 1e-5

    def sums(moved):
        return (
            scipy.special.softmax(base + jacobian @ moved + profile.u[profile.cell], axis=1).T
            @ value
        )

    expected = np.array(
        [
            (sums(theta + step * unit) - sums(theta - step * unit)) / (2 * step)
            for unit in np.eye(theta.size)
        ]
    )
    np.testing.assert_allclose(
        profile.derivative.slopes(at, profile.memberships(at), value), expected, atol=1e-8
    )
