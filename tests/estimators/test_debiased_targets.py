"""The scikit-learn door on biased sources whose truth is known: better on the target than naive
pooling, and honest about it.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV

import unskew
from unskew import DebiasedClassifier, DebiasedRegressor, Pool, Target
from unskew.bias import Box, Known, Product, SoftBox, Strata, Subpopulation, Tilt
from unskew.errors import CoverageError, DataError, UnskewWarning
from unskew.estimators.held_out import cross_fit_scores
from unskew.estimators.pool_from_xy import GivenImages
from unskew.estimators.target_score import score_images
from unskew.estimators.target_weights import weigh_images
from unskew.records.target import THE_TARGET


class Threshold(ClassifierMixin, BaseEstimator):
    """Class 1 above 1/2, whatever it is shown: its accuracy and AUC on a target of Gaussian classes
    are known.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Threshold:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return np.asarray(X)[:, 0]

    def predict(self, X: Any) -> Any:
        return (np.asarray(X)[:, 0] > 0.5).astype(int)


def _draw(y: Any, rng: Any) -> Any:
    """Class 0 is N(−1, 1), class 1 is N(1, 1)."""
    return (2.0 * y - 1.0 + rng.standard_normal(y.size))[:, None]


def _label_shift(sizes: Any, seed: int) -> tuple[Any, Any, Any]:
    """Two sources with 90% and 60% of class 0; a target that has 20% of it."""
    scenario = unskew.scenarios.class_mixtures([[0.9, 0.1], [0.6, 0.4]], sizes=sizes, rng=seed)
    assert scenario.label is not None
    return (
        _draw(scenario.label, np.random.default_rng(seed)),
        scenario.label,
        np.array(["day", "night"])[scenario.source],
    )


SHIFTED = Target.margins({"label": {0: 0.2, 1: 0.8}})


def test_label_shift_is_undone() -> None:
    X, y, source = _label_shift([1500, 500], seed=1)
    rng = np.random.default_rng(2)
    y_target = (rng.random(40000) < 0.8).astype(int)
    X_target = _draw(y_target, rng)
    model = DebiasedClassifier(bias=Strata("label"), target=SHIFTED).fit(X, y, source=source)
    by_weights = clone(model).set_params(way="weights").fit(X, y, source=source)
    naive = LogisticRegression().fit(X, y)
    # Bayes: log odds 2x + log 4 > 0, hence the threshold −log(4)/2
    bayes = 0.2 * norm.cdf(-np.log(4) / 2 + 1) + 0.8 * norm.cdf(np.log(4) / 2 + 1)
    for each in (model, by_weights):
        assert each.score(X_target, y_target) == pytest.approx(bayes, abs=0.006)
    assert naive.score(X_target, y_target) < bayes - 0.05
    weights = unskew.debias(Pool.from_arrays(source, label=y), Strata("label"), SHIFTED)
    np.testing.assert_allclose(
        by_weights.sample_weight_, weights.weight / np.square(weights.weight).sum(), rtol=1e-12
    )
    assert model.weights_.mean(y).value == pytest.approx(0.8)
    # without a bias model, the target's own attributes are the strata
    default = DebiasedClassifier(target=SHIFTED).fit(X, y, source=source)
    np.testing.assert_array_equal(default.sample_weight_, model.sample_weight_)
    # and what the held-out images say of the target is true
    low, high = model.target_score(X, y, source=source).interval
    assert low <= bayes <= high


