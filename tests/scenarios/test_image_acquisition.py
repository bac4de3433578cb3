"""The article's 4.3 on any table of features: bins, decay, draw and truth; and a source that hides
part of the population.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

import unskew
from raising import refused
from unskew.scenarios import acquisition
from unskew.scenarios.image_acquisition import soft_bins


def population(n: int = 4000, d: int = 3, seed: int = 0) -> np.ndarray:
    """Skewed and dependent, in [0, 1]."""
    rng = np.random.default_rng(seed)
    common = rng.uniform(size=(n, 1))
    return np.clip(0.7 * rng.beta(2, 4, size=(n, d)) + 0.3 * common, 0, 1)


def test_omega_is_one_in_the_bin_and_falls_with_the_distance() -> None:
    x = population(500)
    omega = soft_bins(x, decay=0.3)
    median = np.median(x, axis=0)
    upper = x > median
    own = upper @ np.array([4, 2, 1])
    assert np.all(omega[np.arange(500), own] == 1)
    for k in range(8):
        bits = np.array([(k >> 2) & 1, (k >> 1) & 1, k & 1], dtype=bool)
        projection = np.where(bits, np.maximum(x, median), np.minimum(x, median))
        expected = np.maximum(0, 1 - np.abs(x - projection).sum(axis=1) / 0.3)
        np.testing.assert_allclose(omega[:, k], expected, atol=1e-12)


def test_normalizers_are_population_means_and_draws_follow_omega() -> None:
    x = population()
    scenario = acquisition(x, decay=0.2, sizes=[3000] * 8, rng=1)
    omega = soft_bins(x, 0.2)
    np.testing.assert_allclose(scenario.normalizer, omega.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scenario.omega, omega[scenario.index], rtol=1e-12)
    for k in (0, 5):
        mean = (omega[:, k] / omega[:, k].sum()) @ x
        drawn = scenario.features[scenario.source == k]
        # Five standard errors of a mean of 3,000 draws.
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * drawn.std() / np.sqrt(3000))


def test_true_omega_brings_the_features_back_to_the_population() -> None:
    x = population()
    scenario = acquisition(
        x,
        decay=0.1,
        sizes=np.round(8000 * 0.75 ** np.arange(8) / np.sum(0.75 ** np.arange(8))).astype(int),
        rng=2,
    )
    weights = unskew.debias_weights(scenario.omega, scenario.source)
    for j in range(3):
        naive = wasserstein_distance(scenario.features[:, j], x[:, j])
        debiased = wasserstein_distance(scenario.features[:, j], x[:, j], u_weights=weights.weight)
        estimate = weights.mean(scenario.features[:, j])
        assert abs(estimate.value - scenario.target_mean["features"][j]) < 4 * estimate.stderr
        assert debiased < 0.5 * naive


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (
            lambda: acquisition(np.ones(4), decay=1, rng=0),
            {"option": "features", "value": [4]},
        ),
        (
            lambda: acquisition(np.full((4, 2), np.nan), decay=1, rng=0),
            {"option": "features", "value": [4, 2]},
        ),
        (lambda: acquisition(np.ones((4, 2)), decay=0, rng=0), {"option": "decay", "value": 0}),
        (
            lambda: acquisition(population(50), np.zeros(3), decay=1, rng=0),
            {"option": "label", "value": [3]},
        ),
        (
            lambda: acquisition(np.ones((9, 1)), decay=1, sizes=[1, 2, 3], rng=0),
            {"option": "sizes", "value": [1, 2, 3]},
        ),
    ],
)
def test_impossible_calls_are_refused(call, facts: dict[str, object]) -> None:
    with refused(unskew.ConfigError, **facts):
        call()
