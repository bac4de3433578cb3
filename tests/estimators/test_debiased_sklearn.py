"""scikit-learn's own checks of an estimator, on the two doors and on a pipeline behind one of them.
None is expected to fail.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unskew


@parametrize_with_checks([unskew.DebiasedClassifier(), unskew.DebiasedRegressor()])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [unskew.DebiasedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))]
)
def test_scikit_learn_checks_of_a_pipeline(estimator: Any, check: Any) -> None:
    check(estimator)
