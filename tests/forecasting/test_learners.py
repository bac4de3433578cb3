"""What a forecast trains: the probe or a classifier, by its name, with shifted logits or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from raising import refused
from unskew.errors import ConfigError
from unskew.forecasting.learners import EstimatorLearner, ProbeLearner, find_learner
from unskew.learn.probe import fit_probe
from unskew.learn.sklearn_fit import AdjustedClassifier
from unskew.learn.ways import DEFAULT_RIDGE


def test_the_learner_is_the_probe_or_the_classifier_by_its_name() -> None:
    assert find_learner(None) == (ProbeLearner(), "a linear probe")
    learner, called = find_learner(GaussianNB())
    assert isinstance(learner, EstimatorLearner)
    assert called == "GaussianNB"
    assert learner.shifts_logits
    assert not find_learner(LinearSVC())[0].shifts_logits


@pytest.mark.parametrize("learner", [GaussianNB, "probe", Ridge()])
def test_what_is_no_classifier_is_refused(learner: Any) -> None:
    with refused(ConfigError, option="learner"):
        find_learner(learner)


def test_the_ridge_is_that_of_the_probe() -> None:
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, 2, 80)
    X_nd = rng.standard_normal((80, 3)) + label_n[:, None]
    for ridge, used in ((None, DEFAULT_RIDGE), (0.3, 0.3)):
        found = ProbeLearner(1e-8).train(X_nd, label_n, np.ones(80), 2, ridge)
        probe = fit_probe(X_nd, label_n, np.ones(80), 2, ridge=used, tol=1e-8)
        np.testing.assert_allclose(found.coefficient, probe.coefficient, atol=1e-6)


def test_offsets_are_those_of_an_adjusted_classifier() -> None:
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, 3, 120)
    X_nd = rng.standard_normal((120, 2)) + label_n[:, None]
    offset_m = np.array([0.0, 1.5, -1.0])
    model = EstimatorLearner(LogisticRegression()).train(X_nd, label_n, np.ones(120), 3)
    fitted = LogisticRegression().fit(X_nd, label_n)
    expected = AdjustedClassifier(fitted, ("0", "1", "2"), offset_m).predict(X_nd)
    np.testing.assert_array_equal(model.predict(X_nd, offset_m), expected)
    with refused(ConfigError, option="learner", value="LinearSVC"):
        EstimatorLearner(LinearSVC()).train(X_nd, label_n, np.ones(120), 3).predict(X_nd, offset_m)