def test_a_score_on_a_part_of_the_target_says_so_once() -> None:
    X, y, source = _label_shift([150, 50], seed=1)
    restricted = Target.margins({"label": {0: 0.2, 1: 0.7, 2: 0.1}}, uncovered="restrict")
    with pytest.warns(UnskewWarning, match=r"label = 2 \(0\.1\)") as caught:
        DebiasedClassifier(target=restricted).target_score(X, y, source=source)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("bias", "target"),
    [
        (Box(["x"]), None),
        (SoftBox(["x"]), None),
        (Subpopulation({"a": "x < 1", "b": "x > 0"}), None),
        (Product(Strata("label"), Box(["x"])), SHIFTED),
    ],
)
def test_a_score_on_what_the_bias_model_reaches_says_so(bias: Any, target: Any) -> None:
    """With the population that `debias` names for the same pool."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": np.concatenate([rng.uniform(-1, 1, 300), rng.uniform(0, 2, 300)])})
    y, source = (
        (X["x"] + rng.normal(0, 0.5, 600) > 0.5).astype(int).to_numpy(),
        np.repeat(["a", "b"], 300),
    )
    weights = unskew.debias(Pool.from_arrays(source, label=y, x=X["x"]), bias, target)
    population = weights.describe().population
    assert population != THE_TARGET
    with pytest.warns(UnskewWarning, match=re.escape(population)):
        DebiasedClassifier(bias=bias, target=target).target_score(X, y, source=source)


def test_a_score_on_all_of_the_population_needs_no_warning() -> None:
    X, y, source = _label_shift([150, 50], seed=1)
    model = DebiasedClassifier(bias=Subpopulation(dict.fromkeys(sorted(set(source)), "all")))
    assert model.target_score(X, y, source=source).value > 0.5


def test_weights_with_design_weights_meet_the_target() -> None:
    X, y, source = _label_shift([300, 200], seed=3)
    design = np.random.default_rng(4).uniform(0.5, 2.0, 500)
    model = DebiasedClassifier(target=SHIFTED, way="weights").fit(
        X, y, source=source, sample_weight=design
    )
    weights = unskew.debias(
        Pool.from_arrays(source, label=y, design_weight=design), Strata("label"), SHIFTED
    )
    # Their sum is what they are worth: an image of design weight d is d images.
    worth = 1.0 / np.sum(np.square(weights.weight) / design)
    np.testing.assert_allclose(model.sample_weight_, weights.weight * worth, rtol=1e-12, atol=0)
    (margin,) = SHIFTED.facts
    for (level,), mass in zip(margin.cells, margin.mass, strict=True):
        share = weights.weight[y.astype(str) == level].sum()
        assert share == pytest.approx(mass / sum(margin.mass), rel=1e-12)


def test_design_weights_of_a_fit_are_repeated_images() -> None:
    X, y, source = _label_shift([40, 40], seed=3)
    rng = np.random.default_rng(4)
    # Sources keep their shares of the images: their design weights have the same mean.
    design = np.concatenate([rng.permutation(np.repeat([1, 2, 3, 2], 10)) for _ in range(2)])
    at = np.repeat(np.arange(80), design)
    model = DebiasedClassifier(target=SHIFTED)
    weighted = model.fit(X, y, source=source, sample_weight=design).estimator_.coef_
    again = DebiasedClassifier(target=SHIFTED).fit(
        X.iloc[at].reset_index(drop=True) if hasattr(X, "iloc") else X[at], y[at], source=source[at]
    )
    np.testing.assert_allclose(weighted, again.estimator_.coef_, rtol=1e-4)


def test_covariate_shift_is_undone() -> None:
    """y = x² + noise: the best line is y = 1 on a target N(0, 1), and rises by 2m on N(m, 1)."""
    rng = np.random.default_rng(5)
    source = np.repeat(["left", "right"], [150, 450])
    x = np.where(source == "left", -0.5, 0.8) + rng.standard_normal(600)
    y = x**2 + 0.1 * rng.standard_normal(600)
    X = pd.DataFrame({"x": x})
    target = Target.sample(Pool.from_arrays(["t"] * 300, x=rng.standard_normal(300)))
    model = DebiasedRegressor(LinearRegression(), Tilt(["x"]), target).fit(X, y, source=source)
    naive = LinearRegression().fit(X, y)
    assert naive.coef_[0] > 0.65
    # the slope of x² on x has a standard deviation of about √(15/n), with a few hundred effective
    # images
    assert abs(model.estimator_.coef_[0]) < 0.35
    # E(z² − a − bz)² = 3 − 2a + a² + b²
    a, b = model.estimator_.intercept_, model.estimator_.coef_[0]
    truth = -(3.0 - 2.0 * a + a**2 + b**2 + 0.01)
    estimate = model.target_score(X, y, source=source, scoring="neg_mean_squared_error")
    assert abs(estimate.value - truth) < 3 * estimate.stderr


def test_regression_target_in_bins() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(0, 10, (400, 1))
    y = X[:, 0] + 0.1 * rng.standard_normal(400)
    y = y.clip(0, 10)
    target = Target.margins({"label": {"[0, 2)": 0.5, "[2, 10]": 0.5}}, bins={"label": [0, 2, 10]})
    model = DebiasedRegressor(target=target).fit(X, y, source=["a", "b"] * 200)
    assert np.average(y < 2, weights=model.sample_weight_) == pytest.approx(0.5)


def test_attributes_that_the_model_does_not_see() -> None:
    rng = np.random.default_rng(7)
    n = 600
    country = rng.choice(["fr", "de"], n, p=[0.8, 0.2])
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 2)) + y[:, None]
    model = DebiasedClassifier(
        bias=Strata("country"), target=Target.uniform("country"), way="weights"
    )
    model.fit(X, y, source=["a", "b", "c"] * 200, attributes=pd.DataFrame({"country": country}))
    assert model.n_features_in_ == 2
    assert np.average(country == "fr", weights=model.sample_weight_) == pytest.approx(0.5)


def test_known_biasing_functions_of_columns() -> None:
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"x": rng.uniform(0, 1, 300)})
    y = rng.integers(0, 2, 300)
    model = DebiasedClassifier(bias=Known({"a": "w"})).fit(
        X, y, source=["a"] * 300, attributes={"w": 1.0 + X["x"]}
    )
    np.testing.assert_allclose(model.weights_.weight * (1.0 + X["x"]), 1 / np.sum(1 / (1 + X["x"])))


# Parameters of the bias model


def test_grid_search_reaches_into_bias_and_target() -> None:
    rng = np.random.default_rng(9)
    X = rng.standard_normal((300, 2))
    y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
    # mixed, because scikit-learn's folds are blocks of rows
    source = rng.permutation(np.repeat(["survey", "web"], 150))
    X[source == "web"] += 0.5
    model = DebiasedClassifier(LogisticRegression(), Tilt(["x_0", "x_1"]), Target.source("survey"))
    assert model.get_params()["bias__degree"] == 1
    grid = {
        "estimator__C": [0.1, 1.0],
        "bias__degree": [1, 2],
        "bias__features": [("x_0",), ("x_0", "x_1")],
    }
    search = GridSearchCV(model, grid, cv=2).fit(X, y, source=source)
    assert set(search.best_params_) == set(grid)
    assert search.best_estimator_.bias == Tilt(
        search.best_params_["bias__features"], degree=search.best_params_["bias__degree"]
    )
    assert model.bias == Tilt(["x_0", "x_1"])


def test_estimated_weights_survive_pickling() -> None:
    X, y, source = _label_shift([300, 200], seed=10)
    model = DebiasedClassifier(target=SHIFTED).fit(X, y, source=source)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.weights_.mean(X[:, 0]) == model.weights_.mean(X[:, 0])


# What the target cannot say


def test_columns_and_levels_that_are_not_there() -> None:
    X, y, source = _label_shift([30, 20], seed=11)
    with pytest.raises(DataError, match="'country'"):
        DebiasedClassifier(target=Target.uniform("country")).fit(X, y, source=source)
    with pytest.raises(CoverageError, match="label = 2"):
        DebiasedClassifier(target=Target.margins({"label": {0: 0.5, 1: 0.3, 2: 0.2}})).fit(
            X, y, source=source
        )


# Are the error bars of target scores right?

AREA = norm.cdf(np.sqrt(2.0))
RIGHT = 0.2 * norm.cdf(1.5) + 0.8 * norm.cdf(0.5)
BALANCED = 0.5 * norm.cdf(1.5) + 0.5 * norm.cdf(0.5)


def _hits(
    scoring: str, truth: float, n_draws: int, bias: Any, n: int, group: bool = False
) -> float:
    """Share of draws whose interval holds the truth; with ``group``, every image stands there three
    times in its group.
    """
    hits = 0
    model = DebiasedClassifier(Threshold(), bias)
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, 100])
        X, y, source = _label_shift([n, n], seed=seed)
        if group:
            X, y, source = (np.repeat(each, 3, axis=0) for each in (X, y, source))
        model.target = SHIFTED
        if isinstance(bias, Tilt):
            model.target = Target.sample(
                Pool.from_arrays(["t"] * n, label=(rng.random(n) < 0.8).astype(int))
            )
        model.estimator_, model.logit_shift_, model.logit_scale_ = Threshold().fit(X, y), None, 1.0
        model.trials_ = ()
        given = {"group": np.arange(len(y)) // 3} if group else {}
        estimate = model.target_score(X, y, source=source, scoring=scoring, cv=None, **given)
        hits += estimate.interval[0] <= truth <= estimate.interval[1]
    return hits / n_draws


@pytest.mark.parametrize(("scoring", "truth"), [("accuracy", RIGHT), ("roc_auc", AREA)])
def test_intervals_of_target_scores_cover_the_truth(scoring: str, truth: float) -> None:
    # 95% ± 3 binomial standard errors of 80 draws
    assert _hits(scoring, truth, 80, Strata("label"), n=150) >= 0.877


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize(
    ("scoring", "truth"), [("accuracy", RIGHT), ("roc_auc", AREA), ("balanced_accuracy", BALANCED)]
)
def test_intervals_of_target_scores_cover_the_truth_at_length(
    scoring: str, truth: float, group: bool
) -> None:
    # 95% ± 3 binomial standard errors of 500 draws
    assert 0.92 <= _hits(scoring, truth, 500, Strata("label"), n=300, group=group) <= 0.98


@pytest.mark.slow
def test_intervals_account_for_the_sample_of_the_target() -> None:
    """The target is known by 150 labels: that alone moves the accuracy by 0.24 √(0.16/150) =
    0.008.
    """
    # 95% ± 3 binomial standard errors of 150 draws
    assert 0.897 <= _hits("accuracy", RIGHT, 150, Tilt(["label"]), n=150) <= 1.0


@pytest.mark.slow
def test_intervals_of_cross_fitted_scores_cover_the_mean_score_of_the_folds_models() -> None:
    """Every fold's model has a threshold t and the accuracy 0.2 Φ(1 + t) + 0.8 Φ(1 − t) on the
    target.
    """
    hits = 0
    for seed in range(300):
        X, y, source = _label_shift([150, 150], seed=seed)
        weighing = weigh_images(GivenImages(X, y, source), None, SHIFTED, None)
        held_out = cross_fit_scores(
            LogisticRegression(),
            GivenImages(X, y, source),
            weighing,
            5,
            keep_copies_together=True,
            seed=0,
        )
        cut_f = np.array(
            [-part.model.model.intercept_[0] / part.model.model.coef_[0, 0] for part in held_out]
        )
        mass_f = np.array([weighing.weight[part.rows].sum() for part in held_out])
        truth = mass_f @ (0.2 * norm.cdf(1 + cut_f) + 0.8 * norm.cdf(1 - cut_f))
        low, high = score_images(held_out, "accuracy", weighing, 0.95).interval
        hits += low <= truth <= high
    # 95% ± 3 binomial standard errors of 300 draws
    assert 0.912 <= hits / 300 <= 0.988
