"""What a baseline does with its weights: fitting estimators, joining by id."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from raising import refused
from unskew import ConfigError, DataError, Pool
from unskew.learn import make_baseline
from unskew.learn.sklearn_fit import fit_positive_rows

COUNTS = {
    ("day", "car"): 6,
    ("day", "bus"): 3,
    ("day", "truck"): 1,
    ("night", "car"): 2,
    ("night", "bus"): 4,
}


def _pool(counts=COUNTS, **columns) -> Pool:
    source = [name for (name, _), size in counts.items() for _ in range(size)]
    label = [name for (_, name), size in counts.items() for _ in range(size)]
    n = len(label)
    return Pool.from_arrays(
        source,
        label,
        id=[f"image{row}" for row in range(n)],
        **{k: v(n) for k, v in columns.items()},
    )


def _two_gaussians(n0: int, n1: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n0, n1])
    return rng.normal(size=(n0 + n1, 2)) + 1.5 * y[:, None], y


def test_fit_equals_scikit_learn_with_weights_and_leaves_out_weight_0() -> None:
    X, y = _two_gaussians(150, 50, 3)
    pool = Pool.from_arrays(np.repeat(["a", "b"], 100), y)
    found = make_baseline("class_balanced", pool)
    plain = LogisticRegression().fit(X, y, sample_weight=found.sample_weight)
    assert found.fit(LogisticRegression(), X, y).coef_ == pytest.approx(plain.coef_)
    assert found.fit(LogisticRegression(), X, y).coef_ == pytest.approx(
        LogisticRegression(class_weight="balanced").fit(X, y).coef_
    )
    piped = found.fit(make_pipeline(StandardScaler(), make_pipeline(LogisticRegression())), X, y)
    assert piped.predict(X).shape == (200,)
    assert piped.score(X, y) == pytest.approx(plain.score(X, y), abs=0.05)
    part = make_baseline("subsample", pool)
    neighbours = part.fit(KNeighborsClassifier(1), pd.DataFrame(X), pd.Series(y))
    assert neighbours.n_samples_fit_ == 100
    assert part.fit(RandomForestRegressor(3, random_state=0), X, y).predict(X).shape == (200,)
    unused = LogisticRegression()
    found.fit(unused, X, y)
    assert not hasattr(unused, "coef_")


def test_fit_refuses_what_would_ignore_the_weights_or_does_not_match() -> None:
    X, y = _two_gaussians(15, 5, 3)
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
    X, y = _two_gaussians(15, 5, 3)
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
    X, y = _two_gaussians(15, 5, 3)
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


def test_weights_are_joined_by_id() -> None:
    found = make_baseline("class_balanced", _pool())
    assert found.align(["image9", "image0"]) == pytest.approx(found.weight[[9, 0]])
    with refused(DataError, ids=["image99"]):
        found.align(["image0", "image99"])


def test_a_baseline_cannot_be_changed() -> None:
    found = make_baseline("naive", _pool())
    with pytest.raises(AttributeError):
        found.name = "other"  # type: ignore[misc]
    assert replace(found, name="other").name == "other"
