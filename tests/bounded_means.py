"""Weights and values whose mean is bounded, and the bound by brute force."""

import itertools

import numpy as np


def weights_and_values(seed, n):
    rng = np.random.default_rng(seed)
    return rng.gamma(0.5, size=n), rng.normal(size=n)


def brute_force_range(weight_n, value_n, factor):
    """(low, high) over the 2^n choices of c in {1, Γ}."""
    means = []
    for ratio in itertools.product([1.0, factor], repeat=len(weight_n)):
        changed = np.asarray(weight_n) / np.asarray(ratio)
        means.append(float(changed @ value_n / changed.sum()))
    return min(means), max(means)
