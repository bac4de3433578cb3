"""The arms of a forecast: which there are, and what their weights and offsets are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unskew
from forecast_worlds import World
from forecasting.forecasts import forecast_world
from raising import refused
from unskew import Pool, Target
from unskew.bias import Strata
from unskew.errors import ConfigError, DataError
from unskew.forecasting.arms import check_probe_arms, make_arms, make_ways
from unskew.forecasting.gain import forecast_gain
from unskew.forecasting.record import Forecast
from unskew.learn.baselines import BASELINES


def test_arms_that_are_not_there_and_features_of_the_probe_are_named() -> None:
    pool = Pool.from_arrays(["a", "a", "b", "b"], label=["x", "y", "x", "y"])
    with refused(ConfigError, option="arms", value="foo") as caught:
        forecast_gain(pool, Strata("label"), Target.uniform("label"), features=["zz"], arms=["foo"])
    # No arm is listed twice.
    allowed = caught.value.facts["allowed"]
    assert len(set(allowed)) == len(allowed)
    assert str(caught.value).count("naive") == 1
    with pytest.raises(DataError, match="zz"):
        forecast_gain(pool, Strata("label"), Target.uniform("label"), features=["zz"])


def test_arms_baselines_and_arms_of_ones_own(classes: tuple[World, Forecast]) -> None:
    world, forecast = classes
    names = [arm.name for arm in forecast.arms]
    assert names[:5] == ["naive", "debiased", "weights", "half", "logit"]
    assert {"subsample", "class_balanced", "logit_adjustment"} <= set(names)
    # With a uniform target, class-balanced weights are the debiasing weights; these are calibrated,
    # too.
    assert (
        abs(forecast.arm("class_balanced").accuracy.value - forecast.arm("weights").accuracy.value)
        < 0.02
    )
    # The offset does the same for a model that is well specified.
    assert (
        abs(
            forecast.arm("logit_adjustment").accuracy.value
            - forecast.arm("debiased").accuracy.value
        )
        < 0.02
    )
    assert forecast.arm("logit_adjustment").gain.value > 0.08  # type: ignore[union-attr]
    assert any(note.startswith("density_ratio cannot be made") for note in forecast.notes)
    own = forecast_world(
        world,
        own={"oracle": 7 * unskew.debias(world.pool, world.bias, world.target).weight},
        check=False,
    )
    balanced, oracle = forecast.arm("class_balanced"), own.arm("oracle")
    assert oracle.accuracy.value == pytest.approx(balanced.accuracy.value, abs=1e-9)
    assert oracle.ridge == balanced.ridge
    with refused(ConfigError, option="own", value="half"):
        forecast_world(world, own={"half": np.ones(len(world.pool))})
    with refused(ConfigError, option="target", value="uniform"):
        forecast_world(world, arms=["density_ratio"])


def test_naive_and_debiased_come_first_and_no_arm_twice() -> None:
    assert check_probe_arms("debiased", {}) == ["naive", "debiased"]
    assert check_probe_arms(["subsample", "naive", "subsample"], {}) == [
        "naive",
        "debiased",
        "subsample",
    ]
    everything = check_probe_arms("all", {"mine": [1.0]})
    assert everything[:2] == ["naive", "debiased"]
    assert sorted(everything) == sorted({"naive", "debiased", *BASELINES})


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_arms_have_the_weights_and_offsets_of_their_makers() -> None:
    label = ["cat", "cat", "dog", "cat"]
    pool = Pool.from_arrays(["a", "a", "b", "b"], label=label)
    target = Target.margins({"label": {"cat": 0.4, "dog": 0.6}})
    weights = unskew.debias(pool, Strata("label"), target)
    label_n = np.array([0, 0, 1, 0])
    ways = make_ways(["weights", "logit"], weights.weight, label_n, 2, calibrated=True)
    arms, unavailable = make_arms(
        pool,
        target,
        ways,
        ["cat", "dog"],
        ["naive", "debiased", "logit_adjustment"],
        {"mine": [2.0, 0.0, 1.0, 1.0]},
        {"logit_adjustment": {"tau": 2.0}},
        lenient=False,
    )
    assert not unavailable
    naive, debiased, logit, adjusted, mine = arms
    np.testing.assert_allclose(naive.weight, 0.25)
    np.testing.assert_allclose(
        debiased.weight / debiased.weight.sum(), [0.4 / 3, 0.4 / 3, 0.6, 0.4 / 3]
    )
    # Weights that follow the label alone: logit adjustment of naive.
    np.testing.assert_allclose(logit.weight, 1.0)
    np.testing.assert_allclose(logit.logit_offset, np.log([0.75 / 0.4, 0.25 / 0.6]), rtol=1e-12)
    # Ways are calibrated by the weights, other arms not at all, as by `unskew train`.
    assert naive.calibrate is None
    np.testing.assert_array_equal(logit.calibrate, weights.weight)
    assert adjusted.calibrate is mine.calibrate is None
    # τ log(share of the pool/share of the target).
    np.testing.assert_allclose(
        adjusted.logit_offset, 2 * np.log([0.75 / 0.4, 0.25 / 0.6]), rtol=1e-12
    )
    np.testing.assert_allclose(mine.weight, [0.5, 0.0, 0.25, 0.25])
    assert naive.logit_offset is debiased.logit_offset is mine.logit_offset is None


def test_what_cannot_be_made_is_told_or_refused() -> None:
    pool = Pool.from_arrays(["a", "b"] * 4, label=["cat", "cat", "dog", "dog"] * 2)

    def made(asked: list[str], lenient: bool, **options: Any) -> tuple[Any, list[str]]:
        return make_arms(pool, None, [], ["cat", "dog"], asked, {}, options, lenient=lenient)

    arms, unavailable = made(["naive", "density_ratio"], True)
    assert [arm.name for arm in arms] == ["naive"]
    assert len(unavailable) == 1
    assert unavailable[0].startswith("density_ratio cannot be made")
    with pytest.raises(ConfigError):
        made(["naive", "density_ratio"], False)
    # One with options of its own was meant, whatever else was asked for.
    with refused(ConfigError, option="form", value="loss"):
        made(["logit_adjustment"], True, logit_adjustment={"form": "loss"})


@pytest.mark.parametrize(
    "weight", [[1.0, 1.0], [1.0, 1.0, -1.0], [1.0, np.nan, 1.0], [0.0, 0.0, 0.0]]
)
@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_weights_of_ones_own_are_one_for_each_image(weight: list[float]) -> None:
    pool = Pool.from_arrays(["a", "a", "b"], label=["cat", "dog", "cat"])
    with refused(DataError, option="own", value="mine", limit=3):
        make_arms(pool, None, [], ["cat", "dog"], [], {"mine": weight}, {}, lenient=True)
