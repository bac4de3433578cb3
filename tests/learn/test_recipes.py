"""What baselines do besides their weights."""

from __future__ import annotations

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn.recipes import Recipe, after_training, check_probe_recipe

OFFSET = np.array([0.5, -0.5, np.inf])


def test_only_logit_adjustment_moves_logits_after_training() -> None:
    assert after_training(None) is after_training(Recipe()) is None
    assert after_training(Recipe("posthoc", OFFSET)) == {
        "scale": 1.0,
        "bias": [-0.5, 0.5, -np.inf],
        "factor": None,
        "spread": None,
    }
    assert after_training(Recipe("loss", OFFSET[:2])) is None
    # A class that the target does not have is never predicted.
    assert after_training(Recipe("deferred", OFFSET)) == {
        "scale": 1.0,
        "bias": [0, 0, -np.inf],
        "factor": None,
        "spread": None,
    }


def test_classes_get_their_target_shares() -> None:
    label_n = np.array([0, 0, 0, 1, 2])
    offset_m = np.log(np.array([0.6, 0.2, 0.2]) / np.array([0.25, 0.75, 0.0001]))
    weight_n = Recipe("deferred", offset_m).class_weight(label_n)
    assert np.bincount(label_n, weights=weight_n) == pytest.approx(5 * np.array([0.25, 0.75, 1e-4]))
    assert Recipe("deferred", OFFSET).class_weight(np.array([2]))[0] == 0
    assert (Recipe().class_weight(label_n) == 1).all()


def test_only_the_loss_shifts_logits_in_training() -> None:
    assert Recipe("loss", OFFSET).offset_after is None
    assert np.isfinite(Recipe("posthoc", OFFSET).offset_after).all()  # type: ignore[arg-type]
    assert Recipe("posthoc", OFFSET).training_shift is None
    assert Recipe("loss", OFFSET).training_shift.tolist() == [0.5, -0.5, 0.0]


def test_recipes_are_told_apart() -> None:
    one = np.ones(2)
    recipes = [
        Recipe(),
        Recipe("posthoc", 0 * one),
        Recipe("posthoc", one),
        Recipe("loss", one),
        Recipe("loss", one, one),
    ]
    assert len({recipe.fingerprint() for recipe in recipes}) == len(recipes)
    assert Recipe("posthoc", np.ones(2)).fingerprint() == recipes[2].fingerprint()


def test_a_probe_has_neither_epochs_nor_factors() -> None:
    for recipe in (None, Recipe(), Recipe("loss", OFFSET), Recipe("retrained", OFFSET)):
        check_probe_recipe(recipe)
    with refused(ConfigError, option="recipe", value="deferred"):
        check_probe_recipe(Recipe("deferred", OFFSET))
    with refused(ConfigError, option="recipe", value="loss"):
        check_probe_recipe(Recipe("loss", OFFSET, np.ones(3)))
