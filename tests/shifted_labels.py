"""Two sources that differ in the shares of two classes, and a classifier that counts its fits."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from unskew import DebiasedClassifier, Target
from unskew.bias import Strata


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


def shifted(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Two sources with 80% and 40% of class 0; classes N(−1, I) and N(1, I) in two dimensions."""
    rng = np.random.default_rng(seed)
    source = np.repeat(["day", "night"], [n - n // 4, n // 4])
    y = (rng.random(n) > np.where(source == "day", 0.8, 0.4)).astype(int)
    return 2.0 * y[:, None] - 1.0 + rng.standard_normal((n, 2)), y, source


RARE = Target.margins({"label": {0: 0.3, 1: 0.7}})


def door(estimator: Any = None, way: str = "auto") -> DebiasedClassifier:
    return DebiasedClassifier(estimator, Strata("label"), RARE, way)
