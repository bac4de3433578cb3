"""Which kinds of images are offered."""

from __future__ import annotations

import numpy as np
import pytest

import simulations as recipes
import unskew
from unskew.diagnosis.collectables import list_collectables
from unskew.diagnosis.expected_problem import expect_problem


def offered(weights: unskew.Weights) -> set[tuple[str, str]]:
    kinds = list_collectables(weights, expect_problem(weights, {}, {}))
    return {(kind.kind, kind.name) for kind in kinds}


SOURCES = {("every", ""), ("source", "a"), ("source", "b")}


@pytest.mark.parametrize(
    ("recipe", "others"),
    [
        (recipes.known, {("target", "target")}),
        (recipes.tilt, {("sample", "target sample")}),
        (recipes.strata, {("stratum", f"label = {c}") for c in "abc"} | {("target", "target")}),
        # A new source would need an ω that a Tilt does not know.
        (recipes.strata_tilt, {("stratum", f"label = {c}") for c in "ab"}),
    ],
)
def test_kinds_by_model(recipe: recipes.Recipe, others: set[tuple[str, str]]) -> None:
    kinds = offered(recipe(np.random.default_rng(0)).debias())
    assert {kind for kind in kinds if kind[0] != "source"} - {("every", "")} == others
    assert kinds >= SOURCES


def test_classes_of_the_target_where_omega_is_given() -> None:
    x = np.random.default_rng(0).normal(size=60)
    pool = recipes.make_pool(np.repeat([0, 1], 30), x=x, label=np.where(x > 0, "up", "down"))
    kinds = offered(unskew.debias(pool, unskew.bias.Known(np.exp(x[:, None] * [0.3, -0.3]))))
    assert {("class", "label = up"), ("class", "label = down")} <= kinds


def test_a_model_without_derivatives_tells_of_everything_together_only() -> None:
    x = np.random.default_rng(0).uniform(size=200)
    pool = recipes.make_pool(np.repeat([0, 1], 100), x=x)
    model = unskew.bias.Box(["x"], quantile=0.05)
    assert offered(unskew.debias(pool, model)) == {("every", "")}
