"""Intervals of rates and of differences, in cases with a closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from unskew.evaluation.pair_intervals import (
    RateSpread,
    _extrapolate,
    follow_threshold,
    gap_interval,
    measure_rates,
)
from unskew.evaluation.pair_rates import PairSample, RateError, make_rates, sort_scores

NORMAL = 1.959963984540054


@pytest.mark.parametrize("errors", [0, 3, 40])
def test_the_interval_of_independent_pairs_is_wilsons(errors: int) -> None:
    expected = binomtest(errors, 40).proportion_ci(method="wilson")
    # At any base: the noise of 40 pairs in parts of p (1 − p).
    spread = RateSpread(RateError(0.0, 0.1 / 40, 1e9, 1e9), 0.1)
    interval = spread.interval(errors / 40, 0.95)
    assert interval == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_what_persons_share_varies_more_at_larger_rates() -> None:
    spread = RateSpread(RateError(1e-5, 2e-5, 1e9, 1e9), 0.01 * 0.99)
    low, high = spread.interval(0.01, 0.95)
    ratio = high * (1 - high) / (0.01 * 0.99)
    variance = 1e-5 * ratio**1.6 + 2e-5 * ratio
    assert high - 0.01 == pytest.approx(NORMAL * math.sqrt(variance), rel=1e-6)
    wilson = RateSpread(RateError(0.0, 3e-5, 1e9, 1e9), 0.01 * 0.99).interval(0.01, 0.95)
    assert low == pytest.approx(wilson[0])
    assert high > wilson[1]


def test_degrees_of_freedom_of_two_parts_are_satterthwaites() -> None:
    assert RateError(1.0, 1.0, 10.0, 10.0).freedom == pytest.approx(20.0)
    assert RateError(1.0, 0.0, 7.0, 99.0).freedom == pytest.approx(7.0)


def test_distances_of_a_gap_add_up_in_squares_less_what_is_shared() -> None:
    gap = gap_interval(0.5, (0.4, 0.6), 0.3, (0.2, 0.4), 0.0)
    assert gap == pytest.approx((0.2 - math.sqrt(0.02), 0.2 + math.sqrt(0.02)))
    shared = gap_interval(0.5, (0.4, 0.6), 0.3, (0.2, 0.4), 1.0)
    assert shared == pytest.approx((0.2, 0.2))


def sample_of(impostor: np.ndarray, genuine: np.ndarray) -> PairSample:
    """Impostor and genuine pairs, each of persons of its own."""
    score = np.concatenate([impostor, genuine])
    is_genuine = np.arange(score.size) >= impostor.size
    first = np.arange(score.size)
    second = np.where(is_genuine, first, first + score.size)
    ones, strata = np.ones(score.size), np.zeros(2 * score.size, dtype=np.int64)
    return PairSample(score, is_genuine, ones, first, second, strata)


def test_an_exponential_tail_is_extrapolated_exactly() -> None:
    share = (np.arange(20_000) + 0.5) / 20_000
    sample = sample_of(-np.log(share), np.array([9.0]))
    tail = sort_scores(sample, np.arange(20_000), sample.weight)
    # 80 scores are beyond the milder threshold; the mean excess of these quantiles is 1% short.
    assert _extrapolate(tail, math.log(1e3), 1e-5) == pytest.approx(math.log(1e5), rel=0.02)


def test_few_false_matches_leave_the_threshold_open_upwards() -> None:
    """Three of 3,000 impostor pairs reach it: FNMR may be that of a far higher threshold."""
    rng = np.random.default_rng(0)
    sample = sample_of(rng.normal(size=3000), rng.normal(3.0, 1.0, 400))
    cells = [make_rates(sample, np.arange(3400))]
    threshold = cells[0].threshold_at(1e-3)
    measured = measure_rates(sample, cells, threshold)
    fixed = measured.figures(cells, np.eye(2), None, 0.95)[1]
    row_jj = follow_threshold(cells, measured, 1e-3)
    chosen = measured.figures(cells, row_jj, 1e-3, 0.95)[1]
    assert chosen.value == fixed.value
    assert chosen.interval is not None
    assert fixed.interval is not None
    low, high = chosen.interval
    assert low < fixed.interval[0] < fixed.interval[1] < high
    # FNMR at the true threshold, 3.09.
    assert low < 0.536 < high
    assert high - low > 1.5 * (fixed.interval[1] - fixed.interval[0])


def test_an_unseen_heavy_error_widens_the_interval_and_equal_weights_do_not() -> None:
    """Equal weights: the noise stays v; else no less than v and half an error more, by hand."""
    impostor = np.linspace(0.0, 1.0, 1000)
    sample = sample_of(impostor, np.array([2.0, 3.0]))
    weight = np.where(np.arange(sample.score.size) < 10, 25.0, 1.0)  # low scores, no error
    rows = np.arange(sample.score.size)
    threshold = float(impostor[-8])
    equal = measure_rates(sample, [make_rates(sample, rows)], threshold)
    own = equal.errors.combine(np.array([1.0, 0.0])).of_dyads
    assert equal.steady[0].error.of_dyads == pytest.approx(own, rel=0.05)
    uneven = replace(sample, weight=weight)
    measured = measure_rates(uneven, [make_rates(uneven, rows)], threshold)
    share = weight[:1000] / weight[:1000].sum()
    y = measured.value[0]
    v = measured.errors.combine(np.array([1.0, 0.0])).of_dyads
    noise = y * (v + (1 - y) * (share**3).sum() / 2) / (y + (share**2).sum() / 2)
    assert noise > 2 * v
    assert measured.steady[0].error.of_dyads >= 0.9 * noise


def test_half_an_error_more_is_added_as_far_as_errors_are_few() -> None:
    """With 200 effective errors and more, nothing is unseen."""
    sample = sample_of(np.linspace(0.0, 1.0, 4000), np.array([2.0, 3.0]))
    sample = replace(sample, weight=np.where(np.arange(sample.score.size) < 10, 25.0, 1.0))
    cells = [make_rates(sample, np.arange(sample.score.size))]
    measured = measure_rates(sample, cells, float(sample.score[3600]))
    own = measured.errors.combine(np.array([1.0, 0.0]))
    assert measured.steady[0].error.of_dyads == pytest.approx(own.of_dyads)


@pytest.mark.parametrize(("threshold", "rate"), [(9.0, 1.0), (-9.0, 0.0)])
def test_a_rate_without_exception_is_known_by_the_pairs_behind_it(
    threshold: float, rate: float
) -> None:
    """400 of 400 genuine pairs fail, or none: Wilson's interval of 400."""
    sample = sample_of(np.zeros(10), np.random.default_rng(0).normal(size=400))
    measured = measure_rates(sample, [make_rates(sample, np.arange(410))], threshold)
    expected = binomtest(round(400 * rate), 400).proportion_ci(method="wilson")
    assert measured.figure(1, 0.95).interval == pytest.approx(
        (expected.low, expected.high), abs=0.002
    )


def test_scores_that_are_all_the_same_count_every_person_once() -> None:
    sample = sample_of(np.zeros(50), np.zeros(50))
    measured = measure_rates(sample, [make_rates(sample, np.arange(100))], 1.0)
    assert measured.figure(1, 0.95).interval == pytest.approx((0.92, 1.0), abs=0.02)
    # An impostor pair has two persons of its own.
    assert measured.figure(0, 0.95).interval == pytest.approx((0.0, 0.04), abs=0.02)
