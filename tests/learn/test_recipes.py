"""What baselines do besides their weights."""

from __future__ import annotations

import numpy as np

from unskew.learn.recipes import Recipe, after_training


def test_only_logit_adjustment_moves_logits_after_training() -> None:
    offset_m = np.array([0.5, np.inf])
    assert after_training(None) is after_training(Recipe()) is None
    assert after_training(Recipe("posthoc", offset_m)) == {"scale": 1.0, "bias": [-0.5, -np.inf]}


def test_recipes_are_told_apart() -> None:
    recipes = [Recipe(), Recipe("posthoc", np.zeros(2)), Recipe("posthoc", np.ones(2))]
    assert len({recipe.fingerprint() for recipe in recipes}) == 3
    assert Recipe("posthoc", np.ones(2)).fingerprint() == recipes[2].fingerprint()
