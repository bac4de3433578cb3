"""scikit-learn's own checks of an estimator, on the two doors and on a pipeline behind one of them."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unskew

# Every entry is a check that cannot pass, with the reason.
EXPECTED: dict[str, str] = {}


def _expected(estimator: Any) -> dict[str, str]:
    return EXPECTED


@parametrize_with_checks(
    [
        unskew.DebiasedClassifier(),
        unskew.DebiasedRegressor(),
        unskew.DebiasedClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
    ],
    expected_failed_checks=_expected,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
