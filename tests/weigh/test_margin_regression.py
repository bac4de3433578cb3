"""Regression on attributes whose shares on the target are known: identities and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from simulations import make_pool, make_sample
from unskew import Target
from unskew.bias import Known, Strata, Tilt
from unskew.errors import ConfigError, CoverageError
from unskew.weigh.margin_regression import mean_by_margins

SHARES = {"kind": {"a": 0.2, "b": 0.3, "c": 0.5}}
TWO = {"kind": SHARES["kind"], "light": {"day": 0.2, "night": 0.8}}


def world(seed: int, n: int = 600):
    """Equal weights, though the pool has a third of each kind and half of each light."""
    rng = np.random.default_rng(seed)
    kind, light = rng.integers(3, size=n), rng.integers(2, size=n)
    pool = make_pool(
        np.repeat([0, 1], n // 2),
        kind=np.array(list("abc"), dtype=object)[kind],
        light=np.array(["day", "night"], dtype=object)[light],
    )
    weights = unskew.debias(pool, Known(np.ones((n, 2))))
    return weights, kind + 2.0 * light + rng.normal(size=n), kind, light


def test_one_margin_is_post_stratification():
    weights, value, _, _ = world(1)
    pool = weights.estimation.pool
    stratified = unskew.debias(pool, Strata("kind"), Target.margins(SHARES)).mean(value)
    result = weights.mean(value, target_predicted=Target.margins(SHARES))
    # Up to cross-fitting, which is of second order.
    assert result.value == pytest.approx(stratified.value, abs=0.1 * stratified.stderr)
    assert result.stderr == pytest.approx(stratified.stderr, rel=0.05)
    assert result.shift_p < 1e-3


def test_two_margins_are_a_regression_on_their_indicators():
    weights, value, kind, light = world(2)
    result = weights.mean(value, target_predicted=Target.margins(TWO))
    x = np.column_stack([np.ones(600), kind == 1, kind == 2, light == 1]).astype(float)
    share = np.array([1.0, 0.3, 0.5, 0.8])
    slope = np.linalg.lstsq(x, value, rcond=None)[0]
    assert result.value == pytest.approx(share @ slope, abs=0.1 * result.stderr)
    truth = 0.3 + 2 * 0.5 + 2 * 0.8
    assert result.interval[0] < truth < result.interval[1]
    assert not result.weighted.interval[0] < truth < result.weighted.interval[1]


def test_shares_that_the_weights_hold_change_nothing():
    weights, value, _, _ = world(3)
    target = Target.margins({"kind": {"mass": SHARES["kind"], "n": 300}})
    stratified = unskew.debias(weights.estimation.pool, Strata("kind"), target)
    plain, result = stratified.mean(value), stratified.mean(value, target_predicted=target)
    assert (result.value, result.stderr) == (plain.value, plain.stderr)
    with refused(ConfigError, value=["kind"]):
        stratified.mean(value, target_predicted=Target.margins(SHARES))


def test_the_error_of_a_survey_counts():
    weights, value, _, _ = world(4)
    errors = [
        weights.mean(value, target_predicted=Target.margins({"kind": margin})).stderr
        for margin in (
            SHARES["kind"],
            {"mass": SHARES["kind"], "n": 5000},
            {"mass": SHARES["kind"], "n": 200},
        )
    ]
    assert errors[0] < errors[1] < errors[2]


def test_predictions_that_are_a_sum_over_attributes_have_a_known_mean():
    weights, value, kind, light = world(5)
    predicted = 1.0 + 2.0 * (kind == 2) - 3.0 * (light == 1)
    mean = mean_by_margins(weights, predicted, Target.margins(TWO))
    assert mean.value == pytest.approx(1 + 2 * 0.5 - 3 * 0.8, rel=1e-9)
    given = weights.mean(value, predicted, Target.margins(TWO))
    by_hand = weights.mean(value, predicted, mean.value)
    assert given.value == pytest.approx(by_hand.value, rel=1e-9)
    with refused(ConfigError, option="target_predicted", value=["kind", "light"]):
        weights.mean(value, predicted * light, Target.margins(TWO))


def test_many_levels_that_say_nothing_do_not_hurt():
    off = []
    for seed in range(60):
        rng = np.random.default_rng([6, seed])
        level = rng.permutation(np.arange(150) % 15).astype(str).astype(object)
        weights = unskew.debias(
            make_pool(np.repeat([0, 1], 75), level=level), Known(np.ones((150, 2)))
        )
        masses = {"level": {str(at): 1 / 15 for at in range(15)}}
        result = weights.mean(rng.normal(size=150), target_predicted=Target.margins(masses))
        off.append((result.value, result.weighted.value))
    rmse = np.sqrt(np.square(off).mean(axis=0))
    assert rmse[0] < 1.05 * rmse[1]


def test_a_tilt_with_shares_from_elsewhere():
    rng = np.random.default_rng(7)
    x, kind = rng.normal(0.5, size=400), rng.integers(2, size=400)
    pool = make_pool(np.repeat([0, 1], 200), x=x, kind=np.where(kind, "b", "a").astype(object))
    weights = unskew.debias(
        pool, Tilt(["x"]), make_sample(300, x=rng.normal(size=300)), check_sample=False
    )
    value = x + 3.0 * kind + 0.5 * rng.normal(size=400)
    result = weights.mean(value, target_predicted=Target.margins({"kind": {"a": 0.9, "b": 0.1}}))
    assert result.interval[0] < 0.3 < result.interval[1]
    assert result.stderr < result.weighted.stderr


def test_what_cannot_be_regressed_is_refused():
    weights, value, kind, _ = world(8)
    with refused(CoverageError, value=0.5):
        weights.mean(
            value,
            target_predicted=Target.margins({"kind": {"a": 0.2, "b": 0.1, "c": 0.2, "d": 0.5}}),
        )
    with refused(ConfigError, option="target_predicted", value="uniform"):
        weights.mean(value, target_predicted=Target.uniform("kind"))
    bare = unskew.debias_weights(np.ones((9, 1)), np.zeros(9, dtype=int))
    with refused(ConfigError, option="target_predicted"):
        bare.mean(np.arange(9), target_predicted=Target.margins(SHARES))
    with refused(ConfigError, option="target_predicted", count=int(np.sum(kind == 2))):
        kept = Target.margins({"kind": {"a": 0.4, "b": 0.6}}, outside={"kind": "keep"})
        weights.mean(value, target_predicted=kept)
