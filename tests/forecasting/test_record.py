"""What a forecast says: means with errors, concentration, tables and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import unskew
from forecast_worlds import World
from forecasting.forecasts import forecast_world
from raising import refused
from unskew.errors import DataError
from unskew.forecasting.cross_fitting import Hits, deal_halves
from unskew.forecasting.record import (
    Forecast,
    HitJudge,
    bounded,
    class_accuracies,
    finite,
    heavy_share,
    share_mean,
    widen,
)
from unskew.records import Estimate
from unskew.records.clustered_mean import effective_size, plain_mean
from worlds_forecast import share_coverage


def test_what_a_forecast_says_of_classes_and_cost(classes: tuple[World, Forecast]) -> None:
    world, chosen = classes
    # With nothing chosen, nothing is taken off for it.
    forecast = forecast_world(world, arms="all", way="half", ridge=0.01, check=False)
    weights = unskew.debias(world.pool, world.bias, world.target)
    assert forecast.ess == pytest.approx(weights.ess)
    assert forecast.design_effect == pytest.approx(len(world.pool) / weights.ess)
    np.testing.assert_allclose(list(forecast.class_share.values()), 0.25)
    for arm in forecast.arms:
        assert (arm.way, arm.ridge) == ("half" if arm.name == "debiased" else None, 0.01)
        mean = sum(0.25 * each.value for each in arm.by_class.values())
        # The target's classes are equally likely, so the accuracy is the mean over classes (where
        # none was cut off at 0 or 1).
        assert mean == pytest.approx(arm.accuracy.value, abs=5e-3)
        assert arm.worst.value == min(each.value for each in arm.by_class.values())
    assert list(forecast.class_ess) == ["0", "1", "2", "3"]
    assert forecast.class_ess["3"] == pytest.approx(np.sum(world.pool.frame["label"] == 3))
    assert chosen.class_ess == forecast.class_ess


def test_what_the_choice_flatters_is_taken_off_and_counts_as_an_error() -> None:
    rng = np.random.default_rng(0)
    full_n, half_n = ((rng.random(500) < 0.7) * 1.0 for _ in range(2))
    hits = Hits(full_n, half_n, np.zeros(500))
    label_n, unit_n, weight_n = np.zeros(500, dtype=np.int64), np.arange(500), np.full(500, 0.002)
    deal = deal_halves(unit_n, label_n, 5, 0, unit_n)
    judge = HitJudge(
        weight_n,
        lambda value_n: plain_mean(weight_n, value_n, unit_n),
        label_n,
        ["a"],
        unit_n,
        deal,
    )
    plain, corrected = judge.accuracy(hits), judge.accuracy(replace(hits, optimism=0.01))
    assert corrected.value == pytest.approx(plain.value - 0.01)
    assert corrected.stderr == pytest.approx(math.hypot(plain.stderr, 0.01))
    assert np.mean(corrected.interval) == pytest.approx(corrected.value)
    # The same models, one of them chosen from more: no difference.
    assert judge.accuracy(hits.minus(replace(hits, optimism=0.01))).value == 0.0


def test_the_way_and_why_it_was_chosen_are_in_the_record(classes: tuple[World, Forecast]) -> None:
    forecast = classes[1]
    plain = forecast.to_dict()
    debiased, chosen = forecast.arm("debiased"), forecast.arm(forecast.choice.way)
    assert (debiased.way, debiased.ridge) == (forecast.choice.way, forecast.choice.ridge)
    assert (chosen.held_out, chosen.ridge) == (debiased.held_out, debiased.ridge)
    assert plain["choice"]["way"] == forecast.choice.way
    assert plain["choice"]["reason"] in str(forecast)
    assert [row["way"] for row in plain["choice"]["scores"]] == ["weights", "half", "logit"]
    table = forecast.table().set_index("arm")
    assert table.loc["debiased", "way"] == forecast.choice.way
    assert table.loc["weights", "ridge"] == forecast.arm("weights").ridge


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
    assert effective_size(np.r_[np.ones(4), np.zeros(6)]) == pytest.approx(4.0)


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
        assert effective_size(scale * weight_n) == pytest.approx(expected)
    assert effective_size(np.zeros(3)) == 0.0


@pytest.mark.parametrize(("right", "images"), [(8, 8), (0, 5), (12, 20), (1, 1)])
def test_the_interval_of_a_share_is_clopper_and_pearsons_for_equal_weights(
    right: int, images: int
) -> None:
    value_n = (np.arange(images) < right) * 1.0
    estimate = share_mean(np.full(images, 1 / images), value_n, np.arange(images))
    exact = scipy.stats.binomtest(right, images).proportion_ci()
    assert estimate.interval == pytest.approx((exact.low, exact.high), abs=1e-9)
    # All right is no proof: there is an error.
    assert 0 < estimate.stderr < 0.5


def test_copies_of_every_image_leave_the_interval_of_a_share_as_it_was() -> None:
    """Where all are right copies add nothing, and elsewhere no more than rounding of Student's
    quantiles: n − 1 degrees of freedom become 2n − 1 for images, not for units.
    """
    rng = np.random.default_rng(4)
    value_n, weight_n = (rng.random(25) < 0.8) * 1.0, rng.gamma(2.0, size=25)
    for value_m in (value_n, np.ones(25)):
        once = share_mean(weight_n / weight_n.sum(), value_m, np.arange(25))
        twice = share_mean(
            np.repeat(weight_n, 2) / (2 * weight_n.sum()),
            np.repeat(value_m, 2),
            np.repeat(np.arange(25), 2),
        )
        assert twice.interval == pytest.approx(once.interval, abs=0.02)


def test_intervals_of_shares_near_one_hold_the_truth() -> None:
    """With 30 images and a share of 0.98 Student's interval holds it in fewer than half of the
    data sets. 400 data sets: a binomial error of 1%.
    """
    for kind in ("independent", "unequal weights", "groups of three"):
        new, old = share_coverage(0.98, kind, 400, 1)
        assert new > 0.93
        assert old < 0.6
