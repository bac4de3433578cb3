"""Ways of a scikit-learn estimator: refused or chosen, and predictions that are the target's."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from raising import refused
from unskew import DebiasedClassifier, DebiasedRegressor, Pool, Target
from unskew.bias import Strata
from unskew.errors import ConfigError
from unskew.estimators.dialled_fit import WeighedImages, fit_in_way, target_model
from unskew.learn import make_baseline
from unskew.learn.dial import turn_dial
from unskew.learn.ways import LEAST_ESS
from unskew.splits.folds import deal_folds


class Counted(ClassifierMixin, BaseEstimator):
    """A Gaussian naive Bayes that keeps what every fit was given; ``least`` images of a class."""

    fits: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def fit(self, X: Any, y: Any, sample_weight: Any = None, hint: Any = None) -> Counted:
        if np.unique(y, return_counts=True)[1].min() < self.least:
            raise ValueError("too few images of a class")
        Counted.fits.append({"X": X, "y": y, "weight": sample_weight, "hint": hint})
        self.inner_ = GaussianNB().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.inner_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.inner_.predict_proba(X)


@pytest.fixture
def counted() -> list[dict[str, Any]]:
    Counted.fits.clear()
    return Counted.fits


def shifted(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Two sources with 80% and 40% of class 0; classes N(−1, I) and N(1, I) in two dimensions."""
    rng = np.random.default_rng(seed)
    source = np.repeat(["day", "night"], [n - n // 4, n // 4])
    y = (rng.random(n) > np.where(source == "day", 0.8, 0.4)).astype(int)
    return 2.0 * y[:, None] - 1.0 + rng.standard_normal((n, 2)), y, source


RARE = Target.margins({"label": {0: 0.3, 1: 0.7}})


def door(estimator: Any = None, way: str = "auto") -> DebiasedClassifier:
    return DebiasedClassifier(estimator, Strata("label"), RARE, way)


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
    np.testing.assert_allclose(fitted.sample_weight_, fitted.weights_.sample_weight, rtol=1e-12)


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
    assert model.sample_weight_.sum() == pytest.approx(400)


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


# How auto chooses


def test_few_images_are_not_tried_out(counted: Any) -> None:
    X, y, source = shifted(600)
    model = door(Counted()).fit(X, y, source=source)
    assert len(counted) == 1
    assert (model.way_.way, model.way_.scores, model.way_.score) == ("half", (), None)
    assert model.way_.ess is not None
    assert 0 < model.way_.ess < LEAST_ESS
    assert "300" in model.way_.reason


@pytest.mark.filterwarnings("ignore::unskew.WeakOverlapWarning")
def test_three_images_can_be_fitted() -> None:
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    model = DebiasedClassifier(target=Target.uniform("label"))
    assert model.fit(X, y).way_.way == "half"
    # Copies of one another: nothing can be held out.
    assert model.fit(np.zeros((3, 1)), y).way_.ess == 0.0


def test_ways_that_are_the_same_fit_are_not_tried_out(counted: Any) -> None:
    X, y, _ = shifted(2000)
    equal = DebiasedClassifier(Counted()).fit(X, y)
    design = DebiasedClassifier(Counted()).fit(X, y, sample_weight=1.0 + y)
    # Weights that differ within each class, and not between classes.
    by_part = Target.margins({"part": {0: 0.3, 1: 0.7}})
    alike = DebiasedClassifier(Counted(), Strata("part"), by_part).fit(
        X, np.arange(2000) % 2, attributes={"part": np.arange(2000) // 2 % 2}
    )
    assert len(counted) == 3
    for model in (equal, design, alike):
        assert model.way_.way == "weights"
        assert "same fit" in model.way_.reason
    assert np.ptp(alike.sample_weight_) > 0.5


def test_trials_learn_from_half_of_the_images_and_whole_units(counted: Any) -> None:
    X, y, source = shifted(4500)
    X[1::3] = X[::3]  # copies
    hint, group = np.arange(4500), np.arange(4500) // 3
    group[1::3] += 10_000
    model = door(Counted()).fit(X, y, source=source, group=group, hint=hint)
    assert [len(fit["y"]) for fit in counted] == [2250, 2250, 4500]
    seen = counted[0]["hint"]
    for fit in counted[:2]:
        np.testing.assert_array_equal(fit["hint"], seen)
        np.testing.assert_array_equal(fit["X"], X[seen])
    # Three images in a row belong together: by their group the first and the third, as copies the
    # first and the second.
    assert np.unique(seen // 3).size == 750
    # The dial is turned on the images that a trial learns from.
    weight = model.weights_.sample_weight[seen]
    for fit, tau in zip(counted, (0.5, 1.0), strict=False):
        np.testing.assert_allclose(
            fit["weight"],
            turn_dial(weight, y[seen], 2, tau).weight * weight.mean(),
            rtol=1e-9,
        )
    assert [row.way for row in model.way_.scores] == ["half", "logit"]
    np.testing.assert_array_equal(counted[2]["weight"], model.sample_weight_)
    again = door(Counted()).fit(X, y, source=source, group=group, hint=hint)
    assert again.way_ == model.way_


def test_the_choice_is_that_of_the_held_out_images() -> None:
    """Trials scored by hand: accuracy weighted to the target."""
    X, y, source = shifted(3000)
    images = WeighedImages(
        X,
        y,
        door(way="weights").fit(X, y, source=source).sample_weight_,
        None,
        (source == "day") * 1,
    )
    found = fit_in_way(LogisticRegression(), images, "auto", seed=4)
    fold = deal_folds(np.arange(3000), images.source * 2 + y, 2, 4)
    train, judge = np.flatnonzero(fold == 1), np.flatnonzero(fold == 0)
    for row in found.choice.scores:
        model = fit_in_way(LogisticRegression(), images.take(train), row.way).model
        right = model.predict(X[judge]) == y[judge]
        assert row.score == pytest.approx(np.average(right, weights=images.weight[judge]))


def test_the_rival_of_half_depends_on_whose_the_weights_are(counted: Any) -> None:
    X, y, source = shifted(3000)
    part = (np.random.default_rng(5).random(3000) < 0.2 + 0.1 * y) * 1
    by_part = DebiasedClassifier(Counted(), Strata("part"), Target.uniform("part"))
    model = by_part.fit(X, y, source=source, attributes={"part": part})
    assert [row.way for row in model.way_.scores] == ["weights", "half"]
    by_label = door(Counted()).fit(X, y, source=source)
    assert [row.way for row in by_label.way_.scores] == ["half", "logit"]
    # Design weights are no part of it.
    design = np.random.default_rng(6).gamma(1.0, size=3000)
    again = door(Counted()).fit(X, y, source=source, sample_weight=design)
    assert [row.way for row in again.way_.scores] == ["half", "logit"]


def test_a_class_that_the_trials_have_not_seen_counts_as_wrong(counted: Any) -> None:
    X, y, source = shifted(3000)
    y[[5, 2995]] = 2, 3  # one image a class
    target = Target.margins({"label": {0: 0.3, 1: 0.68, 2: 0.01, 3: 0.01}})
    for seed in range(4):
        counted.clear()
        model = DebiasedClassifier(Counted(), Strata("label"), target, random_state=seed)
        model.fit(X, y, source=source)
        assert model.classes_.tolist() == [0, 1, 2, 3]
        assert model.predict_proba(X).shape == (3000, 4)
        assert np.isfinite(model.predict_proba(X)).all()
        if len(counted) == 3 and len(np.unique(counted[0]["y"])) < 4:
            assert all(row.score < 1 for row in model.way_.scores)


def test_a_trial_that_fails_leaves_the_start(counted: Any) -> None:
    X, y, source = shifted(3000)
    least = int(min(np.bincount(y)))
    model = door(Counted(least)).fit(X, y, source=source)
    assert model.way_.way == "half"
    assert "too few images of a class" in model.way_.reason
    assert len(counted) == 1
    with pytest.raises(ValueError, match="too few images of a class"):
        door(Counted(least + 1)).fit(X, y, source=source)


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


def test_a_score_on_the_target_is_that_of_the_way(counted: Any) -> None:
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


def test_every_fold_chooses_on_its_own_images(counted: Any) -> None:
    X, y, source = shifted(1500)
    door(Counted()).target_score(X, y, source, cv=2)
    # The 375 images that would judge are not worth 300; with five folds 600 are.
    assert [len(fit["y"]) for fit in counted] == [750, 750]
    counted.clear()
    estimate = door(Counted()).target_score(X, y, source, cv=5)
    assert [len(fit["y"]) for fit in counted] == [600, 600, 1200] * 5
    assert 0.5 < estimate.value < 1.0


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
