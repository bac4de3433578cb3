"""Ridges and ways chosen on held-out images: one grid for all, and what training would choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import unskew
from forecast_worlds import class_world, tilt_world
from forecasting.forecasts import forecast_world
from raising import refused
from unskew.errors import ConfigError
from unskew.forecasting.arms import make_ways
from unskew.forecasting.cross_fitting import ProbeArm
from unskew.forecasting.learners import find_learner
from unskew.forecasting.probe_data import ProbeData
from unskew.forecasting.tuning import choose_from_hits, ridges_to_try, tune_arms, ways_to_try
from unskew.learn.probe_grid import RIDGES, tune_probe

TAUS = ("weights", "half", "logit")


@pytest.mark.parametrize("kind", ["classes", "tilts"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_forecast_chooses_what_training_would(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same images, folds and weights: the same way, ridge and scores as `tune_probe`."""
    # Where the fits are exact no rounding decides between two candidates that are as good.
    monkeypatch.setattr("unskew.learn.probe_grid._ROUGH", 1e-8)
    world = class_world([1500, 400], seed=seed) if kind == "classes" else tilt_world(1500, seed)
    forecast = forecast_world(world, check=False)
    # By id, as the folds of a forecast are dealt.
    order = np.argsort(world.pool.frame["id"].astype(str).to_numpy(), kind="stable")
    label_n = world.pool.frame["label"].to_numpy()[order]
    n_classes = int(label_n.max()) + 1
    weight_n = unskew.debias(world.pool, world.bias, world.target).weight[order]
    stratum_n = world.pool.source[order] * n_classes + label_n
    tuned = tune_probe(world.X[order], label_n, weight_n, n_classes, stratum_n=stratum_n)
    assert forecast.choice.way == tuned.choice.way
    assert forecast.choice.ridge == tuned.choice.ridge
    assert forecast.arm("debiased").ridge == tuned.choice.ridge
    assert [row.ridge for row in forecast.choice.scores] == [
        row.ridge for row in tuned.choice.scores
    ]
    for mine, other in zip(forecast.choice.scores, tuned.choice.scores, strict=True):
        assert mine.score == pytest.approx(other.score, abs=1e-3)


def _data(n: int = 900, seed: int = 0) -> tuple[ProbeData, Any]:
    rng = np.random.default_rng(seed)
    label_n = (rng.random(n) < 0.2) * 1
    X_nd = rng.standard_normal((n, 5)) + label_n[:, None]
    data = ProbeData(X_nd, label_n, ("a", "b"), np.arange(n), np.arange(n))
    weight_n = np.where(label_n == 1, 0.5 / label_n.sum(), 0.5 / (n - label_n.sum()))
    return data, weight_n


def _arms(data: ProbeData, weight_n: Any) -> list[ProbeArm]:
    naive = ProbeArm("naive", np.full(weight_n.size, 1 / weight_n.size))
    ways = make_ways(TAUS, weight_n, data.label, 2, calibrated=True)
    return [naive, *ways, ProbeArm("own", weight_n)]


def test_every_arm_gets_a_ridge_of_the_one_grid_and_the_best_way_is_chosen() -> None:
    data, weight_n = _data()
    told: list[int] = []
    tuned = tune_arms(
        _arms(data, weight_n),
        data,
        weight_n,
        np.arange(900) % 3,
        RIDGES,
        seed=0,
        advance=told.append,
    )
    assert sum(told) == 5 * len(RIDGES) * 3
    assert all(arm.ridge in RIDGES for arm in tuned.arms)
    assert tuned.choice.way in TAUS
    for arm in tuned.arms:
        # Each at its own best ridge, which is that of the table.
        if arm.way is not None:
            row = next(row for row in tuned.choice.scores if row.way == arm.way)
            assert row.ridge == arm.ridge
            assert row.score == pytest.approx(tuned.choices[arm.name].scores[0].score)
    assert all(choice.optimism > -1e-12 for choice in tuned.choices.values())
    # A ridge that is given is every arm's.
    one = tune_arms(_arms(data, weight_n), data, weight_n, np.arange(900) % 3, (0.2,), seed=0)
    assert {arm.ridge for arm in one.arms} == {0.2}
    for choice in one.choices.values():
        assert choice.optimism == pytest.approx(0.0, abs=1e-12)


