"""What a forecast says: means with errors, concentration, tables and JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import unskew
from forecast_worlds import World
from raising import refused
from unskew.errors import DataError
from unskew.forecasting.record import (
    Forecast,
    bounded,
    class_accuracies,
    finite,
    heavy_share,
    kish,
    plain_mean,
    widen,
)
from unskew.records import Estimate


def test_what_a_forecast_says_of_classes_and_cost(classes: tuple[World, Forecast]) -> None:
    world, forecast = classes
    weights = unskew.debias(world.pool, world.bias, world.target)
    assert forecast.ess == pytest.approx(weights.ess)
    assert forecast.design_effect == pytest.approx(len(world.pool) / weights.ess)
    np.testing.assert_allclose(list(forecast.class_share.values()), 0.25)
    for arm in forecast.arms:
        mean = sum(0.25 * each.value for each in arm.by_class.values())
        # The target's classes are equally likely, so the accuracy is the mean over classes (where
        # none was cut off at 0 or 1).
        assert mean == pytest.approx(arm.accuracy.value, abs=5e-3)
        assert arm.worst.value == min(each.value for each in arm.by_class.values())
    assert list(forecast.class_ess) == ["0", "1", "2", "3"]
    assert forecast.class_ess["3"] == pytest.approx(np.sum(world.pool.frame["label"] == 3))


def test_records_are_plain_and_printable(classes: tuple[World, Forecast]) -> None:
    forecast = classes[1]
    plain = json.loads(json.dumps(forecast.to_dict(), allow_nan=False))
    assert plain["gain"]["value"] == forecast.gain.value
    assert (
        plain["arms"][1]["by_class"]["3"]["stderr"] == forecast.arm("debiased").by_class["3"].stderr
    )
    assert [arm["name"] for arm in plain["arms"]] == forecast.table()["arm"].tolist()
    assert forecast.table().set_index("arm").loc["debiased", "gain"] == pytest.approx(
        100 * forecast.gain.value
    )
    shown = str(forecast)
    assert shown.startswith("Reweight: +")
    assert "worst class" in shown
    assert "Trained on 4 of 5 folds" in shown
    assert "/" not in forecast.recommendation
    with refused(DataError, value="best"):
        forecast.arm("best")


def test_a_plain_mean_is_the_textbooks() -> None:
    value_n = np.random.default_rng(0).standard_normal(50)
    even = plain_mean(np.full(50, 0.02), value_n, np.arange(50))
    assert (even.value, even.stderr) == pytest.approx(
        (value_n.mean(), value_n.std(ddof=1) / np.sqrt(50))
    )
    # Copies within units change nothing.
    twice = plain_mean(np.full(100, 0.01), np.tile(value_n, 2), np.tile(np.arange(50), 2))
    assert (twice.value, twice.stderr) == pytest.approx((even.value, even.stderr))
    assert plain_mean(np.ones(2) / 2, np.ones(2), np.zeros(2, dtype=np.int64)).stderr == np.inf


def test_errors_add_in_squares() -> None:
    wide = widen(Estimate(0.5, 0.03, (0.44, 0.56)), 0.04)
    assert (wide.stderr, *wide.interval) == pytest.approx((0.05, 0.4, 0.6))
    assert widen(Estimate(0.5, 0.03, (0.44, 0.56)), 0.0).stderr == 0.03


def test_concentration() -> None:
    assert heavy_share(np.full(10, 0.1)) == pytest.approx(0.6)
    assert heavy_share(np.r_[np.full(3, 0.2), np.full(97, 0.4 / 97)]) == pytest.approx(0.03)
    assert kish(np.r_[np.ones(4), np.zeros(6)]) == pytest.approx(4.0)


def test_an_accuracy_stays_within_0_and_1_and_keeps_its_error() -> None:
    assert bounded(Estimate(1.02, 0.03, (0.96, 1.08))) == Estimate(1.0, 0.03, (0.96, 1.0))
    assert bounded(Estimate(-0.01, 0.1, (-0.2, 0.2))) == Estimate(0.0, 0.1, (0.0, 0.2))
    inside = Estimate(0.5, 0.1, (0.3, 0.7))
    assert bounded(inside) == inside


def test_an_error_where_there_was_none_is_normal() -> None:
    wide = widen(Estimate(0.5, 0.0, (0.5, 0.5)), 0.1)
    assert (wide.stderr, *wide.interval) == pytest.approx((0.1, 0.5 - 0.1959964, 0.5 + 0.1959964))
    unknown = Estimate(0.5, math.inf, (-math.inf, math.inf))
    assert widen(unknown, 0.1) == unknown


def test_accuracy_within_a_class_is_the_mean_of_its_images() -> None:
    rng = np.random.default_rng(0)
    label_n = np.repeat([0, 1, 2], [30, 20, 10])
    weight_n = np.where(label_n == 2, 0.0, rng.gamma(1.0, size=60))
    weight_n /= weight_n.sum()
    hit_n = (rng.random(60) < 0.7).astype(float)
    found = class_accuracies(hit_n, weight_n, label_n, ["cat", "dog", "fox"], np.arange(60))
    # A class that the target lacks has no accuracy.
    assert list(found) == ["cat", "dog"]
    for code, name in enumerate(found):
        own = label_n == code
        assert found[name].value == pytest.approx(np.average(hit_n[own], weights=weight_n[own]))
    shares = [weight_n[label_n == code].sum() for code in (0, 1)]
    assert np.dot(shares, [each.value for each in found.values()]) == pytest.approx(
        weight_n @ hit_n
    )


def test_what_json_lacks_becomes_none_and_tuples_lists() -> None:
    value = {1: (np.float64(0.5), math.nan), "b": [math.inf, 2, "x", None, True]}
    assert finite(value) == {"1": [0.5, None], "b": [None, 2, "x", None, True]}


def test_the_effective_number_does_not_change_with_the_scale() -> None:
    weight_n = np.random.default_rng(0).gamma(0.5, size=40)
    expected = weight_n.sum() ** 2 / (weight_n**2).sum()
    for scale in (1e-200, 1.0, 1e200):
        assert kish(scale * weight_n) == pytest.approx(expected)
    assert kish(np.zeros(3)) == 0.0
