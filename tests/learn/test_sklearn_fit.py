"""Estimators fitted with weights, and probabilities moved to other class shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.special
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from baseline_pools import two_gaussians
from raising import refused
from unskew import ConfigError, DataError, Pool, Target
from unskew.learn import make_baseline
from unskew.learn.sklearn_fit import AdjustedClassifier, fit_positive_rows, offset_of


def test_posthoc_adjustment_is_bayes_rule_with_other_class_shares() -> None:
    X, y = two_gaussians(900, 100, 0)
    pool = Pool.from_arrays(["a"] * 1000, y)
    plain = LogisticRegression().fit(X, y)
    adjusted = make_baseline(
        "logit_adjustment", pool, Target.margins({"label": {0: 0.3, 1: 0.7}})
    ).fit(LogisticRegression(), X, y)
    prior = plain.predict_proba(X) * np.array([0.3 / 0.9, 0.7 / 0.1])
    assert adjusted.predict_proba(X) == pytest.approx(prior / prior.sum(axis=1, keepdims=True))
    assert (adjusted.predict(X) == adjusted.classes_[prior.argmax(axis=1)]).all()
    assert adjusted.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(1000))
    assert adjusted.score(X, y) == get_scorer("accuracy")(adjusted, X, y)
    assert get_scorer("neg_log_loss")(adjusted, X, y) < 0
    off = make_baseline("logit_adjustment", pool, tau=0.0).fit(LogisticRegression(), X, y)
    assert off.predict_proba(X) == pytest.approx(plain.predict_proba(X))


def test_loss_and_posthoc_form_agree_where_the_model_has_free_intercepts() -> None:
    """Cross-entropy of logits + offset over linear logits: the intercepts take up the offset, so
    that both forms predict alike.
    """
    X, y = two_gaussians(300, 60, 1)
    pool = Pool.from_arrays(["a"] * 360, y)
    loss_form = make_baseline("logit_adjustment", pool, form="loss")
    design = np.column_stack([np.ones(360), X])

    def loss(theta: np.ndarray) -> float:
        logit_nm = np.column_stack([np.zeros(360), design @ theta]) + loss_form.logit_offset
        return float(np.mean(np.logaddexp.reduce(logit_nm, axis=1) - logit_nm[np.arange(360), y]))

    theta = scipy.optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    from_loss = 1 / (1 + np.exp(-design @ theta))
    posthoc = make_baseline("logit_adjustment", pool).fit(
        LogisticRegression(C=1e8, tol=1e-8, max_iter=1000), X, y
    )
    assert posthoc.predict_proba(X)[:, 1] == pytest.approx(from_loss, abs=1e-4)
    with refused(ConfigError, option="form", value="loss"):
        loss_form.fit(LogisticRegression(), X, y)


def test_adjusted_classes_are_joined_by_name_not_by_place() -> None:
    X, y = two_gaussians(90, 10, 2)
    label = np.array(["zebra", "ape"])[
        y
    ]  # the pool's order is that of appearance, scikit-learn's the alphabet's
    adjusted = make_baseline("logit_adjustment", Pool.from_arrays(["a"] * 100, label)).fit(
        LogisticRegression(), X, label
    )
    plain = LogisticRegression().fit(X, label).predict_proba(X)
    assert adjusted.classes_.tolist() == ["ape", "zebra"]
    assert (adjusted.predict_proba(X)[:, 0] > plain[:, 0]).all()  # apes are rare in the pool
    baseline = make_baseline("logit_adjustment", Pool.from_arrays(["a"] * 100, label))
    with refused(DataError, levels=["0", "1"]):
        baseline.fit(LogisticRegression(), X, y)
    with refused(ConfigError, option="estimator", value="Ridge"):
        baseline.fit(Ridge(), X, y)
    with pytest.raises(ConfigError):
        adjusted.fit(X, y)


def test_fit_equals_scikit_learn_with_weights_and_leaves_out_weight_0() -> None:
    X, y = two_gaussians(150, 50, 3)
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


def test_weights_have_mean_1_on_the_rows_that_are_used_and_scale_does_not_matter() -> None:
    X, y = two_gaussians(15, 5, 3)
    weight = np.where(np.arange(20) % 4 == 0, 0.0, np.linspace(1.0, 9.0, 20))
    used = weight > 0
    plain = LogisticRegression().fit(X[used], y[used], weight[used] / weight[used].mean())
    for factor in (1.0, 1e-6, 1e6):
        found = fit_positive_rows(LogisticRegression(), X, y, factor * weight)
        np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-9)


def test_offsets_follow_the_classes_wanted_compared_as_text() -> None:
    offset = np.array([0.1, 0.2, 0.3])
    assert offset_of([3, 1], ("1", "2", "3"), offset).tolist() == [0.3, 0.1]
    assert offset_of(["2"], ("1", "2", "3"), offset).tolist() == [0.2]
    with refused(DataError, levels=["4"]):
        offset_of([1, 4], ("1", "2", "3"), offset)


def test_an_adjusted_classifier_weighs_its_accuracy_and_has_no_second_fit() -> None:
    X, y = two_gaussians(90, 10, 2)
    fitted = LogisticRegression().fit(X, y)
    adjusted = AdjustedClassifier(fitted, ("0", "1"), np.array([0.0, -np.log(9.0)]))
    odds = fitted.predict_proba(X) * [1.0, 9.0]
    np.testing.assert_allclose(
        adjusted.predict_proba(X), odds / odds.sum(axis=1, keepdims=True), rtol=1e-12
    )
    hit, weight = adjusted.predict(X) == y, np.linspace(1, 2, 100)
    assert adjusted.score(X, y, weight) == pytest.approx(np.average(hit, weights=weight))
    with refused(ConfigError, option="estimator", value="Ridge"):
        AdjustedClassifier(Ridge().fit(X, y), ("0", "1"), np.zeros(2))
    with pytest.raises(ConfigError):
        adjusted.fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [LogisticRegression, GaussianNB, HistGradientBoostingClassifier])
def test_decision_values_agree_with_adjusted_predictions(kind: Any, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(n_classes, 200)
    X = 2.0 * y[:, None] + rng.standard_normal((200, 2))
    X[0] = [400.0, 400.0]  # saturates every probability
    offset = np.linspace(0.0, 1.5, n_classes)
    adjusted = AdjustedClassifier(kind().fit(X, y), tuple("012"[:n_classes]), offset)
    decision, log_proba = adjusted.decision_function(X), adjusted.predict_log_proba(X)
    assert np.isfinite(decision).all()
    np.testing.assert_allclose(np.exp(log_proba), adjusted.predict_proba(X))
    if n_classes == 2:
        expected, predicted = log_proba[:, 1] - log_proba[:, 0], (decision > 0) * 1
    else:
        expected, predicted = log_proba, decision.argmax(axis=1)
        decision = decision - scipy.special.logsumexp(decision, axis=1, keepdims=True)
    np.testing.assert_array_equal(predicted, adjusted.predict(X))
    usual = np.abs(expected) < 10
    np.testing.assert_allclose(decision[usual], expected[usual], rtol=1e-3, atol=1e-6)
    if kind is LogisticRegression and n_classes == 2:
        own = adjusted.estimator.decision_function(X)
        np.testing.assert_allclose(decision, own - 1.5)
