"""Cross-fitting for scores on the target: who has seen which images."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from raising import refused
from unskew import DebiasedClassifier
from unskew.errors import DataError


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
