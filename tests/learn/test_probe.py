"""The probe is scikit-learn's weighted logistic regression, and obeys the identities of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn.probe import Probe, fit_probe, scale_features


def _data(seed: int = 0, n: int = 200, d: int = 4, n_classes: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    label_n = rng.integers(0, n_classes, n)
    label_n[:n_classes] = np.arange(n_classes)
    X_nd = rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[label_n]
    return X_nd, label_n, rng.gamma(0.7, size=n)


def _same(one: Probe, other: Probe, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(one.coefficient, other.coefficient, rtol=0, atol=tolerance)
    np.testing.assert_allclose(one.intercept, other.intercept, rtol=0, atol=tolerance)


@pytest.mark.parametrize("ridge", [3e-3, 0.1])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_it_is_scikit_learns_logistic_regression(n_classes: int, ridge: float) -> None:
    X_nd, label_n, weight_n = _data(1, n=400, d=6, n_classes=n_classes)
    probe = fit_probe(X_nd, label_n, weight_n, n_classes, ridge=ridge, tol=1e-9)
    # Of two classes scikit-learn penalises W_1 − W_0 alone, whose square is twice that of (W_0,
    # W_1).
    strength = (2.0 if n_classes == 2 else 1.0) / (ridge * weight_n.sum())
    oracle = LogisticRegression(C=strength, tol=1e-10, max_iter=10000, solver="newton-cg").fit(
        X_nd, label_n, sample_weight=weight_n
    )
    if n_classes == 2:
        np.testing.assert_allclose(
            probe.coefficient[:, 1] - probe.coefficient[:, 0], oracle.coef_[0], atol=1e-5
        )
        np.testing.assert_allclose(
            probe.intercept[1] - probe.intercept[0], oracle.intercept_[0], atol=1e-5
        )
    else:
        np.testing.assert_allclose(probe.coefficient.T, oracle.coef_, atol=1e-5)
        np.testing.assert_allclose(
            probe.intercept, oracle.intercept_ - oracle.intercept_.mean(), atol=1e-5
        )
    np.testing.assert_array_equal(probe.predict(X_nd), oracle.predict(X_nd))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), factor=st.floats(1e-3, 1e3))
def test_the_identities_of_weights(seed: int, factor: float) -> None:
    X_nd, label_n, _ = _data(seed, n=60)
    rng = np.random.default_rng(seed)
    weight_n = rng.integers(0, 3, 60).astype(float)
    weight_n[:3] = 1.0
    plain = fit_probe(X_nd, label_n, weight_n, 3, ridge=0.05, tol=1e-9)
    _same(plain, fit_probe(X_nd, label_n, factor * weight_n, 3, ridge=0.05, tol=1e-9))
    # Zero = removed, two = repeated.
    rows = np.repeat(np.arange(60), weight_n.astype(int))
    _same(plain, fit_probe(X_nd[rows], label_n[rows], np.ones(rows.size), 3, ridge=0.05, tol=1e-9))
    order = rng.permutation(60)
    _same(plain, fit_probe(X_nd[order], label_n[order], weight_n[order], 3, ridge=0.05, tol=1e-9))


def test_where_it_begins_changes_nothing_beyond_the_tolerance() -> None:
    X_nd, label_n, weight_n = _data(2)
    begin = fit_probe(X_nd[:100], label_n[:100], weight_n[:100], 3)
    _same(
        fit_probe(X_nd, label_n, weight_n, 3, tol=1e-9),
        fit_probe(X_nd, label_n, weight_n, 3, tol=1e-9, start=begin),
        1e-5,
    )


def test_float32_gives_the_same_predictions() -> None:
    X_nd, label_n, weight_n = _data(3, n=2000, d=30, n_classes=6)
    wide, narrow = (
        fit_probe(X_nd.astype(kind), label_n, weight_n, 6) for kind in (np.float64, np.float32)
    )
    assert narrow.converged
    np.testing.assert_allclose(wide.coefficient, narrow.coefficient, atol=5e-3)
    assert np.mean(wide.predict(X_nd) == narrow.predict(X_nd.astype(np.float32))) > 0.998


def test_a_class_without_weight_is_never_predicted() -> None:
    X_nd, label_n, weight_n = _data(4)
    probe = fit_probe(X_nd, label_n, np.where(label_n == 1, 0.0, weight_n), 3)
    assert not (probe.predict(X_nd) == 1).any()
    assert (fit_probe(X_nd, label_n, (label_n == 2).astype(float), 3).predict(X_nd) == 2).all()


def test_an_offset_moves_the_decision() -> None:
    X_nd, label_n, weight_n = _data(5)
    probe = fit_probe(X_nd, label_n, weight_n, 3)
    np.testing.assert_array_equal(probe.predict(X_nd, np.zeros(3)), probe.predict(X_nd))
    assert (probe.predict(X_nd, np.array([0.0, -1e9, 0.0])) == 1).all()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_scaling(kind: Any) -> None:
    X_nd = (
        np.random.default_rng(0).standard_normal((500, 3)) * [1.0, 4.0, 0.0] + [0.0, 100.0, 7.0]
    ).astype(kind)
    standard = scale_features(X_nd)
    assert standard.dtype == kind
    np.testing.assert_allclose(standard.std(axis=0), [1.0, 1.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=1e-4)
    rooted = scale_features(X_nd, "fourth_root")
    spread = X_nd[:, :2].std(axis=0)
    np.testing.assert_allclose(
        rooted[:, 0].std() / rooted[:, 1].std(), np.sqrt(spread[0] / spread[1]), rtol=1e-4
    )
    np.testing.assert_allclose(rooted[:, :2].var(axis=0).mean(), 1.0, rtol=1e-4)
    np.testing.assert_allclose(scale_features(X_nd, "none")[:, :2].std(axis=0), spread, rtol=1e-4)
    assert scale_features(np.arange(6, dtype=np.uint8).reshape(3, 2)).dtype == np.float32


def test_what_cannot_be_fitted_is_named() -> None:
    X_nd, label_n, weight_n = _data(6)
    with refused(DataError, option="weight_n"):
        fit_probe(X_nd, label_n, 0 * weight_n, 3)
    with refused(DataError, option="label_n", limit=2):
        fit_probe(X_nd, label_n, weight_n, 2)
    with refused(DataError, count=200, limit=199):
        fit_probe(X_nd[:199], label_n, weight_n, 3)
    with refused(DataError, option="X_nd", value="int64"):
        fit_probe(X_nd.astype(int), label_n, weight_n, 3)
    with refused(ConfigError, option="ridge", value=0.0):
        fit_probe(X_nd, label_n, weight_n, 3, ridge=0.0)
    with refused(ConfigError, option="scaling", value="whiten"):
        scale_features(X_nd, "whiten")  # type: ignore[arg-type]
