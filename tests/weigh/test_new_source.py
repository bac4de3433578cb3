"""The spread between sources: against textbooks, brute force and its own invariances."""

import math

import numpy as np
import pytest
import scipy.stats

from unskew.weigh.new_source import SourceSpread, noncentral_p

ENOUGH = np.full(4, 1e12)
Y = np.array([0.2, 0.5, 0.1, 0.9])
S = np.diag([0.04, 0.02, 0.05, 0.03])


def test_two_sources_are_compared_as_welch_does() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(0.0, 1.0, 9), rng.normal(0.6, 2.0, 14)
    spread = SourceSpread(
        np.array([one.mean(), other.mean()]),
        np.diag([one.var(ddof=1) / 9, other.var(ddof=1) / 14]),
        np.array([8.0, 13.0]),
    )
    welch = scipy.stats.ttest_ind(one, other, equal_var=False).pvalue
    assert spread.p_value() == pytest.approx(welch, rel=1e-9)


def test_q_is_that_of_inverse_variance_weights() -> None:
    weight = 1.0 / np.diagonal(S)
    mean = weight @ Y / weight.sum()
    q = weight @ (Y - mean) ** 2
    spread = SourceSpread(Y, S, ENOUGH)
    assert spread.q(0.0) == pytest.approx(q, rel=1e-12)
    assert spread.p_value() == pytest.approx(scipy.stats.chi2.sf(q, 3), rel=1e-6)
    assert spread.mean() == pytest.approx((mean, 1 / math.sqrt(weight.sum())), rel=1e-9)


def test_an_error_common_to_all_sources_changes_no_contrast() -> None:
    one, other = SourceSpread(Y, S, ENOUGH), SourceSpread(Y, S + 0.7, ENOUGH)
    assert other.q(0.1) == pytest.approx(one.q(0.1), rel=1e-9)
    assert other.tau == pytest.approx(one.tau, rel=1e-6)
    assert other.mean()[1] == pytest.approx(math.hypot(one.mean()[1], math.sqrt(0.7)), rel=1e-6)


def test_tau_solves_the_equation_of_paule_and_mandel() -> None:
    spread = SourceSpread(Y, S, ENOUGH)
    assert spread.q(spread.tau) == pytest.approx(3.0, rel=1e-9)
    # Equal errors have a closed form: the variance of the estimates less that of sampling.
    equal = SourceSpread(Y, 0.01 * np.eye(4), ENOUGH)
    assert equal.tau**2 == pytest.approx(Y.var(ddof=1) - 0.01, rel=1e-9)
    assert SourceSpread(Y, 100 * S, ENOUGH).tau == 0.0


def test_the_interval_of_a_new_source_is_that_of_brute_force() -> None:
    spread, scale = SourceSpread(Y, S, ENOUGH), 0.4
    tau = np.linspace(0.0, 100 * scale, 200_001)
    weight = 1.0 / (np.diagonal(S) + tau[:, None] ** 2)
    mean = (weight @ Y) / weight.sum(axis=1)
    log = (
        scipy.stats.cauchy.logpdf(tau / scale)
        + 0.5 * np.log(weight).sum(axis=1)
        - 0.5 * np.log(weight.sum(axis=1))
        - 0.5 * (weight * (Y - mean[:, None]) ** 2).sum(axis=1)
    )
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    sd = np.sqrt(1.0 / weight.sum(axis=1) + tau**2)
    low, high = spread.predict(scale, 0.9)
    below = [float(mass @ scipy.stats.norm.cdf(end, mean, sd)) for end in (low, high)]
    # Quadrature with 400 nodes.
    assert below == pytest.approx([0.05, 0.95], abs=2e-4)


def test_a_prior_without_spread_gives_the_interval_of_the_mean() -> None:
    spread = SourceSpread(Y, S, ENOUGH)
    mean, stderr = spread.mean()
    reach = 1.959963984540054 * stderr
    assert spread.predict(1e-6, 0.95) == pytest.approx((mean - reach, mean + reach), rel=1e-5)


def test_shift_and_unit_change_nothing_else() -> None:
    low, high = SourceSpread(Y, S, ENOUGH).predict(0.5, 0.95)
    moved = SourceSpread(3.0 + 10 * Y, 100 * S, ENOUGH).predict(5.0, 0.95)
    assert moved == pytest.approx((3.0 + 10 * low, 3.0 + 10 * high), rel=1e-9)


def test_estimates_without_any_error_are_fine() -> None:
    spread = SourceSpread(Y, np.zeros((4, 4)), ENOUGH)
    assert spread.p_value() == 0.0
    assert spread.tau == pytest.approx(Y.std(ddof=1), rel=1e-6)
    assert np.isfinite(spread.predict(1.0, 0.95)).all()


def test_a_source_is_left_out() -> None:
    rest = SourceSpread(Y, S, ENOUGH).without(1)
    assert rest.y.tolist() == [0.2, 0.1, 0.9]
    assert np.diagonal(rest.covariance).tolist() == [0.04, 0.05, 0.03]


def test_a_difference_is_compared_with_the_margin() -> None:
    apart = SourceSpread(np.array([0.0, 0.3]), 1e-6 * np.eye(2), np.full(2, 1e12))
    # Two sources 0.3 apart have a standard deviation of 0.21.
    assert apart.p_value(0.2) < 1e-6
    assert apart.p_value(0.22) > 0.999
    few = SourceSpread(np.array([0.0, 0.3]), 0.01 * np.eye(2), np.full(2, 20.0))
    assert few.p_value() < few.p_value(0.05) < few.p_value(0.2) < 1.0


@pytest.mark.parametrize("apart", [1.0, 50.0, 9_900.0, 10_100.0])
def test_the_noncentral_distribution_is_that_of_scipy(apart: float) -> None:
    for q in (apart * 0.9, apart + 3.0, apart * 1.1 + 5.0):
        exact = scipy.stats.ncx2.sf(q, 4, apart)
        # Beyond 10,000 the square root is taken as normal.
        assert noncentral_p(q, 4, apart) == pytest.approx(exact, abs=3e-3)
