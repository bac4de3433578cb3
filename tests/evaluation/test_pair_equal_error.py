"""The equal error rate of pairs against a closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from unskew import evaluate_pairs


def test_the_equal_error_rate_of_two_normal_distributions() -> None:
    n, d = 4_000, 2.4
    at = (np.arange(n) + 0.5) / n
    quantile = scipy.stats.norm.ppf(at)
    table = pd.DataFrame({"id": np.arange(4 * n), "sample_weight": 1.0})
    pairs = pd.DataFrame(
        {
            "id_a": np.arange(2 * n),
            "id_b": np.arange(2 * n, 4 * n),
            "same": np.repeat([True, False], n),
            "score": np.concatenate([quantile + d, quantile]),
        }
    )
    result = evaluate_pairs(table, pairs, roc=False, thresholds=(d / 2,))
    # Quantiles of n equal steps: the rates are right to 1/n.
    truth = scipy.stats.norm.cdf(-d / 2)
    assert result.overall.equal_error.value == pytest.approx(truth, abs=1 / n)
    # Independent pairs: the standard error of one rate is binomial, that of the mean of two is
    # smaller by √2 (equal slopes).
    binomial = np.sqrt(truth * (1 - truth) / n)
    assert result.overall.points[0].fmr.stderr == pytest.approx(binomial, rel=0.01)
    assert result.overall.equal_error.stderr == pytest.approx(binomial / np.sqrt(2), rel=0.01)
