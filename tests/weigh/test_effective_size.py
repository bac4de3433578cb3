"""Facts about effective sample size, shares and the tail of the weights."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import unskew
from unskew.weigh.effective_size import (
    diagnose_weights,
    effective_size,
    fit_pareto_k,
    pareto_k_threshold,
)

positive = st.floats(1e-6, 1e6)


def tilted(n_k=(40, 60, 80), group=None, seed=0):
    """Three Gaussian sources and their weights."""
    rng = np.random.default_rng(seed)
    theta_k = np.array([-0.7, 0.0, 0.8])
    source_n = np.repeat(np.arange(3), n_k)
    z_n = theta_k[source_n] + rng.standard_normal(source_n.size)
    return unskew.debias_weights(np.exp(np.outer(z_n, theta_k)), source_n, group=group)


def test_equal_weights_lose_nothing():
    weights = unskew.debias_weights(np.ones((300, 2)), np.arange(300) % 2, group=np.arange(300))
    diagnosis = weights.diagnosis
    assert diagnosis.ess == pytest.approx(300, rel=1e-12)
    assert diagnosis.design_effect == pytest.approx(1, rel=1e-12)
    assert diagnosis.ess_groups == pytest.approx(300, rel=1e-12)
    assert diagnosis.pareto_k == -math.inf
    assert diagnosis.tail_ok is True
    assert diagnosis.largest_sample_weight == pytest.approx(1, rel=1e-12)
    assert diagnosis.top_percent_share == pytest.approx(3 / 300, rel=1e-12)
    assert [source.share for source in diagnosis.by_source] == [0.5, 0.5]


@given(arrays(float, st.integers(1, 50), elements=positive))
def test_effective_size_lies_between_one_and_n(weight_n):
    ess = effective_size(weight_n)
    assert 1 - 1e-12 <= ess <= weight_n.size * (1 + 1e-12)
    assert effective_size(weight_n * 1e-200) == pytest.approx(ess, rel=1e-12)
    assert effective_size(np.repeat(weight_n, 2)) == pytest.approx(2 * ess, rel=1e-12)
    assert effective_size(np.append(weight_n, 0.0)) == pytest.approx(ess, rel=1e-12)


def test_effective_size_of_m_equal_weights_is_m():
    assert effective_size(np.array([0.0, 0.25, 0.25, 0.25, 0.25])) == pytest.approx(4, rel=1e-15)
    assert effective_size(np.zeros(3)) == 0.0


def test_sources_add_up_to_the_whole():
    group_n = np.arange(180) // 4
    weights = tilted(group=group_n)
    diagnosis = diagnose_weights(weights)
    assert diagnosis.ess == weights.ess
    assert sum(source.weight_share for source in diagnosis.by_source) == pytest.approx(1, rel=1e-12)
    assert sum(source.share for source in diagnosis.by_source) == pytest.approx(1, rel=1e-12)
    assert [source.images for source in diagnosis.by_source] == [40, 60, 80]
    # Σ_i π_i² adds up over sources: 1/ess = Σ_k (weight share of k)²/ess_k.
    assert 1 / diagnosis.ess == pytest.approx(
        sum(s.weight_share**2 / s.ess for s in diagnosis.by_source), rel=1e-12
    )
    # The groups nest in the sources here, so the same holds for groups.
    assert 1 / diagnosis.ess_groups == pytest.approx(
        sum(s.weight_share**2 / s.ess_groups for s in diagnosis.by_source), rel=1e-12
    )
    assert [source.groups for source in diagnosis.by_source] == [10, 15, 20]
    assert diagnosis.design_effect_groups == pytest.approx(45 / diagnosis.ess_groups, rel=1e-12)


def test_group_sizes_follow_the_weights():
    alone = tilted(group=np.arange(180)).diagnosis
    assert alone.ess_groups == pytest.approx(alone.ess, rel=1e-12)
    together = tilted(group=np.zeros(180, dtype=int)).diagnosis
    assert together.ess_groups == pytest.approx(1, rel=1e-12)
    assert [source.ess_groups for source in together.by_source] == pytest.approx(
        [1, 1, 1], rel=1e-12
    )
    spanning = tilted(group=np.arange(180) % 7).diagnosis
    assert spanning.groups == 7
    assert [source.groups for source in spanning.by_source] == [7, 7, 7]
    assert tilted().diagnosis.ess_groups is None


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.8, 1.2])
def test_pareto_k_recovers_the_shape_of_pareto_draws(shape):
    n, repetitions = 20_000, 40
    rng = np.random.default_rng(5)
    draws = scipy.stats.genpareto.rvs(shape, size=(repetitions, n), random_state=rng)
    estimates = [fit_pareto_k(draw_n) for draw_n in draws]
    n_tail = math.ceil(3 * math.sqrt(n))
    # The prior pulls towards 0.5 with ten observations out of the tail's; the asymptotic sd is (1 +
    # k)/√M. Four of its standard errors.
    expected = (n_tail * shape + 5) / (n_tail + 10)
    assert np.mean(estimates) == pytest.approx(
        expected, abs=4 * (1 + shape) / math.sqrt(n_tail * repetitions)
    )


def test_pareto_k_agrees_with_maximum_likelihood_on_a_long_tail():
    draw_n = scipy.stats.genpareto.rvs(0.6, size=400_000, random_state=np.random.default_rng(2))
    n_tail = math.ceil(3 * math.sqrt(draw_n.size))
    sorted_n = np.sort(draw_n)
    shape, _, _ = scipy.stats.genpareto.fit(sorted_n[-n_tail:] - sorted_n[-n_tail - 1], floc=0)
    # Both are consistent for the same shape, and differ by the prior (10 of 1,898 observations) and
    # terms of order 1/M.
    assert fit_pareto_k(draw_n) == pytest.approx(shape, abs=0.01)


def test_pareto_k_of_fixed_draws():
    # What the generalized Pareto fit of arviz-stats 0.8.0 (array_stats._gpdfit) gives for the same
    # exceedances.
    weight_n = np.exp(1.5 * np.random.default_rng(11).standard_normal(2_000))
    assert fit_pareto_k(weight_n) == pytest.approx(0.4737889680671392, abs=1e-10)
    weight_n = 1 / np.random.default_rng(12).random(500)
    assert fit_pareto_k(weight_n) == pytest.approx(1.0827361198167298, abs=1e-10)


@given(arrays(float, st.integers(21, 80), elements=st.sampled_from([1.0, 1.5, 2.0, 7.0, 1e3])))
def test_tied_weights_give_a_number_or_an_honest_none(weight_n):
    shape = fit_pareto_k(weight_n)
    assert shape is None or shape == -math.inf or math.isfinite(shape)
    assert fit_pareto_k(weight_n * 2.0**-30) == shape


def test_tail_that_cannot_be_judged():
    rng = np.random.default_rng(0)
    assert fit_pareto_k(rng.random(20)) is None
    assert fit_pareto_k(np.append(np.ones(99), 1e6)) is None
    assert fit_pareto_k(np.append(np.zeros(99), 1.0)) is None
    assert fit_pareto_k(np.ones(100)) == -math.inf
    # Equal up to the accuracy of the solver.
    assert fit_pareto_k(np.ones(100) + 1e-11 * rng.random(100)) == -math.inf
    # Hundreds of decades.
    assert fit_pareto_k(np.exp(200 * rng.standard_normal(1000))) > 0.7


def test_threshold_depends_on_the_number_of_images():
    assert pareto_k_threshold(100) == pytest.approx(0.5)
    assert pareto_k_threshold(1000) == pytest.approx(2 / 3)
    assert pareto_k_threshold(10**6) == 0.7
    assert pareto_k_threshold(1) == pareto_k_threshold(10) == 0.0
    diagnosis = tilted().diagnosis
    assert diagnosis.pareto_k_limit == 0.7
    assert diagnosis.tail_ok == (diagnosis.pareto_k < diagnosis.pareto_k_threshold)


def test_a_single_image():
    diagnosis = unskew.debias_weights([[2.0]], [0]).diagnosis
    assert (
        diagnosis.ess,
        diagnosis.design_effect,
        diagnosis.pareto_k,
        diagnosis.top_percent_share,
    ) == (1.0, 1.0, None, 1.0)
    assert diagnosis.tail_ok is None


def test_a_failed_solve_has_no_effective_size():
    diagnosis = unskew.debias_weights(
        np.eye(2)[[0, 0, 1, 1]], [0, 0, 1, 1], group=[0, 1, 2, 3], throw=False
    ).diagnosis
    assert math.isnan(diagnosis.ess)
    assert math.isnan(diagnosis.ess_groups)
    assert math.isnan(diagnosis.design_effect)
    assert math.isnan(diagnosis.top_percent_share)
    assert diagnosis.pareto_k is None
    assert all(
        math.isnan(value)
        for source in diagnosis.by_source
        for value in (source.ess, source.design_effect, source.weight_share)
    )
