"""The fit of a bias model: factors in turn, strata by strata, rivals."""

from __future__ import annotations

import numpy as np
import pytest

from mixed_sources import MARGIN, MASS, mixed_pool
from unskew import debias, debias_weights
from unskew.bias import Known, Product, Strata, Tilt


def test_two_tilts_are_one_and_factors_fitted_in_turn_reach_the_same_maximum():
    pool = mixed_pool(2)
    one = debias(pool, Tilt(["x", "y"], reference="c"))
    merged = Product(Tilt(["x"], reference="c"), Tilt(["y"], reference="c"))
    assert len(merged.parts) == 1
    np.testing.assert_allclose(debias(pool, merged).weight, one.weight, rtol=1e-9)
    in_turn = Product(Tilt(["x"], reference="c"), Tilt(["y"], reference="c", ridge=1e-6))
    assert len(in_turn.parts) == 2
    weights = debias(pool, in_turn)
    np.testing.assert_allclose(weights.weight, one.weight, rtol=1e-3)
    assert weights.mean(pool.frame["y"]).stderr == pytest.approx(
        one.mean(pool.frame["y"]).stderr, rel=1e-3
    )


def test_strata_times_known_is_solved_stratum_by_stratum():
    pool = mixed_pool(3)
    omega = np.exp(np.random.default_rng(0).normal(size=(400, 3)))
    weights = debias(pool, Product(Strata("label"), Known(omega)), MARGIN)
    for label, mass in MASS.items():
        at = np.flatnonzero(pool.frame["label"] == label)
        np.testing.assert_allclose(
            weights.weight[at], mass * debias_weights(omega[at], pool.source[at]).weight, rtol=1e-7
        )
