"""Cross-fitting for scores on the target: who has seen which images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from raising import refused
from unskew import DebiasedClassifier
from unskew.errors import ConfigError, DataError
from unskew.estimators.held_out import HeldOut, Remembering, cross_fit_scores
from unskew.estimators.pool_from_xy import GivenImages
from unskew.estimators.target_weights import weigh_images


def test_a_copy_in_another_fold_would_be_recognised() -> None:
    """Labels are noise, every image is there twice: a model that remembers is right by chance
    unless copies are separated.
    """
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(10)
    X, y = rng.standard_normal((150, 3)).repeat(2, axis=0), rng.integers(0, 2, 150).repeat(2)
    model = DebiasedClassifier(DecisionTreeClassifier(random_state=0))
    assert model.target_score(X, y).value < 0.65
    assert model.target_score(X, y, keep_copies_together=False).value > 0.8
    with pytest.raises(DataError):
        model.target_score(X, y, cv=KFold(5, shuffle=True, random_state=0))


def test_a_class_that_one_fold_has_to_itself_is_refused() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.zeros(60, dtype=int)
    y[7] = 1
    with refused(DataError, levels=["0"]):
        DebiasedClassifier().target_score(X, y, keep_copies_together=False)


def given(n: int = 60, **more: Any) -> GivenImages:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    return GivenImages(X, (X[:, 0] + rng.normal(size=n) > 0).astype(int), **more)


def cross_fitted(images: GivenImages, cv: Any, weight: Any = None, **options: Any) -> list[HeldOut]:
    images = replace(images, sample_weight=weight)
    weighing = weigh_images(images, None, None, None)
    options = {"keep_copies_together": True, "seed": 0, **options}
    return cross_fit_scores(LogisticRegression(), images, weighing, cv, **options)


def test_every_image_is_held_out_once_and_its_model_learned_from_all_others() -> None:
    images, weight = given(), np.random.default_rng(4).uniform(0.5, 2.0, 60)
    parts = cross_fitted(images, 4, weight)
    assert sorted(np.concatenate([part.rows for part in parts])) == list(range(60))
    for part in parts:
        others = np.setdiff1d(np.arange(60), part.rows)
        plain = LogisticRegression().fit(images.X[others], images.y[others], weight[others])
        np.testing.assert_allclose(part.model.coef_, plain.coef_, rtol=1e-6)
        np.testing.assert_array_equal(part.y, images.y[part.rows])
        np.testing.assert_array_equal(part.model.X, images.X[part.rows])


def test_groups_are_held_out_whole_and_folds_repeat_by_seed() -> None:
    group = np.arange(60) // 5
    images = given(group=group)
    one, same, other = (cross_fitted(images, 3, seed=seed) for seed in (0, 0, 1))
    for part in one:
        rest = np.setdiff1d(np.arange(60), part.rows)
        assert not set(group[part.rows]) & set(group[rest])
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a.rows, b.rows) for a, b in zip(one, other, strict=True))


def test_without_folds_the_model_itself_judges_all_images() -> None:
    images = given()
    fitted = LogisticRegression().fit(images.X, images.y)
    weighing = weigh_images(images, None, None, None)
    (part,) = cross_fit_scores(fitted, images, weighing, None, keep_copies_together=True, seed=0)
    assert part.model.model is fitted
    assert part.rows.tolist() == list(range(60))


def test_a_splitter_is_heard_and_what_is_none_is_refused() -> None:
    images = given()
    parts = cross_fitted(images, KFold(3))
    assert [part.rows.tolist() for part in parts] == [
        list(range(start, start + 20)) for start in (0, 20, 40)
    ]
    for cv, value in ((1, 1), ("five", "'five'"), ([0, 1], "a list")):
        with refused(ConfigError, option="cv", value=value):
            cross_fitted(images, cv)


def test_a_model_is_asked_once_about_its_held_out_images() -> None:
    asked = []

    class Counting(LogisticRegression):
        def predict(self, X: Any) -> Any:
            asked.append(len(X))
            return super().predict(X)

    images = given()
    model = Remembering(Counting().fit(images.X, images.y), images.X)
    first = model.predict(images.X)
    assert model.predict(images.X) is first
    assert asked == [60]
    model.predict(images.X[:7])  # other images are no held-out ones
    assert asked == [60, 7]
    assert model.predict.__name__ == "predict"
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(AttributeError):
        model.transform(images.X)
