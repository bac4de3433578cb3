"""Sums of residuals and their replicates: covariances in closed form, and the fit accounted for."""

import numpy as np
import pytest

import unskew
from unskew.bias import Tilt
from unskew.bias.redrawn_sources import sum_residuals
from unskew.solve.profile_likelihood import Profile


def flat_profile(n_k) -> Profile:
    """ω = 1: q is the share of each source."""
    source = np.repeat(np.arange(len(n_k)), n_k)
    return Profile(
        np.zeros((source.size, len(n_k))),
        np.log(np.array([n_k], dtype=float)),
        source,
        np.zeros(source.size, dtype=np.int64),
    )


def fitted_profile(n: int = 200, seed: int = 0, group: bool = False):
    rng = np.random.default_rng(seed)
    source = np.repeat(["a", "b", "c"], n)
    x = rng.normal(np.repeat([0.5, -0.3, 0.0], n), 1.0)
    pool = unskew.Pool.from_arrays(source, x=x)
    rows = unskew.debias(pool, Tilt(["x"], reference="c")).estimation.rows
    return rows.profile, x.astype(np.float32)


def functions_of(*columns):
    value_rt = np.column_stack(columns).astype(np.float32)
    return lambda at: value_rt[at]


def test_sums_of_equal_omega_are_those_of_a_permutation():
    rng = np.random.default_rng(1)
    profile, f = flat_profile([150, 100]), rng.normal(size=250)
    both = np.ones(2, dtype=bool)
    sums = sum_residuals(profile, None, both, functions_of(f), replicates=4000, seed=0)
    assert sums.observed[0, 0] == pytest.approx(f[:150].sum() - 0.6 * f.sum(), rel=1e-6)
    # λ(1 − λ) Σ (f − f̄)²; 4,000 replicates know a variance to √(2/4000) = 2%, four of these.
    expected = 0.6 * 0.4 * np.square(f - f.mean()).sum()
    assert sums.null[:, 0, 0].var() == pytest.approx(expected, rel=0.09)
    np.testing.assert_allclose(sums.null[:, 0], -sums.null[:, 1], atol=1e-3)


def test_what_the_fit_takes_up_does_not_vary():
    profile, x = fitted_profile()
    every = np.ones(3, dtype=bool)
    functions = functions_of(np.ones_like(x), x, x**2)
    sums = sum_residuals(profile, None, every, functions, replicates=200, seed=0)
    # Counts and means of x are fitted exactly, in the data and in every replicate; x² is not.
    assert np.abs(sums.null[:, :, :2]).max() < 0.1
    assert np.abs(sums.observed[:, :2]).max() < 1e-4
    assert sums.null[:, :, 2].std() > 5


@pytest.mark.slow
def test_the_variance_is_that_of_new_draws_and_new_fits():
    """Draw the sources again from q, fit Tilt again, and sum: the replicates' spread."""
    profile, x = fitted_profile(n=150, seed=3)
    q_rk = profile.memberships(np.arange(x.size))
    rng = np.random.default_rng(5)
    drawn = []
    for _ in range(150):
        source = (rng.uniform(size=(x.size, 1)) > np.cumsum(q_rk, axis=1)).sum(axis=1)
        pool = unskew.Pool.from_arrays(np.array(list("abc"))[source], x=x)
        fitted = unskew.debias(pool, Tilt(["x"], reference="c")).estimation.rows.profile
        residual = -fitted.residuals(np.arange(x.size), fitted.memberships(np.arange(x.size)))
        drawn.append(residual.T @ (x > 0.5))
    functions = functions_of(x > 0.5)
    every = np.ones(3, dtype=bool)
    sums = sum_residuals(profile, None, every, functions, replicates=2000, seed=0)
    # 150 draws know a standard deviation to 1/√300 = 6%; 1,000 draws agreed within 4%.
    np.testing.assert_allclose(sums.null[:, :, 0].std(axis=0), np.std(drawn, axis=0), rtol=0.2)
    # Pairs of copies are one unit: the sums double, and so does their spread.
    twice = np.tile(np.arange(x.size), 2)
    copies = profile.take(twice)
    pairs = sum_residuals(
        copies, twice, every, lambda at: functions(twice[at]), replicates=2000, seed=0
    )
    np.testing.assert_allclose(pairs.null[:, :, 0].std(axis=0), 2 * np.std(drawn, 0), rtol=0.2)


def test_some_sources_are_compared_given_that_an_image_is_theirs():
    profile, x = fitted_profile()
    first_two = np.array([True, True, False])
    functions = functions_of(x > 0)
    sums = sum_residuals(profile, None, first_two, functions, replicates=500, seed=0)
    own = profile.source < 2
    q_rk = profile.memberships(np.flatnonzero(own))[:, :2]
    share_r = q_rk[:, 0] / q_rk.sum(axis=1)
    expected = ((profile.source[own] == 0) - share_r) @ (x[own] > 0)
    assert sums.observed[0, 0] == pytest.approx(expected, rel=1e-4)
    assert sums.observed[2, 0] == 0.0
    assert not sums.null[:, 2].any()
    # The indicator of x > 0 is nearly what the tilt fits: less varies than with known parameters.
    known = np.sum(share_r * (1 - share_r) * (x[own] > 0))
    assert 0 < sums.null[:, 0, 0].var() < known


def test_a_part_of_the_rows_tells_the_spread_of_all(monkeypatch):
    profile, x = fitted_profile(n=1000)
    functions, every = functions_of(x > 1, x**2), np.ones(3, dtype=bool)
    full = sum_residuals(profile, None, every, functions, replicates=1500, seed=0)
    monkeypatch.setattr("unskew.bias.redrawn_sources._ENOUGH_UNITS", 1000)
    part = sum_residuals(profile, None, every, functions, replicates=1500, seed=0)
    assert part.n_redrawn == 1000 < full.n_redrawn
    np.testing.assert_allclose(part.observed, full.observed)
    # 1,000 rows and 1,500 replicates: 2% each and more for x², within four of these.
    np.testing.assert_allclose(part.null.std(axis=0), full.null.std(axis=0), rtol=0.15)


def test_parameters_of_other_rows_move_to_these():
    profile, x = fitted_profile(n=400, seed=7)
    half = profile.take(np.flatnonzero(np.arange(x.size) % 2 == 0))
    functions = functions_of(x[::2], x[::2] ** 2)
    every = np.ones(3, dtype=bool)
    asis = sum_residuals(half, None, every, functions, replicates=19, seed=0)
    moved = sum_residuals(half, None, every, functions, replicates=19, seed=0, refit=True)
    # The mean of x is what a fit to these rows would take up.
    assert np.abs(moved.observed[:, 0]).max() < 1e-3 < np.abs(asis.observed[:, 0]).max()
