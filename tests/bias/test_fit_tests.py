"""p-values of combined statistics are right whatever the statistics' dependence."""

import numpy as np
import pytest

from unskew import Pool, Target, bias, check_fit, debias
from unskew.bias.fit_tests import Statistic, smallest_p
from unskew.bias.redrawn_sources import sum_residuals


def test_the_p_value_counts_the_replicates_that_are_as_large():
    assert Statistic(2.0, np.array([0.0, 1.0, 2.0, 3.0])).p_value == 3 / 5


def test_one_statistic_is_itself():
    one = Statistic(1.0, np.arange(5.0))
    assert smallest_p([one]) is one


@pytest.mark.parametrize("correlation", [0.0, 1.0])
def test_the_smallest_p_value_has_a_uniform_p_value(correlation):
    rng = np.random.default_rng(0)
    p = []
    for _ in range(400):
        first = rng.normal(size=200)
        second = correlation * first + (1 - correlation) * rng.normal(size=200)
        parts = [Statistic(value[0], value[1:]) for value in (first, second)]
        p.append(smallest_p(parts).p_value)
    # Within three binomial standard deviations of 400.
    assert np.mean(np.array(p) <= 0.1) == pytest.approx(0.1, abs=3 * 0.015)
    assert np.mean(np.array(p) <= 0.5) == pytest.approx(0.5, abs=3 * 0.025)


def test_scales_do_not_matter():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 100))
    plain = smallest_p([Statistic(2.0, first), Statistic(1.0, second)])
    scaled = smallest_p([Statistic(2e6, 1e6 * first), Statistic(1.0, second)])
    assert plain.p_value == scaled.p_value


def test_scales_are_those_of_the_replicates_and_the_data_together():
    one = Statistic(3.0, np.random.default_rng(2).exponential(size=500))
    every = np.append(one.standardised.null, one.standardised.observed)
    assert (every.mean(), every.std()) == pytest.approx((0.0, 1.0))
    assert np.append(one.relative.null, one.relative.observed).mean() == pytest.approx(1.0)


@pytest.mark.slow
def test_the_largest_of_many_is_not_too_large_for_its_scale():
    """Of 500 statistics, each with a scale of its own from 99 replicates, the largest."""
    rng = np.random.default_rng(3)
    p = []
    for _ in range(200):
        value = rng.normal(size=(500, 100)) ** 2
        largest = [Statistic(row[0], row[1:]).standardised for row in value]
        observed = max(one.observed for one in largest)
        p.append(Statistic(observed, np.max([one.null for one in largest], axis=0)).p_value)
    # 5%, within three binomial standard deviations of 200.
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=3 * 0.0155)


def strata_of_two_sources():
    rng = np.random.default_rng(2)
    label_n = rng.integers(4, size=300)
    source_n = np.where(rng.random(300) < 0.2 + 0.2 * label_n, "a", "b")
    pool = Pool.from_arrays(source_n, np.array(list("wxyz"))[label_n], x=rng.normal(size=300))
    weights = debias(pool, bias.Strata("label"), Target.uniform("label"))
    return pool, weights, np.eye(4, dtype=np.float32)[label_n]


def test_sums_over_strata_vanish_for_strata_alone_so_that_they_need_no_test():
    pool, weights, indicator_nt = strata_of_two_sources()
    profile = weights.estimation.fitted.profile
    sums = sum_residuals(
        profile, None, np.ones(2, dtype=bool), lambda at: indicator_nt[at], replicates=19, seed=0
    )
    # Rounding of sums of 300 numbers below 1, in doubles and in singles.
    assert np.abs(sums.observed).max() < 1e-11
    assert np.abs(sums.null).max() < 1e-3
    check = check_fit(pool, None, weights=weights, features=["label"])
    assert np.isnan(check.p_value)
    assert check.n_redrawn == 0


def test_a_column_that_varies_within_strata_is_tested():
    pool, weights, _ = strata_of_two_sources()
    check = check_fit(pool, None, weights=weights, features=["label", "x"], replicates=99)
    assert 0 < check.p_value <= 1
    assert check.n_redrawn == len(pool)


def test_omega_of_strata_is_read_as_the_matrix_that_it_stands_for():
    _, weights, _ = strata_of_two_sources()
    profile = weights.estimation.fitted.profile
    log_nk, at = np.asarray(profile.log_omega), np.array([5, 0, 299])
    assert profile.log_omega.shape == log_nk.shape == (300, 2)
    np.testing.assert_array_equal(profile.log_omega[at], log_nk[at])
    np.testing.assert_array_equal(profile.log_omega[:10, :1], log_nk[:10, :1])
    np.testing.assert_array_equal(profile.log_omega[:, 1], log_nk[:, 1])
    taken = profile.take(np.arange(300))
    np.testing.assert_allclose(profile.memberships(at), taken.memberships(at), rtol=1e-14)
