"""The variance of rates, against sums over pairs of pairs."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.evaluation.pair_rates import PairSample, estimate_rate_errors, make_rates


def make_sample(units: int = 12) -> PairSample:
    rng = np.random.default_rng(0)
    low, high = np.triu_indices(units)  # the diagonal: one genuine pair of each unit
    score = rng.normal(size=low.size)
    weight = rng.exponential(size=low.size)
    return PairSample(score, low == high, weight, low, high, np.zeros(units, dtype=np.int64))


def test_the_variance_is_the_sum_over_pairs_that_share_a_unit() -> None:
    sample = make_sample()
    rates = make_rates(sample, np.arange(sample.score.size))
    errors = estimate_rate_errors(sample, [rates], 0.5)
    impostor = ~sample.genuine
    share = sample.weight[impostor] / sample.weight[impostor].sum()
    hit = sample.score[impostor] >= 0.5
    psi = share * (hit - share @ hit)
    first, second = sample.first[impostor], sample.second[impostor]
    inside = (first[:, None] == np.arange(12)) | (second[:, None] == np.arange(12))
    shared = (inside.astype(float) @ inside.T) > 0
    # Without the correction for leverage, 1/(1 − Σ_{p∋u} share)², it is ψᵀ 1[share a unit] ψ.
    leverage = share @ inside
    spread = errors.spread[:, 0] * (1.0 - leverage)
    assert float(spread @ spread) - errors.twice[0, 0] == pytest.approx(psi @ shared @ psi)


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
