"""How an estimator's way is chosen: what is tried, on which images, and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shifted_labels import Counted, door, shifted
from unskew import DebiasedClassifier, Target
from unskew.bias import Strata
from unskew.estimators.dialled_fit import WeighedImages
from unskew.estimators.way_trials import fit_in_way
from unskew.learn.dial import turn_dial
from unskew.learn.ways import LEAST_ESS
from unskew.splits.folds import deal_folds


@pytest.fixture
def counted() -> list[dict[str, Any]]:
    Counted.fits.clear()
    return Counted.fits


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
    assert len(counted) == 2
    for model in (equal, design):
        assert (model.way_.way, model.way_.power, model.logit_scale_) == ("weights", 1.0, 1.0)
        assert "same fit" in model.way_.reason
    np.testing.assert_allclose(design.sample_weight_, 1.0 + y)


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
    for fit, tau in zip(counted, (0.0, 1.0), strict=False):
        dialled = turn_dial(weight, y[seen], 2, tau).weight
        np.testing.assert_allclose(fit["weight"], dialled / np.square(dialled).mean(), rtol=1e-9)
    assert [row.way for row in model.way_.scores] == ["weights", "logit"]
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


def tried(model: DebiasedClassifier) -> list[tuple[str, float]]:
    return [(row.way, row.power) for row in model.way_.scores]


def test_what_is_tried_depends_on_whose_the_weights_are(counted: Any) -> None:
    X, y, source = shifted(3000)
    part = (np.random.default_rng(5).random(3000) < 0.2 + 0.1 * y) * 1
    by_part = DebiasedClassifier(Counted(), Strata("part"), Target.uniform("part"))
    model = by_part.fit(X, y, source=source, attributes={"part": part})
    assert tried(model) == [("weights", 1.0), ("weights", 0.0)]
    by_label = door(Counted()).fit(X, y, source=source)
    assert tried(by_label) == [("weights", 1.0), ("logit", 1.0)]
    # Design weights are no part of it.
    design = np.random.default_rng(6).gamma(1.0, size=3000)
    again = door(Counted()).fit(X, y, source=source, sample_weight=design)
    assert tried(again) == tried(by_label)


class Favours(ClassifierMixin, BaseEstimator):
    """Told the label in column 1, it is surer of it, or right more often, with its ``favourite``.

    ``gap`` is the difference in the probability of the true class, ``wrong`` the share of images
    (counted by column 2, from 0 to 1) on which the other one is wrong.
    """

    def __init__(self, favourite: str = "equal", gap: float = 0.0, wrong: float = 0.0) -> None:
        self.favourite, self.gap, self.wrong = favourite, gap, wrong

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Favours:
        self.classes_ = np.unique(y)
        kind = "equal" if np.ptp(sample_weight) < 1e-9 else "weights"
        self.is_it_ = kind == self.favourite
        return self

    def predict_proba(self, X: Any) -> Any:
        # A quarter of the images is wrong in any case, so that 0.75 is calibrated.
        right = (np.arange(len(X)) % 4 > 0) & ((X[:, 2] >= self.wrong) | self.is_it_)
        own = np.where(right, 0.75, 0.25) + (self.gap if self.is_it_ else 0.0) * (2 * right - 1)
        other = (1 - X[:, 1]).astype(int)
        proba = np.empty((len(X), 2))
        proba[np.arange(len(X)), other], proba[np.arange(len(X)), 1 - other] = 1 - own, own
        return proba

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def flat(favourite: str, gap: float, wrong: float, n: int = 4000) -> Any:
    """Fit where the target has a half of what three quarters of the images lack."""
    rng = np.random.default_rng(0)
    part, y = (rng.random(n) < 0.25) * 1.0, rng.integers(0, 2, n)
    X = np.column_stack([part, y, rng.random(n)])
    model = DebiasedClassifier(
        Favours(favourite, gap, wrong), Strata("part"), Target.uniform("part")
    )
    return model.fit(X, y, attributes={"part": part}), part


@pytest.mark.parametrize(
    ("favourite", "gap", "wrong", "power"),
    [
        ("equal", 0.0, 0.1, 0.0),  # more often right, and by that its Brier score
        ("weights", 0.0, 0.1, 1.0),
        ("neither", 0.0, 0.0, 0.5),  # a tie
    ],
)
def test_weights_are_flattened_where_that_is_better(
    favourite: str, gap: float, wrong: float, power: float
) -> None:
    """A tie takes the middle, their square roots."""
    model, part = flat(favourite, gap, wrong)
    assert (model.way_.way, model.way_.power) == ("weights", power)
    ratio = np.ptp(np.log(model.sample_weight_))
    own = np.mean(part == 0) / np.mean(part == 1)
    assert ratio == pytest.approx(power * np.log(own), abs=1e-9)
    assert (model.way_.score is None) == (power == 0.5)
    if favourite == "equal":
        assert model.way_.scores[1].gain > 0.05
        assert model.way_.score <= model.way_.scores[1].score


def test_few_images_keep_their_weights() -> None:
    model, _ = flat("neither", 0.0, 0.0, n=300)
    assert (model.way_.way, model.way_.power, model.way_.scores) == ("weights", 1.0, ())
    assert model.way_.ess < LEAST_ESS


def test_trials_of_trees_are_averaged_in() -> None:
    """Few deep trees: the mean of two forests is better than one of them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    X = 1.2 * np.eye(3)[y] + rng.standard_normal((3000, 3))
    target = Target.margins({"label": {0: 0.5, 1: 0.3, 2: 0.2}})
    model = DebiasedClassifier(RandomForestClassifier(5, random_state=0), None, target)
    model.fit(X, y)
    assert len(model.trials_) == 2
    assert "averaged" in model.way_.reason
    proba = model.estimator_.predict_proba(X) * np.exp(-model.logit_shift_)
    proba /= proba.sum(axis=1, keepdims=True)
    proba = 2 / 3 * proba + sum(trial.predict_proba(X) for trial in model.trials_) / 6
    expected = proba**model.logit_scale_
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
    # A model that is its coefficients predicts alone, also inside a pipeline or a search; and one
    # that predicts the same at both ends.
    for inner in (
        None,
        GaussianNB(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
    ):
        assert DebiasedClassifier(inner, None, target).fit(X, y).trials_ == ()


@pytest.mark.parametrize("favourite", ["equal", "weights"])
def test_a_score_corrected_for_the_choice_is_not_higher(favourite: str) -> None:
    """The narrower the win, the more of it may be luck."""
    lucks = []
    for wrong in (0.01, 0.1):
        way = flat(favourite, 0.0, wrong)[0].way_
        own = next(row.score for row in way.scores if row.power == way.power)
        lucks.append(own - way.score)
        # Neither is it lower by more than the standard error of the difference.
        assert 0.0 <= lucks[-1] <= max(row.stderr for row in way.scores)
    assert lucks[0] > lucks[1]


def by_class(n: int, wrong: float, favourite: str) -> Any:
    """Fit where the weights depend on the class alone, so that "logit" is the fit with equal ones.

    The mean of both trials is right where one of them is sure.
    """
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.25) * 1
    X = np.column_stack([np.zeros(n), y, rng.random(n)])
    return DebiasedClassifier(
        Favours(favourite, 0.0, wrong), Strata("label"), Target.uniform("label")
    ).fit(X, y)


