"""How often images are drawn: expectations, variances, distributions, and what must never
happen.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn.sampling.sampling_schemes import (
    SystematicPlan,
    inclusion_probabilities,
    plan_draws,
)

WEIGHT = np.array([0.5, 0.0, 3.25, 1.0, 0.125, 2.0, 0.0, 7.3, 0.01, 1.0])


def _counts(plan, n: int, epochs: int, seed: int = 0) -> np.ndarray:
    """(epochs, n) how often each image was drawn."""
    return np.array(
        [
            np.bincount(plan.draw(np.random.default_rng([seed, epoch])), minlength=n)
            for epoch in range(epochs)
        ]
    )


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.integers(0, 2**40) | st.integers(0, 5), min_size=1, max_size=40).filter(
        any
    ),
    size=st.integers(1, 200),
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1.0, 3.0, 1e-300, 1e290]),
)
def test_systematic_counts_are_the_expected_ones_rounded_down_or_up(
    weights, size: int, seed: int, scale: float
) -> None:
    """⌊mπ_i⌋ and ⌈mπ_i⌉ in rational arithmetic: whole numbers are met exactly; the total is m; zero
    weights are not drawn.
    """
    plan = plan_draws(np.array(weights, dtype=float) * scale, size)
    count = np.bincount(plan.draw(np.random.default_rng(seed)), minlength=len(weights))
    assert count.sum() == size
    for drawn, weight in zip(count.tolist(), weights, strict=True):
        expected = Fraction(size * weight, sum(weights))
        assert expected.__floor__() <= drawn <= expected.__ceil__()


@pytest.mark.parametrize("n", [3, 10, 7**5, 10**6])
def test_equal_weights_show_every_image_once(n: int) -> None:
    """m·(1/n)/Σ(1/n) is 1 only up to rounding: 0.1 is no binary fraction, and a sum of a million of
    them is off.
    """
    for weight in (0.1, 1 / 3, 1e-9):
        drawn = plan_draws(np.full(n, weight), n).draw(np.random.default_rng(0))
        assert np.array_equal(np.sort(drawn), np.arange(n))


def test_systematic_counts_have_their_expectation_and_variance() -> None:
    """Mean mπ_i; variance f(1 − f), f the fraction of mπ_i: at most 1/4, against mπ_i(1 − π_i) of
    multinomial draws.
    """
    size, epochs = 7, 6_000
    expected = size * WEIGHT / WEIGHT.sum()
    fraction = expected - np.floor(expected)
    count = _counts(plan_draws(WEIGHT, size), WEIGHT.size, epochs)
    variance = fraction * (1 - fraction)
    # Five standard errors of a mean of 0-1 variables; and of their variance, f(1 − f) seen through
    # an estimated f.
    assert np.all(np.abs(count.mean(0) - expected) <= 5 * np.sqrt(variance / epochs))
    assert np.all(
        np.abs(count.var(0) - variance)
        <= 5 * np.abs(1 - 2 * fraction) * np.sqrt(variance / epochs) + 25 / epochs
    )


def test_multinomial_counts_have_their_expectation_and_variance() -> None:
    size, epochs = 7, 6_000
    share = WEIGHT / WEIGHT.sum()
    count = _counts(plan_draws(WEIGHT, size, "multinomial"), WEIGHT.size, epochs)
    variance = size * share * (1 - share)
    assert np.all(np.abs(count.mean(0) - size * share) <= 5 * np.sqrt(variance / epochs))
    # The variance of a sample variance is (μ₄ − σ⁴)/epochs.
    fourth = np.array([stats.binom.stats(size, p, moments="k") for p in share[share > 0]]) + 3
    error = np.sqrt((fourth - 1) / epochs) * variance[share > 0]
    assert np.all(np.abs(count.var(0)[share > 0] - variance[share > 0]) <= 5 * error)


def test_multinomial_draws_pass_a_chi_square_test_and_come_in_any_order() -> None:
    """One long draw, and the first two draws of many short ones, which must be independent."""
    positive = WEIGHT > 0
    share = WEIGHT[positive] / WEIGHT.sum()
    count = np.bincount(
        plan_draws(WEIGHT, 10**6, "multinomial").draw(np.random.default_rng(1)),
        minlength=WEIGHT.size,
    )
    assert stats.chisquare(count[positive], share * 10**6).pvalue > 1e-3
    plan = plan_draws(WEIGHT, 3, "multinomial")
    pairs = np.array([plan.draw(np.random.default_rng([2, epoch]))[:2] for epoch in range(6_000)])
    table = np.zeros((WEIGHT.size, WEIGHT.size))
    np.add.at(table, tuple(pairs.T), 1)
    expected = np.outer(share, share) * len(pairs)
    common = (
        expected >= 5
    )  # the usual condition of the chi-square approximation; the rest is one cell
    observed = table[np.ix_(positive, positive)]
    assert (
        stats.chisquare(
            [*observed[common], observed[~common].sum()],
            [*expected[common], expected[~common].sum()],
        ).pvalue
        > 1e-3
    )


@pytest.mark.parametrize("scheme", ["systematic", "multinomial"])
def test_zero_weights_are_never_drawn(scheme) -> None:
    """Neither at the edges, nor between, nor when nearly all are zero."""
    for positive in ([0], [99], [50], [0, 99], [1, 2, 97]):
        weight = np.zeros(100)
        weight[positive] = np.random.default_rng(0).exponential(size=len(positive)) * 1e-5
        plan = plan_draws(weight, 1000, scheme)
        for seed in range(20):
            assert set(plan.draw(np.random.default_rng(seed)).tolist()) <= set(positive)


def test_a_point_rounded_up_to_the_total_belongs_to_the_last_image_with_a_weight() -> None:
    class AtTheEnd(np.random.Generator):
        def standard_exponential(self, size):  # the last gap vanishes: the last point is the total
            return np.array([1.0] * (size - 1) + [0.0])

    drawn = plan_draws(np.array([1.0, 1.0, 0.0]), 4, "multinomial").draw(
        AtTheEnd(np.random.PCG64(0))
    )
    assert sorted(drawn.tolist()) == [0, 1, 1, 1]


def test_the_order_of_a_systematic_draw_is_shuffled_and_neighbours_are_not_tied() -> None:
    """Without the permutation before the draw, rows 0 and 1 (half a unit together) would never both
    be drawn.
    """
    plan = plan_draws(np.full(8, 0.25), 2)
    draws = np.array([plan.draw(np.random.default_rng(seed)) for seed in range(4000)])
    pairs = np.bincount(np.minimum(*draws.T) * 8 + np.maximum(*draws.T), minlength=64)
    pairs = pairs.reshape(8, 8)[np.triu_indices(8, 1)]
    assert pairs.min() > 0
    assert stats.chisquare(np.bincount(draws[:, 0], minlength=8)).pvalue > 1e-3


def test_draws_without_replacement_are_included_with_min_1_c_pi() -> None:
    size, epochs = 5, 6_000
    probability = inclusion_probabilities(WEIGHT, size)
    assert probability.sum() == pytest.approx(size, abs=1e-12)
    free = (probability > 0) & (probability < 1)
    factor = probability[free] / WEIGHT[free]
    np.testing.assert_allclose(factor, factor[0])
    assert np.all(WEIGHT[probability == 1] * factor[0] >= 1)
    count = _counts(plan_draws(WEIGHT, size, replacement=False), WEIGHT.size, epochs)
    assert count.max() == 1
    assert np.all(count.sum(1) == size)
    assert np.all(
        np.abs(count.mean(0) - probability) <= 5 * np.sqrt(probability * (1 - probability) / epochs)
    )


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.floats(1e-12, 1e12) | st.just(0.0), min_size=1, max_size=30).filter(any),
    data=st.data(),
)
def test_inclusion_probabilities_sum_to_the_size_whatever_the_weights(weights, data) -> None:
    weight = np.array(weights)
    size = data.draw(st.integers(1, int((weight > 0).sum())))
    probability = inclusion_probabilities(weight / weight.max(), size)
    assert probability.sum() == pytest.approx(size, rel=1e-9)
    assert np.all(probability[weight == 0] == 0)
    assert np.all((probability >= 0) & (probability <= 1))
    drawn = plan_draws(weight, size, replacement=False).draw(np.random.default_rng(0))
    assert len(set(drawn.tolist())) == drawn.size == size
    assert np.all(weight[drawn] > 0)


@pytest.mark.parametrize("off", [-0.4, 0.4])
def test_the_total_is_exact_even_where_rounding_moved_the_sum(off: float) -> None:
    """Forced: fractions that sum to 3.6 or 4.4 where 4 images are wanted; none is drawn twice, none
    is lost.
    """
    fraction = np.full(8, ((4 + off) / 8) * 2.0**64).astype(np.uint64)
    plan = SystematicPlan(whole=np.array([8, 8]), row=np.arange(8), fraction=fraction, size=6)
    for seed in range(50):
        count = np.bincount(plan.draw(np.random.default_rng(seed)), minlength=9)
        assert count.sum() == 6
        assert count[8] == 2
        assert count.max() <= 2
        assert count[:8].max() <= 1


@pytest.mark.parametrize("n", [10**6, pytest.param(2**24 + 3, marks=pytest.mark.slow)])
def test_many_images_among_them_some_of_tiny_weight(n: int) -> None:
    """torch's sampler refuses more than 2²⁴; here the total is exact and every count rounded down
    or up.
    """
    weight = np.full(n, 0.1)
    weight[:1000] = 1e-12
    weight[-1] = 1000.0
    drawn = plan_draws(weight, n).draw(np.random.default_rng(0))
    count = np.bincount(drawn, minlength=n)
    expected = n * weight / weight.sum()
    assert drawn.size == n
    assert np.all((count >= np.floor(expected)) & (count <= np.ceil(expected)))


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"scheme": "multinomal"}, {"option": "scheme", "value": "multinomal"}),
        ({"size": 0}, {"option": "size", "value": 0}),
        ({"size": 2.5}, {"option": "size", "value": 2.5}),
        ({"size": True}, {"option": "size", "value": True}),
        ({"scheme": "multinomial", "replacement": False}, {"option": "scheme"}),
    ],
)
def test_wrong_options_are_refused(options, facts) -> None:
    with refused(ConfigError, **facts):
        plan_draws(WEIGHT, **{"size": 4, **options})


def test_more_images_than_there_are_cannot_be_drawn_without_replacement() -> None:
    with refused(DataError, option="size", value=9, limit=8):
        plan_draws(WEIGHT, 9, replacement=False)
