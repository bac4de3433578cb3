"""Intervals of rates and of differences, in cases with a closed form."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binomtest

from unskew.evaluation.pair_intervals import count_interval, gap_interval, rate_interval
from unskew.evaluation.pair_rates import RateError

NORMAL = 1.959963984540054


@pytest.mark.parametrize("errors", [0, 3, 40])
def test_noise_of_counts_has_wilsons_interval(errors: int) -> None:
    expected = binomtest(errors, 40).proportion_ci(method="wilson")
    interval = count_interval(errors / 40, 40.0, NORMAL)
    assert interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_without_noise_of_dyads_the_interval_is_that_of_the_logit() -> None:
    low, high = rate_interval(0.1, RateError(4e-4, 0.0, 1e9, 1e9), 0.95)
    step = NORMAL * 0.02 / 0.09
    logit = math.log(0.1 / 0.9)
    assert low == pytest.approx(1 / (1 + math.exp(-(logit - step))), rel=1e-6)
    assert high == pytest.approx(1 / (1 + math.exp(-(logit + step))), rel=1e-6)


def test_distances_of_a_gap_add_up_in_squares_less_what_is_shared() -> None:
    gap = gap_interval(0.5, (0.4, 0.6), 0.3, (0.2, 0.4), 0.0)
    assert gap == pytest.approx((0.2 - math.sqrt(0.02), 0.2 + math.sqrt(0.02)))
    shared = gap_interval(0.5, (0.4, 0.6), 0.3, (0.2, 0.4), 1.0)
    assert shared == pytest.approx((0.2, 0.2))
