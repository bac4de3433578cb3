"""The cross-fitted outcome model: what it reads, what stays together, and what it is good for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import unskew
from raising import refused
from simulations import make_pool, make_sample
from unskew import Target
from unskew.bias import Known, Strata, Tilt
from unskew.debiasing.outcome_model import predict_outcome
from unskew.errors import ConfigError, DataError


def world(seed: int, n: int = 240, m: int = 150, hidden: float = 0.0, **columns):
    """Tilted in x; both sources prefer large w by ``hidden``; y = x + w + noise."""
    rng = np.random.default_rng(seed)
    source = np.repeat([0, 1], n // 2)
    x, w = rng.normal(np.array([0.5, -0.3])[source]), rng.normal(hidden, size=n)
    target_x, target_w = rng.normal(size=(2, m))
    kind = np.where(w > 0, "bright", "dark").astype(object)
    sample = make_sample(
        m, x=target_x, w=target_w, kind=np.where(target_w > 0, "bright", "dark").astype(object)
    )
    pool = make_pool(source, x=x, w=w, kind=kind, **columns)
    weights = unskew.debias(pool, Tilt(["x"]), sample, check_sample=False)
    return weights, x + w + 0.5 * rng.normal(size=n), rng


def test_least_squares_by_hand():
    weights, value, _ = world(1)
    outcome = predict_outcome(weights, value, features=["x", "w"], learner=LinearRegression())
    assert outcome.features == ("x", "w")
    assert outcome.learner == "LinearRegression"
    assert 0.8 < outcome.r2 < 1.0
    # The models of five folds differ little from the one of all images.
    frame = weights.estimation.pool.frame
    X = np.column_stack([np.ones(value.size), frame["x"], frame["w"]])
    root = np.sqrt(weights.weight)
    beta = np.linalg.lstsq(root[:, None] * X, root * value, rcond=None)[0]
    assert outcome.predicted == pytest.approx(X @ beta, abs=0.25)
    assert outcome.target_predicted.size == 150


def test_the_shortcut_is_the_long_way_with_the_features_of_the_bias_model():
    weights, value, _ = world(2)
    outcome = predict_outcome(weights, value)
    assert outcome.features == ("x",)
    long = weights.mean(value, outcome)
    short = weights.mean(value, predicted="cross-fit")
    assert (short.value, short.stderr) == pytest.approx((long.value, long.stderr), rel=1e-12)
    own = weights.mean(value, predicted=LinearRegression())
    assert own.value == pytest.approx(short.value, abs=0.05)


def test_wrong_weights_are_mended_by_features_that_matter():
    weights, value, _ = world(3, n=1200, m=600, hidden=0.6)
    outcome = predict_outcome(weights, value, features=["x", "w"])
    result = weights.mean(value, outcome)
    # Of a model as good that was not learned from these images.
    given = weights.mean(value, outcome.predicted, outcome.target_predicted)
    assert given.value == result.value
    assert given.stderr < result.stderr < 1.5 * given.stderr
    assert result.weighted.interval[0] > 0.3
    assert result.interval[0] < 0.0 < result.interval[1]


def test_an_outcome_that_nothing_predicts_stays_as_it_is():
    weights, _, rng = world(4)
    noise = rng.normal(size=240)
    result = weights.mean(noise, predicted="cross-fit")
    assert result.value == pytest.approx(result.weighted.value, abs=0.3 * result.weighted.stderr)
    assert result.stderr < 1.05 * result.weighted.stderr


def test_images_of_a_group_never_predict_each_other():
    # The outcome is the group's alone: a forest that saw another image of it would know.
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(60), 4)
    x = np.repeat(rng.normal(size=60), 4) + 1e-6 * rng.normal(size=240)
    pool = make_pool(np.repeat([0, 1], 120), x=x, group=group)
    sample = Target.sample(
        make_pool(np.zeros(50, dtype=int), x=rng.normal(size=50), group=range(50))
    )
    weights = unskew.debias(pool, Tilt(["x"]), sample, check_sample=False)
    value = np.repeat(rng.normal(size=60), 4)
    outcome = predict_outcome(weights, value, learner=RandomForestRegressor(20, random_state=0))
    assert outcome.r2 < 0.2


def test_the_order_of_the_rows_has_no_say():
    weights, value, rng = world(6)
    outcome = predict_outcome(weights, value, features=["x", "w"])
    order = rng.permutation(240)
    frame = weights.estimation.pool.frame.iloc[order].reset_index(drop=True)
    again = unskew.debias(
        unskew.Pool.from_frame(frame),
        Tilt(["x"]),
        weights.estimation.fitted.target,
        check_sample=False,
    )
    other = predict_outcome(again, value[order], features=["x", "w"])
    assert other.predicted == pytest.approx(outcome.predicted[order], abs=1e-6)


def test_categories_and_classifiers():
    weights, value, _ = world(7)
    outcome = predict_outcome(
        weights, (value > 0) * 1.0, features=["kind"], learner=LogisticRegression()
    )
    assert ((outcome.predicted > -0.2) & (outcome.predicted < 1.2)).all()
    assert outcome.r2 > 0.2
    with refused(ConfigError, option="learner"):
        predict_outcome(weights, value, learner=LogisticRegression())


def test_a_source_that_is_the_target():
    rng = np.random.default_rng(8)
    x = rng.normal(np.repeat([0.0, 0.8], 150))
    pool = make_pool(np.repeat([0, 1], 150), x=x)
    weights = unskew.debias(pool, Tilt(["x"]), Target.source("a", holdout=0.2), check_sample=False)
    outcome = predict_outcome(weights, x**2)
    assert outcome.target_predicted is None
    result = weights.mean(x**2, predicted="cross-fit")
    assert result.interval[0] < 1.0 < result.interval[1]


def test_what_cannot_be_predicted_is_refused():
    weights, value, _ = world(9)
    with refused(ConfigError, option="predicted", value="crossfit"):
        weights.mean(value, predicted="crossfit")
    with refused(ConfigError, option="target_predicted"):
        weights.mean(value, predicted="cross-fit", target_predicted=np.zeros(150))
    with refused(DataError, columns=["y"]):
        predict_outcome(weights, value, features=["y"])
    with refused(ConfigError, option="learner"):
        predict_outcome(weights, value, learner=42)
    with refused(ConfigError, option="predicted"):
        unskew.debias_weights(np.ones((9, 1)), np.zeros(9, dtype=int)).mean(
            np.arange(9), predicted="cross-fit"
        )
    by_class = unskew.debias(
        make_pool(np.zeros(4, dtype=int), label=list("aabb")),
        Strata("label"),
        Target.uniform("label"),
    )
    with refused(ConfigError, option="predicted"):
        by_class.mean([1, 2, 3, 4], predicted="cross-fit")
    without = unskew.debias(make_pool(np.zeros(9, dtype=int)), Known(np.ones((9, 1))))
    with refused(ConfigError, option="predicted"):
        without.mean(np.arange(9), predicted="cross-fit")
    x = np.random.default_rng(0).normal(size=(2, 80))
    lacking = make_pool(np.repeat([0, 1], 40), x=x[0], w=x[0])
    weights = unskew.debias(lacking, Tilt(["x"]), make_sample(80, x=x[1]), check_sample=False)
    with refused(DataError, columns=["w"]):
        predict_outcome(weights, x[0], features=["x", "w"])
