"""How weights reach the step that learns, or an error where they would be dropped."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from baseline_pools import two_gaussians
from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.learn import make_baseline
from unskew.learn.sklearn_fit import fit_positive_rows
from unskew.learn.sklearn_routing import find_weight_path, fit_weighted


def test_fit_refuses_what_would_ignore_the_weights_or_does_not_match() -> None:
    X, y = two_gaussians(15, 5, 3)
    found = make_baseline("class_balanced", Pool.from_arrays(["a"] * 20, y))
    with pytest.raises(
        ConfigError, match=r"KNeighborsClassifier\.fit has no parameter sample_weight.*subsample"
    ):
        found.fit(KNeighborsClassifier(1), X, y)
    with pytest.raises(
        ConfigError, match=r"KNeighborsClassifier\.fit has no parameter sample_weight.*subsample"
    ):
        found.fit(make_pipeline(StandardScaler(), KNeighborsClassifier(1)), X, y)
    with refused(DataError, option="X", count=19, limit=20):
        found.fit(LogisticRegression(), X[:-1], y)
    with refused(DataError, option="y", count=19, limit=20):
        fit_positive_rows(LogisticRegression(), X, y[:-1], found.weight)


@pytest.mark.parametrize(
    "wrapper",
    [
        CalibratedClassifierCV,
        AdaBoostClassifier,
        lambda inner: make_pipeline(CalibratedClassifierCV(inner)),
    ],
)
def test_fit_refuses_wrappers_that_would_drop_the_weights_inside(wrapper) -> None:
    X, y = two_gaussians(15, 5, 3)
    pool = Pool.from_arrays(["a"] * 20, y)
    for inside in (
        make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
        KNeighborsClassifier(1),
    ):
        lost = (
            r"(Pipeline|KNeighborsClassifier)\.fit does not have|KNeighborsClassifier\.fit has "
            r"no parameter sample_weight"
        )
        with pytest.raises(ConfigError, match=lost):
            make_baseline("class_balanced", pool).fit(wrapper(inside), X, y)
    # Equal weights are not passed, so nothing can be dropped.
    assert make_baseline("naive", pool).fit(
        CalibratedClassifierCV(KNeighborsClassifier(1), cv=2), X, y
    ).predict(X).shape == (20,)


def test_fit_passes_weights_through_pipelines_and_searches() -> None:
    """As `DebiasedClassifier` does: every step that takes weights gets them."""
    X, y = two_gaussians(15, 5, 3)
    found = make_baseline("class_balanced", Pool.from_arrays(["a"] * 20, y))
    piped = found.fit(make_pipeline(StandardScaler(), LogisticRegression()), X, y)
    np.testing.assert_allclose(piped[0].mean_, np.average(X, axis=0, weights=found.weight))
    scaled = piped[0].transform(X)
    np.testing.assert_allclose(
        piped[1].coef_, LogisticRegression().fit(scaled, y, found.sample_weight).coef_
    )
    searched = found.fit(GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2), X, y)
    np.testing.assert_allclose(
        searched.best_estimator_.coef_, LogisticRegression().fit(X, y, found.sample_weight).coef_
    )


@pytest.mark.parametrize(
    ("estimator", "keywords"),
    [
        (LogisticRegression(), ("sample_weight",)),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            ("standardscaler__sample_weight", "logisticregression__sample_weight"),
        ),
        (make_pipeline(PCA(1), LogisticRegression()), ("logisticregression__sample_weight",)),
        (
            make_pipeline(PCA(1), make_pipeline(StandardScaler(), LogisticRegression())),
            (
                "pipeline__standardscaler__sample_weight",
                "pipeline__logisticregression__sample_weight",
            ),
        ),
        (
            GridSearchCV(make_pipeline(PCA(1), LogisticRegression()), {}),
            ("logisticregression__sample_weight",),
        ),
        (VotingClassifier([("a", LogisticRegression())]), ("sample_weight",)),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple) else "",
)
def test_keywords_name_every_step_that_takes_weights(estimator, keywords) -> None:
    assert find_weight_path(estimator).keywords == keywords


def test_the_learners_are_all_that_stand_on_the_way() -> None:
    last = LogisticRegression()
    inner = make_pipeline(StandardScaler(), last)
    search = GridSearchCV(inner, {})
    assert find_weight_path(search).learners == (search, inner, last)


@pytest.mark.parametrize("routing", [False, True])
def test_a_clone_is_fitted_and_the_weights_cannot_be_given_twice(routing: bool) -> None:
    X, y = two_gaussians(15, 5, 3)
    weight = np.linspace(0.5, 2.0, 20)
    estimator = make_pipeline(StandardScaler(), LogisticRegression())
    scaler = StandardScaler().fit(X, sample_weight=weight)
    plain = LogisticRegression().fit(scaler.transform(X), y, weight)
    with sklearn.config_context(enable_metadata_routing=routing):
        fitted = fit_weighted(estimator, X, y, weight)
        twice = "sample_weight" if routing else "logisticregression__sample_weight"
        with refused(ConfigError, option=twice):
            fit_weighted(estimator, X, y, weight, {twice: weight})
    np.testing.assert_allclose(fitted[-1].coef_, plain.coef_, rtol=1e-9)
    assert not hasattr(estimator[-1], "coef_")


def test_who_must_not_learn_from_weights_is_named() -> None:
    X, y = two_gaussians(15, 5, 3)
    with refused(ConfigError, option="estimator", value="KNeighborsClassifier"):
        fit_weighted(KNeighborsClassifier(), X, y, np.ones(20))
    with refused(ConfigError, option="estimator", value="end"):
        find_weight_path(Pipeline([("scale", StandardScaler()), ("end", "passthrough")]))
    with sklearn.config_context(enable_metadata_routing=True):
        stubborn = make_pipeline(
            StandardScaler(), LogisticRegression().set_fit_request(sample_weight=False)
        )
        with refused(ConfigError, option="estimator", value="LogisticRegression"):
            fit_weighted(stubborn, X, y, np.ones(20))
