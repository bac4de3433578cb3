"""Ways of a scikit-learn estimator: which there are, and predictions that are the target's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from raising import refused
from shifted_labels import RARE, Counted, door, shifted
from unskew import DebiasedClassifier, DebiasedRegressor, Pool, Target
from unskew.bias import Strata
from unskew.errors import ConfigError
from unskew.estimators.dialled_fit import target_model
from unskew.learn import make_baseline

# Which ways there are


@pytest.mark.parametrize(
    ("model", "way", "why"),
    [
        (door(way="head"), "head", "last layer"),
        (door(way="haalf"), "haalf", "half"),
        (DebiasedRegressor(way="logit"), "logit", "regressor"),
        (DebiasedRegressor(way="head"), "head", "last layer"),
        (door(LinearSVC(), "half"), "half", "LinearSVC has no predict_proba"),
        (
            door(make_pipeline(FixedThresholdClassifier(LogisticRegression())), "logit"),
            "logit",
            "FixedThresholdClassifier decides by a threshold",
        ),
        (door(LogisticRegression(class_weight="balanced"), "half"), "half", "class_weight"),
    ],
)
def test_a_way_that_cannot_be_taken_is_refused_by_name(model: Any, way: str, why: str) -> None:
    X, y, source = shifted(80)
    for call in (model.fit, model.target_score):
        with refused(ConfigError, option="way", value=way) as caught:
            call(X, y, source=source)
        assert why in str(caught.value)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (DebiasedRegressor(), "regressor"),
        (door(LinearSVC()), "predict_proba"),
        (door(make_pipeline(FixedThresholdClassifier(LogisticRegression()))), "threshold"),
        (door(make_pipeline(LogisticRegression(class_weight="balanced"))), "class_weight"),
    ],
)
def test_auto_learns_from_the_weights_where_nothing_else_is_possible(model: Any, why: str) -> None:
    X, y, source = shifted(80)
    model = clone(model).set_params(bias=Strata("label"), target=Target.uniform("label"))
    if isinstance(model, DebiasedRegressor):
        model.set_params(bias=None, target=None)
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = model.fit(X, y, source=None if model.bias is None else source)
    assert fitted.way_.way == "weights"
    assert why in fitted.way_.reason
    assert fitted.logit_shift_ is None
    share = fitted.sample_weight_ / fitted.sample_weight_.sum()
    np.testing.assert_allclose(share, fitted.weights_.weight, rtol=1e-12)


def test_several_columns_of_y_are_learned_from_the_weights() -> None:
    X, y, _ = shifted(80)
    both = np.column_stack([y, y[::-1]])
    model = DebiasedClassifier(RandomForestClassifier(3, random_state=0), moments={"x_0": 0.0})
    fitted = model.fit(X, both)
    assert (fitted.way_.way, fitted.predict(X).shape) == ("weights", (80, 2))
    assert "several columns" in fitted.way_.reason
    with refused(ConfigError, option="way", value="half", allowed=["auto", "weights"]):
        clone(model).set_params(way="half").fit(X, both)


# Predictions on the target


@pytest.mark.parametrize("tau", [0.5, 1.0])
@pytest.mark.parametrize(
    "names", [["cat", "ape"], [False, True], [7, 3], [3.0, -1.0], ["b", "c", "a"]]
)
def test_predictions_are_those_of_the_target_for_classes_of_any_kind(names: Any, tau: Any) -> None:
    rng = np.random.default_rng(1)
    code = rng.choice(len(names), 400, p=[0.8, 0.2] if len(names) == 2 else [0.7, 0.2, 0.1])
    X, y = np.eye(3)[code] + rng.standard_normal((400, 3)), np.array(names)[code]
    target = Target.uniform("label")
    model = DebiasedClassifier(None, None, target, "half" if tau == 0.5 else "logit").fit(X, y)
    classes = np.unique(y)
    assert model.classes_.tolist() == classes.tolist()
    factor = 1 / np.array([np.mean(y == each) for each in classes]) ** tau
    proba = model.estimator_.predict_proba(X) * factor
    proba /= proba.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), proba, rtol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(proba), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), classes[proba.argmax(axis=1)])
    decision = model.decision_function(X)
    if len(names) == 2:
        np.testing.assert_allclose(decision, np.log(proba[:, 1] / proba[:, 0]), rtol=1e-6)
        np.testing.assert_array_equal(classes[(decision > 0) * 1], model.predict(X))
    else:
        np.testing.assert_array_equal(classes[decision.argmax(axis=1)], model.predict(X))
    # Without the shift, the inner estimator predicts for images weighted otherwise.
    assert (model.estimator_.predict(X) != model.predict(X)).any()
    weight = model.sample_weight_
    assert weight.sum() == pytest.approx(np.square(weight.sum()) / np.square(weight).sum())


def test_logit_is_logit_adjustment_where_the_label_is_all_that_is_biased() -> None:
    X, y, source = shifted(300)
    found = door(way="logit").fit(X, y, source=source)
    plain = make_baseline("logit_adjustment", Pool.from_arrays(source, label=y), RARE).fit(
        LogisticRegression(), X, y
    )
    np.testing.assert_allclose(found.predict_proba(X), plain.predict_proba(X), rtol=1e-5)
    np.testing.assert_allclose(found.sample_weight_, 1.0)
    assert found.way_.tau == 1.0


def test_naive_bayes_predicts_alike_in_every_way() -> None:
    """Its densities of the classes do not change with their weights, and its shares are moved."""
    X, y, source = shifted(200)
    models = [
        door(GaussianNB(), way).fit(X, y, source=source) for way in ("weights", "half", "logit")
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.predict_proba(X), models[0].predict_proba(X), rtol=1e-9)


def test_a_target_model_without_a_shift_is_the_estimator() -> None:
    X, y, _ = shifted(80)
    inner = LogisticRegression().fit(X, y)
    assert target_model(inner, None) is inner
    assert target_model(inner, np.zeros(2)) is inner


class Stubborn(ClassifierMixin):
    """Two classes of probability ¼ and ¾, and always predicts the first."""

    classes_ = np.array(["a", "b"])

    def predict(self, X: Any) -> Any:
        return np.full(len(X), "a")

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.25, 0.75], (len(X), 1))

    def decision_function(self, X: Any) -> Any:
        return np.full(len(X), -1.0)


def test_a_scale_moves_probabilities_and_no_prediction() -> None:
    X = np.zeros((3, 1))
    model = target_model(Stubborn(), None, 2.0)
    np.testing.assert_allclose(model.predict_proba(X), [[0.1, 0.9]] * 3)  # 1 : 9
    assert model.predict(X).tolist() == ["a"] * 3
    assert model.decision_function(X).tolist() == [-1.0] * 3
    # With a shift by log 3, which makes the odds equal, the probabilities decide.
    even = target_model(Stubborn(), np.log([1.0, 3.0]), 2.0)
    np.testing.assert_allclose(even.predict_proba(X), 0.5)
    beyond = target_model(Stubborn(), np.log([1.0, 9.0]), 2.0)
    np.testing.assert_allclose(beyond.predict_proba(X), [[0.9, 0.1]] * 3)
    np.testing.assert_allclose(beyond.decision_function(X), -np.log(9.0))
    assert beyond.predict(X).tolist() == ["a"] * 3


@pytest.mark.parametrize("way", ["weights", "half", "logit"])
def test_the_sum_of_the_weights_is_the_number_of_images_that_they_are_worth(way: str) -> None:
    X, y, source = shifted(400)
    weight = door(way=way).fit(X, y, source=source).sample_weight_
    # Kish: (Σw)²/Σw²; of equal weights their number.
    assert weight.sum() == pytest.approx(np.square(weight).sum(), rel=1e-12)
    assert weight.sum() < 400 - 1e-9 or way == "logit"
    equal = DebiasedClassifier(way=way).fit(X, y)
    np.testing.assert_allclose(equal.sample_weight_, 1.0, rtol=1e-12)


def test_a_shift_survives_pickling_and_a_clone_forgets_it() -> None:
    X, y, source = shifted(200)
    model = door(way="half").fit(X, y, source=source)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.way_ == model.way_
    assert clone(model).way == "half"
    assert not hasattr(clone(model), "way_")


def test_design_weights_stay_weights_in_every_way() -> None:
    """A weight of two is an image twice, whatever the way."""
    X, y, _ = shifted(120)
    design = np.random.default_rng(3).integers(1, 4, 120)
    at = np.repeat(np.arange(120), design)
    for way in ("half", "logit"):
        model = DebiasedClassifier(None, None, RARE, way)
        weighted = clone(model).fit(X, y, sample_weight=design)
        repeated = clone(model).fit(X[at], y[at])
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-4)
        np.testing.assert_allclose(weighted.logit_shift_, repeated.logit_shift_, atol=1e-9)


def test_a_class_of_weight_zero_has_no_shift_and_is_not_predicted() -> None:
    X, y, _ = shifted(900)
    y[::9] = 2
    target = Target.margins({"label": {0: 0.3, 1: 0.7, 2: 0.0}})
    for way in ("half", "logit"):
        model = DebiasedClassifier(RandomForestClassifier(20, random_state=0), None, target, way)
        model.fit(X, y)
        assert (model.sample_weight_[y == 2] == 0).all()
        assert model.logit_shift_[2] == 0.0
        assert not (model.predict(X) == 2).any()


# Scores, searches and tables of other kinds


def test_a_score_on_the_target_is_that_of_the_way() -> None:
    X, y, source = shifted(400)
    losses = [
        float(door(way=way).target_score(X, y, source, scoring="neg_log_loss"))
        for way in ("weights", "half", "logit")
    ]
    assert len(set(losses)) == 3
    model = door(Counted()).fit(X[::2], y[::2], source=source[::2])
    held_out = {"X": X[1::2], "y": y[1::2], "source": source[1::2]}
    estimate = model.target_score(**held_out, cv=None)
    right = model.predict(X[1::2]) == y[1::2]
    share = np.where(y[1::2] == 1, 0.7 / np.mean(y[1::2] == 1), 0.3 / np.mean(y[1::2] == 0))
    assert estimate.value == pytest.approx(np.average(right, weights=share))


def test_searches_around_and_inside() -> None:
    X, y, source = shifted(300)
    order = np.random.default_rng(0).permutation(300)
    X, y, source = X[order], y[order], source[order]
    search = GridSearchCV(door(), {"way": ["auto", "weights", "half", "logit"]}, cv=2)
    search.fit(X, y, source=source)
    assert search.best_params_["way"] in ("auto", "weights", "half", "logit")
    inside = door(GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "half")
    assert inside.fit(X, y, source=source).estimator_.best_params_["C"] in (0.1, 1.0)
    assert inside.predict_proba(X).shape == (300, 2)


@pytest.mark.parametrize("routing", [False, True])
def test_a_pipeline_and_tables_of_pandas(routing: bool) -> None:
    X, y, source = shifted(2000)
    frame, label = pd.DataFrame(X, columns=["u", "v"]), pd.Series(np.array(["no", "yes"])[y])
    target = Target.margins({"label": {"no": 0.3, "yes": 0.7}})
    model = DebiasedClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), Strata("label"), target
    )
    with sklearn.config_context(enable_metadata_routing=routing):
        model.fit(frame, label, source=pd.Series(source))
    assert len(model.way_.scores) == 2
    plain = door(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y, source=source)
    np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(X), rtol=1e-9)
    assert model.way_ == plain.way_


def test_a_regressor_says_its_way() -> None:
    X, y, _ = shifted(50)
    model = DebiasedRegressor(Ridge(), way="weights").fit(X, y)
    assert (model.way_.way, model.way_.tau) == ("weights", 0.0)
    assert model.way_.reason == "weights: asked for."