def test_naive_is_judged_by_its_own_weights() -> None:
    """Whatever the target is, the ridge of naive stays."""
    data, weight_n = _data()
    other_n = np.random.default_rng(1).gamma(1.0, size=900) * weight_n
    chosen = [
        tune_arms(_arms(data, target_n), data, target_n, np.arange(900) % 3, RIDGES, seed=0)
        for target_n in (weight_n, other_n / other_n.sum())
    ]
    naive = [tuned.choices["naive"] for tuned in chosen]
    assert naive[0] == naive[1]
    assert chosen[0].choices["own"] != chosen[1].choices["own"]


def test_few_effective_images_choose_nothing_for_any_arm() -> None:
    data, weight_n = _data(250)
    tuned = tune_arms(_arms(data, weight_n), data, weight_n, np.arange(250) % 3, RIDGES, seed=0)
    assert tuned.choice.way == "half"
    assert {arm.ridge for arm in tuned.arms} == {0.01}
    assert tuned.choice.optimism == 0.0


def test_copies_change_no_choice() -> None:
    data, weight_n = _data()
    row_n = np.repeat(np.arange(900), 3)
    copies = ProbeData(data.X[row_n], data.label[row_n], data.classes, row_n, np.arange(2700))
    fold_n = np.arange(900) % 3
    once = tune_arms(_arms(data, weight_n), data, weight_n, fold_n, RIDGES, seed=0)
    third_n = weight_n[row_n] / 3
    thrice = tune_arms(_arms(copies, third_n), copies, third_n, fold_n[row_n], RIDGES, seed=0)
    assert [arm.ridge for arm in once.arms] == [arm.ridge for arm in thrice.arms]
    assert once.choice.way == thrice.choice.way
    assert once.choice.score == pytest.approx(thrice.choice.score, abs=2e-3)


def test_ways_that_a_learner_cannot_take_are_refused_by_name() -> None:
    probe, forest, machine = (
        find_learner(learner) for learner in (None, LogisticRegression(), LinearSVC())
    )
    assert ways_to_try("auto", *probe) == ways_to_try("auto", *forest) == TAUS
    assert ways_to_try("logit", *forest) == ("logit",)
    assert ways_to_try("auto", *machine) == ways_to_try("weights", *machine) == ("weights",)
    with refused(ConfigError, option="way", value="half") as caught:
        ways_to_try("half", *machine)
    assert "LinearSVC" in str(caught.value)
    with refused(ConfigError, option="way", value="head") as caught:
        ways_to_try("head", *probe)
    assert "network" in str(caught.value)
    with refused(ConfigError, option="way", value="halve"):
        ways_to_try("halve", *probe)


def test_the_grid_or_one_ridge() -> None:
    assert ridges_to_try(None) == RIDGES
    assert ridges_to_try(1) == (1.0,)
    for ridge in (0.0, -1.0, float("nan")):
        with refused(ConfigError, option="ridge"):
            ridges_to_try(ridge)


def test_a_learner_without_a_ridge_is_judged_by_its_hits() -> None:
    luck_n = np.random.default_rng(0).random(2000)
    hits = {"weights": luck_n < 0.7, "half": luck_n < 0.8, "logit": luck_n < 0.85}
    choice = choose_from_hits(hits, np.ones(2000), np.arange(2000), 0)  # type: ignore[arg-type]
    assert (choice.way, choice.ridge) == ("logit", None)
    alone = choose_from_hits({"weights": luck_n}, np.ones(2000), np.arange(2000), 0)
    assert alone.way == "weights"
    assert alone.optimism == pytest.approx(0.0, abs=1e-12)
