"""Scores on the target from held-out images: closed forms, agreement with scikit-learn's scorers,
folds, coverage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, make_scorer, max_error, roc_auc_score
from sklearn.model_selection import GroupKFold, ShuffleSplit

from raising import refused
from unskew import DebiasedClassifier, DebiasedRegressor, Target
from unskew.bias import Strata
from unskew.errors import ConfigError, DataError
from unskew.estimators.held_out import HeldOut, Remembering
from unskew.estimators.target_score import gather_cells, image_values
from unskew.splits.folds import deal_folds, find_copies, join_units


@pytest.fixture
def classes() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 120)
    X = np.eye(3)[y] + rng.standard_normal((120, 3))
    return X, y, rng.uniform(0.2, 3.0, 120)


@pytest.fixture
def two_classes() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    y = (rng.random(200) < 0.3).astype(int)
    X = y[:, None] + rng.standard_normal((200, 2))
    return X, y, rng.uniform(0.2, 3.0, 200)


@pytest.fixture
def numbers() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((220, 2))
    return X, 5.0 + X @ [1.0, -2.0] + rng.standard_normal(220), rng.uniform(0.2, 3.0, 220)


# Values


def test_a_constant_classifier_scores_the_target_share_of_its_class(classes: Any) -> None:
    X, y, design = classes
    model = DebiasedClassifier(DummyClassifier(strategy="constant", constant=1))
    estimate = model.target_score(X, y, scoring="accuracy")
    assert estimate.value == pytest.approx(np.mean(y == 1))
    assert estimate.stderr == pytest.approx(np.std(y == 1, ddof=1) / np.sqrt(120))
    weighted = model.target_score(X, y, sample_weight=design)
    assert weighted.value == pytest.approx(np.average(y == 1, weights=design))
    # the same through groups of one, and known exactly where a moment says so
    assert model.target_score(X, y, group=np.arange(120)).stderr == pytest.approx(estimate.stderr)
    known = DebiasedClassifier(model.estimator, moments={"right": 0.25}).target_score(
        X, y, attributes={"right": (y == 1) * 1.0}
    )
    assert (known.value, known.stderr) == (pytest.approx(0.25), 0.0)


CLASSIFIED = [
    "accuracy",
    "balanced_accuracy",
    "f1_macro",
    "neg_log_loss",
    "neg_brier_score",
    "roc_auc_ovr",
    "matthews_corrcoef",
]
BINARY = [
    "accuracy",
    "f1",
    "roc_auc",
    "average_precision",
    "neg_log_loss",
    "neg_brier_score",
    "jaccard",
]
REGRESSED = [
    "r2",
    "explained_variance",
    "neg_mean_squared_error",
    "neg_root_mean_squared_error",
    "neg_mean_absolute_error",
    "neg_median_absolute_error",
    "neg_mean_absolute_percentage_error",
]


def _agree(door: Any, data: Any, scoring: str) -> None:
    X, y, design = data
    half = np.arange(len(y)) < len(y) // 2
    fitted = door.fit(X[half], y[half], sample_weight=design[half])
    estimate = fitted.target_score(
        X[~half], y[~half], sample_weight=design[~half], scoring=scoring, cv=None
    )
    score = get_scorer(scoring)(fitted, X[~half], y[~half], sample_weight=design[~half])
    assert estimate.value == pytest.approx(score, abs=1e-12)
    assert 0.0 < estimate.stderr < 1.0
    assert estimate.interval[0] < estimate.value < estimate.interval[1]


@pytest.mark.parametrize("scoring", CLASSIFIED)
def test_scores_of_several_classes_agree_with_the_scorer(classes: Any, scoring: str) -> None:
    _agree(DebiasedClassifier(), classes, scoring)


@pytest.mark.parametrize("scoring", BINARY)
def test_scores_of_two_classes_agree_with_the_scorer(two_classes: Any, scoring: str) -> None:
    _agree(DebiasedClassifier(), two_classes, scoring)


@pytest.mark.parametrize("scoring", REGRESSED)
def test_scores_of_numbers_agree_with_the_scorer(numbers: Any, scoring: str) -> None:
    _agree(DebiasedRegressor(), numbers, scoring)


def test_folds_are_averaged_by_their_target_weight(two_classes: Any) -> None:
    X, y, design = two_classes
    estimate = DebiasedClassifier().target_score(
        X, y, sample_weight=design, scoring="roc_auc", cv=GroupKFold(4)
    )
    scores, masses = [], []
    for train, test in GroupKFold(4).split(X, y, groups=np.arange(200)):
        inner = LogisticRegression().fit(X[train], y[train], design[train])
        scores.append(
            roc_auc_score(y[test], inner.decision_function(X[test]), sample_weight=design[test])
        )
        masses.append(design[test].sum())
    assert estimate.value == pytest.approx(np.average(scores, weights=masses), abs=1e-6)


def test_named_and_home_made_scorers_agree(numbers: Any) -> None:
    X, y, design = numbers

    def r2(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
        residual = y - estimator.predict(X)
        return 1.0 - np.average(residual**2, weights=sample_weight) / np.cov(
            y, aweights=sample_weight, ddof=0
        )

    model = DebiasedRegressor(LinearRegression())
    own = model.target_score(X, y, sample_weight=design, scoring=r2)
    named = model.target_score(X, y, sample_weight=design)
    assert own.value == pytest.approx(named.value, abs=1e-12)
    assert own.stderr == pytest.approx(named.stderr, rel=1e-3)


def test_a_scorer_that_looks_at_the_images_themselves(numbers: Any) -> None:
    X, y, _ = numbers

    def mean_feature(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
        return float(np.average(X[:, 0], weights=sample_weight))

    estimate = DebiasedRegressor().target_score(X, y, scoring=mean_feature)
    assert estimate.value == pytest.approx(X[:, 0].mean())
    # differences of second order
    assert estimate.stderr == pytest.approx(X[:, 0].std(ddof=1) / np.sqrt(220), rel=1e-4)


# Derivatives


class _Fixed(BaseEstimator):
    """A model whose decision value or prediction is its only feature."""

    classes_ = np.array([0, 1])

    def __init__(self, kind: str = "classifier") -> None:
        self.kind = kind

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> _Fixed:
        return self

    def __sklearn_tags__(self) -> Any:
        return (
            LogisticRegression() if self.kind == "classifier" else LinearRegression()
        ).__sklearn_tags__()

    def decision_function(self, X: Any) -> Any:
        return X[:, 0]

    def predict(self, X: Any) -> Any:
        return (X[:, 0] > 0) * 1 if self.kind == "classifier" else X[:, 0]


def _part(score: Any, y: Any, kind: str = "classifier") -> HeldOut:
    return HeldOut(
        np.arange(len(y)), Remembering(_Fixed(kind), np.asarray(score)[:, None]), np.asarray(y)
    )


@pytest.mark.parametrize(
    "scoring", ["roc_auc", make_scorer(roc_auc_score, response_method="decision_function")]
)
def test_influence_on_the_area_under_the_curve(scoring: Any) -> None:
    """In closed form, and by differences for cells of like images: s_i − S = (P(a negative scores
    below s_i) − S)/w⁺ for a positive.
    """
    rng = np.random.default_rng(4)
    y = (rng.random(400) < 0.3).astype(int)
    score = np.round(y + rng.standard_normal(400), 2)
    weight = rng.uniform(0.5, 2.0, 400)
    weight /= weight.sum()
    value_f = image_values(_part(score, y), scoring, weight)
    below = (
        np.array([weight @ ((y == 0) * ((score < each) + 0.5 * (score == each))) for each in score])
        / weight[y == 0].sum()
    )
    above = (
        np.array([weight @ ((y == 1) * ((score > each) + 0.5 * (score == each))) for each in score])
        / weight[y == 1].sum()
    )
    area = roc_auc_score(y, score, sample_weight=weight)
    exact = area + np.where(
        y == 1, (below - area) / weight[y == 1].sum(), (above - area) / weight[y == 0].sum()
    )
    assert weight @ value_f == pytest.approx(area, abs=1e-12)
    # within a cell the derivatives are averaged: what is lost of the variance is the square of a
    # cell's share of the ranks
    np.testing.assert_allclose(
        value_f, exact, atol=(1e-12 if scoring == "roc_auc" else 0.1) * np.abs(exact - area).max()
    )
    assert weight**2 @ (value_f - area) ** 2 == pytest.approx(
        weight**2 @ (exact - area) ** 2, rel=0.01
    )


def test_influence_on_f1() -> None:
    """F = 2a/(2a + b), a the mass of true positives and b of errors: dF = 2(b da − a db)/(2a +
    b)².
    """
    rng = np.random.default_rng(5)
    y = (rng.random(300) < 0.4).astype(int)
    score = y - 0.5 + rng.standard_normal(300)
    weight = rng.uniform(0.5, 2.0, 300)
    weight /= weight.sum()
    hit, miss = (y == 1) & (score > 0), (y == 1) != (score > 0)
    a, b = weight[hit].sum(), weight[miss].sum()
    exact = 2 * a / (2 * a + b) + 2 * (b * hit - a * miss) / (2 * a + b) ** 2
    np.testing.assert_allclose(
        image_values(_part(score, y), "f1", weight), exact, rtol=5e-3, atol=5e-3
    )


@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error"])
def test_closed_forms_are_the_derivatives(scoring: str) -> None:
    rng = np.random.default_rng(6)
    predicted = rng.standard_normal(120)
    y = predicted + rng.standard_normal(120)
    weight = np.full(120, 1 / 120)
    part = _part(predicted, y, "regressor")
    exact = image_values(part, scoring, weight)
    numeric = image_values(
        part,
        make_scorer(lambda *given, **more: get_scorer(scoring)._score_func(*given, **more)),
        weight,
    )
    sign = -1.0 if scoring.startswith("neg") else 1.0
    np.testing.assert_allclose(sign * numeric, exact, atol=2e-3 * np.ptp(exact))


def test_the_error_of_a_median_is_that_of_the_textbook() -> None:
    """|e| uniform on (0, 1): the median of n has standard error 1/(2√n)."""
    rng = np.random.default_rng(7)
    y = rng.random(4000)
    estimate = DebiasedRegressor(_Fixed("regressor")).fit(np.zeros((4000, 1)), y)
    result = estimate.target_score(
        np.zeros((4000, 1)), y, scoring="neg_median_absolute_error", cv=None
    )
    assert result.value == pytest.approx(-0.5, abs=0.03)
    # the density is read off a window of ±1/(2√n), which holds about 2√n · 1/2 images: 10% noise
    assert result.stderr == pytest.approx(0.5 / np.sqrt(4000), rel=0.3)


def test_cells_are_distinct_rows_or_halves_of_like_ones() -> None:
    label = np.repeat(["a", "b", "b", "c"], 50)
    assert gather_cells([label, np.ones(200)], 10).tolist() == np.repeat([0, 1, 1, 2], 50).tolist()
    rng = np.random.default_rng(8)
    score = rng.standard_normal(5000)
    label = rng.integers(0, 3, 5000)
    cell = gather_cells([label, score], 200)
    assert 100 < cell.max() + 1 <= 200
    table = pd.DataFrame({"cell": cell, "label": label, "rank": score.argsort().argsort()}).groupby(
        "cell"
    )
    assert (table["label"].nunique() == 1).all()
    assert np.ptp(table["rank"].max() - table["rank"].min()) < 300


# Folds


def test_groups_and_copies_stay_together() -> None:
    X = np.array([[1.0], [2.0], [1.0], [3.0], [4.0], [5.0]])
    group = ["p", "p", "q", "q", "r", "s"]
    unit = join_units(6, group, find_copies(X))
    assert unit.tolist() == [0, 0, 0, 0, 1, 2]
    assert join_units(3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "kind", [np.asarray, scipy.sparse.csr_array, pd.DataFrame, lambda x: x.reshape(6, 1, 2)]
)
def test_copies_are_found_in_any_table(kind: Any) -> None:
    copy_n = find_copies(
        kind(np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 2.0]]))
    )
    assert [copy_n[0] == copy_n[2], copy_n[1] == copy_n[5], len(set(copy_n.tolist()))] == [
        True,
        True,
        4,
    ]


def test_folds_share_out_every_stratum() -> None:
    rng = np.random.default_rng(9)
    stratum = rng.integers(0, 4, 203)
    fold = deal_folds(np.arange(203), stratum, 5, seed=0)
    table = np.zeros((4, 5), dtype=int)
    np.add.at(table, (stratum, fold), 1)
    assert np.ptp(table, axis=1).max() <= 1
    assert np.ptp(np.bincount(fold)) <= 1
    group = rng.integers(0, 30, 203)
    fold = deal_folds(np.unique(group, return_inverse=True)[1], stratum, 5, seed=0)
    assert all(len(set(fold[group == each].tolist())) == 1 for each in set(group.tolist()))
    assert not np.array_equal(
        fold, deal_folds(np.unique(group, return_inverse=True)[1], stratum, 5, seed=1)
    )


# What cannot be scored


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"cv": 1}, ConfigError, {"option": "cv", "value": 1}),
        ({"cv": 500}, ConfigError, {}),
        ({"cv": "five"}, ConfigError, {"option": "cv", "value": "'five'"}),
        ({"cv": ShuffleSplit(3, random_state=0)}, ConfigError, {}),
        ({"scoring": make_scorer(max_error)}, ConfigError, {"option": "scoring"}),
        ({"scoring": lambda estimator, X, y: 1.0}, ConfigError, {"option": "scoring"}),
        (
            {"scoring": lambda estimator, X, y, sample_weight: np.nan},
            DataError,
            {"option": "scoring"},
        ),
        ({"level": 1.5}, ConfigError, {}),
    ],
)
def test_what_cannot_be_scored(two_classes: Any, options: Any, error: Any, facts: Any) -> None:
    X, y, _ = two_classes
    with refused(error, **facts):
        DebiasedClassifier().target_score(X, y, **options)


def test_without_folds_a_fitted_model_is_needed(two_classes: Any) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        DebiasedClassifier().target_score(*two_classes[:2], cv=None)


def test_images_of_weight_zero_do_not_count(classes: Any) -> None:
    X, y, _ = classes
    kept = y < 2
    model = DebiasedClassifier().fit(X[kept], y[kept])
    some = model.target_score(X, y, sample_weight=kept * 1.0, scoring="roc_auc", cv=None)
    alone = model.target_score(X[kept], y[kept], scoring="roc_auc", cv=None)
    assert some.value == pytest.approx(alone.value)
    assert some.stderr == pytest.approx(alone.stderr, rel=0.02)


def test_sources_may_be_given_by_position():
    rng = np.random.default_rng(0)
    X, source = rng.standard_normal((200, 2)), np.repeat(["a", "b"], 100)
    y = np.where(X[:, 0] + rng.standard_normal(200) > 0, "cat", "dog")
    model = DebiasedClassifier(LogisticRegression(), Strata("label"), Target.uniform("label"))
    assert model.target_score(X, y, source).value == model.target_score(X, y, source=source).value
