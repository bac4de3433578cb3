"""Advice from a pool: goals, refusals, and wrong calls."""

from __future__ import annotations

import numpy as np
import pytest

import simulations as recipes
import unskew
from raising import refused
from unskew.bias import Known, Strata, Subpopulation

STRATA = Strata("label")


def pool_of(cats: int = 90, dogs: int = 10) -> unskew.Pool:
    label = ["cat"] * cats + ["dog"] * dogs
    night = np.arange(cats + dogs) % 2
    return unskew.Pool.from_arrays(["a"] * len(label), label=label, night=night)


def halves(**shares: float) -> unskew.Target:
    return unskew.Target.margins({"label": shares or {"cat": 0.5, "dog": 0.5}})


def test_collecting_what_is_advised_reaches_the_level() -> None:
    advice = unskew.advise_collection(pool_of(), STRATA, halves(), stderr=0.05, outcomes=["night"])
    assert advice.best is not None
    assert advice.best.name == "label = dog"
    larger = pool_of(dogs=10 + advice.best.images)
    weights = unskew.debias(larger, STRATA, halves())
    # Of 10 alternating 0 and 1 the variance is 10/9 of that of many: 5% of its root.
    stderr = weights.mean(larger.frame["night"].to_numpy()).stderr
    assert stderr == pytest.approx(0.05, rel=0.05)


def test_by_default_every_error_is_halved() -> None:
    data = recipes.known(np.random.default_rng(0))
    values = {"v": data.value, "hundredfold": 100 * data.value}
    advice = unskew.advise_collection(data.pool, data.bias, outcomes=values)
    assert [goal.wanted for goal in advice.goals] == [goal.now / 2 for goal in advice.goals]
    # Everything in proportion: four times the images.
    assert advice.option("", "every").images == pytest.approx(3 * len(data.pool), rel=0.01)


def test_effective_sizes_as_number_and_as_share() -> None:
    data = recipes.known(np.random.default_rng(0))
    ess = data.debias().ess
    by_number = unskew.advise_collection(data.pool, data.bias, ess=2 * ess)
    assert by_number.option("", "every").images == pytest.approx(len(data.pool), rel=0.01)
    share = ess / len(data.pool)
    by_share = unskew.advise_collection(data.pool, data.bias, ess=(1 + share) / 2)
    # More of everything changes no share, images of the target do.
    assert by_share.option("", "every").images is None
    assert by_share.option("target").images is not None
    reached = unskew.advise_collection(data.pool, data.bias, ess=share / 2)
    assert reached.reached
    assert not reached.options


def test_links_become_firm() -> None:
    x = np.concatenate([np.linspace(0, 0.52, 60), np.linspace(0.5, 1, 60)])
    pool = recipes.make_pool(np.repeat([0, 1], 60), x=x)
    omega = np.stack([x <= 0.52, x >= 0.5], axis=1).astype(float)
    advice = unskew.advise_collection(pool, Known(omega), overlap=True)
    link = next(goal for goal in advice.goals if goal.kind == "link error")
    assert link.now > link.wanted == 0.1
    assert advice.option("", "every").images is not None
    firmer = unskew.advise_collection(pool, Known(omega), overlap=0.05)
    assert firmer.option("", "every").images > advice.option("", "every").images


def test_a_dear_source_is_left_out() -> None:
    data = recipes.known(np.random.default_rng(1))
    values = {"v": data.value}
    plain = unskew.advise_collection(data.pool, data.bias, outcomes=values)
    dear = unskew.advise_collection(data.pool, data.bias, outcomes=values, cost={"a": 1000.0})
    assert dear.option("a").images == plain.option("a").images
    assert dear.option("a").cost == 1000 * plain.option("a").images
    assert "a" not in dear.mix


def test_islands_need_links() -> None:
    pool = recipes.make_pool(np.repeat([0, 1], 20), x=np.repeat([0.0, 1.0], 20))
    model = Subpopulation({"a": "x < 0.5", "b": "x > 0.5"})
    advice = unskew.advise_collection(pool, model)
    assert not advice.identifiable
    assert {link.image_of + link.selectable_by for link in advice.links} == {
        ("a", "b"),
        ("b", "a"),
    }


def test_strata_without_images_come_first() -> None:
    target = halves(cat=0.4, dog=0.4, owl=0.2)
    advice = unskew.advise_collection(pool_of(), STRATA, target, stderr=0.05, outcomes=["night"])
    assert not advice.identifiable
    # Half of the variance: p² s²/m = stderr²/2, s² = 1/4.
    assert advice.uncovered == {"label = owl": int(np.ceil(0.2**2 * 0.25 / (0.05**2 / 2)))}
    # The rest: (1 − 0.2)² V = stderr²/2.
    (goal,) = advice.goals
    assert goal.wanted == pytest.approx(0.05 / np.sqrt(2) / 0.8)


def test_a_survey_that_is_too_small_is_named() -> None:
    target = unskew.Target.margins({"label": {"mass": {"cat": 0.5, "dog": 0.5}, "n": 50}})
    value = np.where(pool_of().frame["label"] == "cat", 1.0, 0.0) + np.arange(100) % 2
    advice = unskew.advise_collection(pool_of(), STRATA, target, stderr=0.05, outcomes={"v": value})
    assert advice.best is None
    # √(0.25/50) = 0.07, or with Student's correction a little more
    assert advice.goals[0].floor == pytest.approx(0.0707, rel=0.05)
    assert all("survey" in option.reason for option in advice.options)


@pytest.mark.parametrize(
    ("wish", "option"),
    [
        ({"stderr": 0.0}, "stderr"),
        ({"stderr": float("nan")}, "stderr"),
        ({"ess": -3.0}, "ess"),
        ({"overlap": 1.5}, "overlap"),
        ({"cost": {"a": 0.0}}, "cost"),
        ({"cost": {"moon": 1.0}}, "cost"),
    ],
)
def test_impossible_wishes_are_refused(wish: dict, option: str) -> None:
    with refused(unskew.ConfigError, option=option):
        unskew.advise_collection(pool_of(), STRATA, halves(), outcomes=["night"], **wish)


def test_unknown_columns_are_refused() -> None:
    with refused(unskew.ConfigError, column="moon"):
        unskew.advise_collection(pool_of(), STRATA, halves(), outcomes=["moon"])


def test_a_private_report_names_no_small_stratum() -> None:
    wish = {"stderr": 0.05, "outcomes": ["night"]}
    pool = pool_of(dogs=8)
    open_advice = unskew.advise_collection(pool, STRATA, halves(), **wish)
    private = unskew.advise_collection(pool, STRATA, halves(), private=True, **wish)
    assert "label = dog" in repr(open_advice)
    assert "dog" not in repr(private)
