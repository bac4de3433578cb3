"""What units add to means: squares add up to the variance that `weighted_mean` reports."""

from __future__ import annotations

import numpy as np
import pytest

import simulations as recipes
from unskew.weigh.unit_spread import unit_spreads

RECIPES = [
    (recipes.known, 0.0),
    (recipes.known_groups, 0.0),
    # Leverages of images, not of whole strata.
    (recipes.strata, 0.02),
    (recipes.strata_survey, 0.02),
    (recipes.tilt_small, 0.0),
    (recipes.tilt_groups, 0.0),
    (recipes.strata_tilt, 0.02),
    (recipes.box, 0.0),
]


@pytest.mark.parametrize(("recipe", "tolerance"), RECIPES)
def test_squares_add_up_to_the_variance(recipe, tolerance):
    data = recipe(np.random.default_rng(1))
    weights = data.debias()
    spread_uj, row_u = unit_spreads(weights, np.asarray(data.value, dtype=float)[:, None])
    own = float(np.linalg.norm(spread_uj))
    reported = weights.mean(data.value).stderr
    # The report takes the larger of this and a model-based variance.
    assert own <= reported * (1 + tolerance + 1e-9)
    assert own >= 0.9 * reported
    assert not row_u.any()


def test_spreads_are_linear_in_the_values():
    data = recipes.tilt_small(np.random.default_rng(2))
    weights = data.debias()
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(2, weights.weight.size))
    spread_uj, _ = unit_spreads(weights, np.column_stack([one, other, 2 * one - 3 * other]))
    assert spread_uj[:, 2] == pytest.approx(2 * spread_uj[:, 0] - 3 * spread_uj[:, 1], abs=1e-9)


def test_rows_of_the_targets_sample_have_the_variance_of_their_mean():
    data = recipes.tilt_small(np.random.default_rng(2))
    weights = data.debias()
    is_sample_r = weights.estimation.fitted.is_reference_r
    amount = np.random.default_rng(4).normal(size=is_sample_r.size)
    row_r = np.where(is_sample_r, amount, 0.0) / is_sample_r.sum()
    _, row_u = unit_spreads(weights, np.zeros((weights.weight.size, 1)), row_r)
    sample = amount[is_sample_r]
    assert row_u @ row_u == pytest.approx(sample.var(ddof=1) / sample.size, rel=1e-9)