@pytest.mark.parametrize(("favourite", "way"), [("weights", "weights"), ("neither", "half")])
def test_weights_of_classes_stay_weights_where_that_is_better(favourite: str, way: str) -> None:
    """Half-way between the ends, unless one of them is better than the other and the mean."""
    model = by_class(4000, 0.3, favourite)
    assert (model.way_.way, model.way_.power) == (way, 1.0)
    assert tried(model) == [("weights", 1.0), ("logit", 1.0)]
    assert (model.way_.score is None) == (way == "half")
    assert ("between weights and logit" in model.way_.reason) == (way == "half")


def test_probabilities_that_are_not_sure_enough_are_scaled() -> None:
    """Forests average over trees, and are less sure than they could be."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    X = 2.5 * np.eye(3)[y] + rng.standard_normal((3000, 3))
    X = np.column_stack([X, rng.standard_normal((3000, 12))])
    target = Target.margins({"label": {0: 0.6, 1: 0.2, 2: 0.2}})
    forest = RandomForestClassifier(30, max_features=1, min_samples_leaf=5, random_state=0)
    model = DebiasedClassifier(forest, None, target).fit(X[:2000], y[:2000])
    assert model.logit_scale_ > 1.2
    shift = 0.0 if model.logit_shift_ is None else model.logit_shift_
    shifted_log = np.log(model.estimator_.predict_proba(X)) - shift
    expected = scipy.special.softmax(model.logit_scale_ * shifted_log, axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), shifted_log.argmax(axis=1))
    weight = np.array([0.6, 0.2, 0.2])[y[2000:]]
    plain = clone(model).set_params(way=model.way_.way).fit(X[:2000], y[:2000])
    assert plain.logit_scale_ == 1.0
    losses = [
        log_loss(y[2000:], one.predict_proba(X[2000:]), sample_weight=weight)
        for one in (model, plain)
    ]
    assert losses[0] < losses[1]


def test_a_right_model_keeps_its_probabilities() -> None:
    """Of ten, one may be scaled: what is asked for is two standard errors."""
    scales = []
    for seed in range(10):
        X, y, source = shifted(3000, seed)
        scales.append(door(LogisticRegression()).fit(X, y, source=source).logit_scale_)
    assert sum(scale != 1.0 for scale in scales) <= 2


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


@pytest.mark.filterwarnings("ignore::unskew.WeakOverlapWarning")
def test_a_class_that_no_held_out_image_has_is_not_passed_over(counted: Any) -> None:
    """A third of the target is one image, which is held out or not: nothing can be chosen."""
    X, y, source = shifted(3000)
    y[5] = 2
    for seed in range(4):
        counted.clear()
        model = DebiasedClassifier(Counted(), target=Target.uniform("label"), random_state=seed)
        way = model.fit(X, y, source=source).way_
        assert (way.way, len(counted)) == ("half", 1)
        # 1/(q² + (1 − q)²/ess) ≤ 1/q² where the image is not held out; fewer where it is.
        assert 0 < way.ess <= 9.0 + 1e-9
        assert "300" in way.reason


def test_a_trial_that_fails_leaves_the_start(counted: Any) -> None:
    X, y, source = shifted(3000)
    least = int(min(np.bincount(y)))
    model = door(Counted(least)).fit(X, y, source=source)
    assert model.way_.way == "half"
    assert "too few images of a class" in model.way_.reason
    assert len(counted) == 1
    with pytest.raises(ValueError, match="too few images of a class"):
        door(Counted(least + 1)).fit(X, y, source=source)


def test_every_fold_chooses_on_its_own_images(counted: Any) -> None:
    X, y, source = shifted(1500)
    door(Counted()).target_score(X, y, source, cv=2)
    # The 375 images that would judge are not worth 300; with five folds 600 are.
    assert [len(fit["y"]) for fit in counted] == [750, 750]
    counted.clear()
    estimate = door(Counted()).target_score(X, y, source, cv=5)
    assert [len(fit["y"]) for fit in counted] == [600, 600, 1200] * 5
    assert 0.5 < estimate.value < 1.0
