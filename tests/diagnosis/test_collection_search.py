"""The smallest collection and the cheapest mix."""

from __future__ import annotations

import numpy as np
import pytest

import simulations as recipes
import unskew
from unskew.diagnosis.advice_record import Goal
from unskew.diagnosis.collectables import list_collectables
from unskew.diagnosis.collection_search import CollectionSearch
from unskew.diagnosis.expected_problem import expect_problem

MASS, SPREAD, SIZE = np.array([0.5, 0.5]), np.array([1.0, 3.0]), np.array([40, 20])


def search_of(wanted: float) -> tuple[CollectionSearch, dict]:
    """Two strata with spreads 1 and 3 and 40 and 20 images."""
    label = np.repeat(["a", "b"], SIZE)
    value = np.concatenate([_spread(s, n) for s, n in zip(SPREAD, SIZE, strict=True)])
    pool = unskew.Pool.from_arrays(["s"] * 60, label=label)
    target = unskew.Target.margins({"label": {"a": 0.5, "b": 0.5}})
    weights = unskew.debias(pool, unskew.bias.Strata("label"), target)
    stderr = float(np.sqrt(np.sum(MASS**2 * SPREAD**2 / SIZE)))
    problem = expect_problem(weights, {"v": value}, {"v": stderr})
    kinds = {kind.name: kind for kind in list_collectables(weights, problem)}
    return CollectionSearch(problem, (Goal("stderr", "v", stderr, wanted),), 60.0), kinds


def _spread(sd: float, n: int) -> np.ndarray:
    """n values of exactly this standard deviation."""
    value = np.linspace(-1.0, 1.0, n)
    return sd * value / value.std(ddof=1)


def test_the_number_of_one_kind_is_the_smallest() -> None:
    search, kinds = search_of(0.25)
    option = search.option(kinds["label = b"], cost=2.0)
    # p² s²/(N + m) = wanted² − p² 1²/40
    needed = 0.25 * 9.0 / (0.25**2 - 0.25 / 40) - 20
    # Found to 0.2%, or one image.
    assert needed <= option.images <= needed * 1.003 + 2
    assert option.cost == 2.0 * option.images
    assert option.expected["standard error of v"] <= 0.25


def test_what_no_number_reaches_is_explained() -> None:
    search, kinds = search_of(0.25)
    option = search.option(kinds["label = a"], cost=1.0)
    assert option.images is None
    assert option.cost is None
    assert "50%" in option.reason
    # 0.25·9/20, whatever the first stratum has
    assert option.expected["standard error of v"] == pytest.approx(np.sqrt(0.1125), rel=1e-3)


def test_a_level_beyond_every_sensible_number_is_not_laid_to_other_sources() -> None:
    search, kinds = search_of(1e-6)
    option = search.option(kinds["s"], cost=1.0)
    assert option.images is None
    assert "600,000 images" in option.reason  # 10⁴ times the pool


@pytest.mark.parametrize("cost_b", [1.0, 4.0])
def test_the_mix_is_neymans(cost_b: float) -> None:
    search, kinds = search_of(0.12)
    costs = {kinds["label = a"]: 1.0, kinds["label = b"]: cost_b}
    cost_c = np.array([1.0, cost_b])
    # min Σ c_c N_c with Σ p² s²/N = wanted²: N ∝ p s/√c.
    total_c = MASS * SPREAD / np.sqrt(cost_c) * (MASS * SPREAD * np.sqrt(cost_c)).sum() / 0.12**2
    assert (total_c > SIZE).all()
    plan, total = search.cheapest_mix(costs)
    best = float(cost_c @ (total_c - SIZE))
    # Rounded up to whole images, and searched to 0.2%.
    assert best - 1e-6 <= total <= best * 1.01 + 1.0 + cost_b
    assert search.is_enough({kind: float(images) for kind, images in plan.items()})


def test_of_many_kinds_the_effective_ones_are_chosen() -> None:
    data = recipes.strata(np.random.default_rng(0))
    weights = data.debias()
    problem = expect_problem(weights, {"v": data.value}, {"v": 1.0})
    kinds = list_collectables(weights, problem)
    search = CollectionSearch(problem, (Goal("stderr", "v", 1.0, 0.5),), 120.0, most=2)
    left = {kind: search.excess({kind: 12.0}).max() for kind in kinds}
    assert {left[kind] for kind in search.most_effective(kinds)} == set(sorted(left.values())[:2])
