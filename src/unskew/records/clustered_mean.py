"""Weighted means whose errors take the weights as given: Kish's effective number, and clusters."""

from __future__ import annotations

import math

import numpy as np
import scipy

from unskew.records.arrays import Floats, Ints
from unskew.records.weights import Estimate

LEVEL = 0.95


def plain_mean(weight_n: Floats, value_n: Floats, unit_n: Ints, level: float = LEVEL) -> Estimate:
    """Estimate the mean μ̂ = Σ_i w_i v_i, with an error that takes the weights as given.

    Its variance is Σ_u (Σ_{i in u} w_i (v_i − μ̂))² over the m units, times m/(m − 1). ``weight_n``
    sums to 1. That weights are estimated is not part of it.
    """
    mean = float(weight_n @ value_n)
    pull_u = np.bincount(unit_n, weights=weight_n * (value_n - mean))
    used = int(np.count_nonzero(np.bincount(unit_n, weights=weight_n)))
    if used < 2:
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    stderr = math.sqrt(float(pull_u @ pull_u) * used / (used - 1))
    half = stderr * float(scipy.special.stdtrit(used - 1, 0.5 + level / 2))
    return Estimate(mean, stderr, (mean - half, mean + half), level)


def effective_size(weight_n: Floats) -> float:
    """Compute Kish's (Σ_i w_i)²/Σ_i w_i²: between 1 and n, equal to n iff all weights are equal.

    It is 0 if all weights are 0. Scaling changes nothing.
    """
    largest = float(weight_n.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # Relative to the largest, so that squares of tiny weights do not underflow.
    scaled_n = weight_n / largest
    return float(scaled_n.sum() ** 2 / np.square(scaled_n).sum())
