"""The variance of rates, against sums over pairs of pairs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from unskew.evaluation.pair_rates import PairSample, estimate_rate_errors, make_rates


def make_sample(units: int = 12) -> PairSample:
    rng = np.random.default_rng(0)
    low, high = np.triu_indices(units)  # the diagonal: one genuine pair of each unit
    score = rng.normal(size=low.size)
    weight = rng.exponential(size=low.size)
    return PairSample(score, low == high, weight, low, high, np.zeros(units, dtype=np.int64))


def variance_of(sample: PairSample, hit: np.ndarray, j: int) -> float:
    """Estimate the variance of a rate whose pairs err where ``hit`` says so."""
    genuine = sample.genuine
    scored = replace(sample, score=np.where(hit != genuine, 1.0, 0.0))
    errors = estimate_rate_errors(scored, [make_rates(scored, np.arange(hit.size))], 0.5)
    spread = errors.spread[:, j]
    return float(spread @ spread) - errors.twice[j, j]


def test_the_variance_is_the_sum_over_pairs_that_share_a_unit() -> None:
    """Of many units, each in few of the pairs, without corrections: ψᵀ 1[share a unit] ψ."""
    rng, n = np.random.default_rng(0), 4000
    first, second = rng.integers(0, 2000, n), rng.integers(2000, 4000, n)
    weight, stratum = rng.exponential(size=n), np.zeros(4000, dtype=np.int64)
    sample = PairSample(np.ones(n), np.zeros(n, dtype=np.bool_), weight, first, second, stratum)
    hit = rng.random(n) < np.where(first < 300, 0.6, 0.1)
    share = weight / weight.sum()
    psi = share * (hit - share @ hit)
    shared = (first[:, None] == first) | (second[:, None] == second)
    # Units are in 0.5 ‰ of the weight, typically.
    assert variance_of(sample, hit, 0) == pytest.approx(psi @ shared @ psi, rel=0.02)


@pytest.mark.parametrize("strata", [1, 2])
def test_where_all_are_compared_the_variance_of_few_units_is_unbiased(strata: int) -> None:
    """h_uv = a_u + a_v + e_uv: the expectation of a quadratic form in h, exactly."""
    units, of_unit, of_dyad = 8, 0.3, 1.0
    first, second = np.triu_indices(units, 1)
    n = first.size
    sample = PairSample(
        np.ones(n),
        np.zeros(n, dtype=np.bool_),
        np.ones(n),
        first,
        second,
        np.arange(units) % strata,
    )
    # The form's matrix, from its values at indicators of one and of two pairs.
    form = np.zeros((n, n))
    one = np.eye(n, dtype=np.bool_)
    for p in range(n):
        form[p, p] = variance_of(sample, one[p], 0)
    for p in range(n):
        for q in range(p):
            both = variance_of(sample, one[p] | one[q], 0)
            form[p, q] = form[q, p] = (both - form[p, p] - form[q, q]) / 2
    inside = ((first[:, None] == np.arange(units)) | (second[:, None] == np.arange(units))) * 1.0
    covariance = of_unit * inside @ inside.T + of_dyad * np.eye(n)
    assert np.trace(form @ covariance) == pytest.approx(covariance.sum() / n**2)


def test_unequal_persons_that_vary_alike_have_the_variance_of_their_weighted_mean() -> None:
    """Genuine pairs of a person err together: E of the variance is p (1 − p) Σ ℓ², exactly."""
    weight = np.array([8.0, 4.0, 2.0, 1.0, 1.0])
    units = np.arange(5)
    sample = PairSample(
        np.ones(5), np.ones(5, dtype=np.bool_), weight, units, units, np.zeros(5, dtype=np.int64)
    )
    cases = np.array(list(product((False, True), repeat=5)))
    chance = np.prod(np.where(cases, 0.2, 0.8), axis=1)
    mean = sum(part * variance_of(sample, hit, 1) for part, hit in zip(chance, cases, strict=True))
    share = weight / weight.sum()
    assert mean == pytest.approx(0.2 * 0.8 * (share @ share))


def test_genuine_pairs_of_equal_weight_have_the_variance_of_a_mean() -> None:
    sample = make_sample()
    sample = PairSample(
        sample.score,
        sample.genuine,
        np.ones(sample.score.size),
        sample.first,
        sample.second,
        sample.stratum,
    )
    rates = make_rates(sample, np.arange(sample.score.size))
    error = estimate_rate_errors(sample, [rates], 0.5).combine(np.array([0.0, 1.0]))
    below = sample.score[sample.genuine] < 0.5
    assert error.variance == pytest.approx(below.var(ddof=1) / below.size)
