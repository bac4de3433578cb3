"""Debiasing × design weights, calibrated to moments, and errors of means under them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import unskew
from raising import refused
from unskew import DebiasedClassifier, DebiasedRegressor
from unskew.errors import ConfigError, DataError
from unskew.estimators.pool_from_xy import GivenImages
from unskew.estimators.target_weights import weigh_images


@pytest.fixture
def labelled() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300)
    return y[:, None] * [1.0, -0.5, 0.0] + rng.standard_normal((300, 3)), y


def test_moments_hold_exactly_and_multiply_design_weights() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 2))
    y = 3.0 + X[:, 0] + rng.standard_normal(400)
    design = rng.uniform(0.5, 2.0, 400)
    model = DebiasedRegressor(moments={"label": {"mean": 3.4, "sd": 1.2}, "x_1": 0.1}).fit(
        X, y, sample_weight=design
    )
    p = model.sample_weight_ / model.sample_weight_.sum()
    assert p @ y == pytest.approx(3.4, abs=1e-9)
    assert p @ (y - 3.4) ** 2 == pytest.approx(1.44, abs=1e-9)
    assert p @ X[:, 1] == pytest.approx(0.1, abs=1e-9)
    # log(p/d) is linear in the moments: the smallest change from the design weights
    moments = np.column_stack([np.ones(400), y, (y - 3.4) ** 2, X[:, 1]])
    log_ratio = np.log(p / design)
    np.testing.assert_allclose(
        moments @ np.linalg.lstsq(moments, log_ratio, rcond=None)[0], log_ratio, atol=1e-9
    )
    np.testing.assert_allclose(
        model.estimator_.coef_, Ridge().fit(X, y, sample_weight=model.sample_weight_).coef_
    )


def test_moments_need_no_bias_model_for_several_sources() -> None:
    X = np.arange(20.0)[:, None]
    model = DebiasedRegressor(moments={"x_0": 12.0}).fit(X, X[:, 0], source=["a", "b"] * 10)
    assert model.source_names_ == ("a", "b")
    assert np.average(X[:, 0], weights=model.sample_weight_) == pytest.approx(12.0)


def test_the_error_of_a_known_mean_is_zero_and_of_another_that_of_the_residuals() -> None:
    """One source: the calibrated mean is the regression estimator, whose error is that of g_i r_i
    (Deville & Särndal 1992).
    """
    rng = np.random.default_rng(4)
    x = rng.standard_normal(500)
    h = 2.0 * x + 0.5 * rng.standard_normal(500)
    weighing = weigh_images(GivenImages(x[:, None], h), None, None, {"x_0": 0.2})
    known = weighing.mean(x)
    assert (known.value, known.stderr) == (pytest.approx(0.2, abs=1e-9), 0.0)
    p, slope = weighing.weight, np.polyfit(x, h, 1, w=np.sqrt(weighing.weight))
    residual = 500 * p * (h - np.polyval(slope, x))
    estimate = weighing.mean(h)
    assert estimate.value == pytest.approx(p @ h)
    assert estimate.stderr == pytest.approx(residual.std(ddof=1) / np.sqrt(500), rel=1e-9)
    assert np.mean(estimate.interval) == pytest.approx(estimate.value)


def test_the_error_of_a_mean_by_design_weights_is_that_of_the_ratio_estimator() -> None:
    """One source, weights d: the textbook's s(d_i (h_i − μ̂)/d̄)/√n."""
    rng = np.random.default_rng(4)
    h, design = rng.standard_normal(300), rng.uniform(0.2, 3.0, 300)
    estimate = weigh_images(
        GivenImages(np.zeros((300, 1)), h, sample_weight=design), None, None, None
    ).mean(h)
    mean = np.average(h, weights=design)
    assert estimate.value == pytest.approx(mean)
    assert estimate.stderr == pytest.approx(
        np.std(design / design.mean() * (h - mean), ddof=1) / np.sqrt(300)
    )


def test_calibrated_intervals_cover_the_target_mean() -> None:
    """Images of N(0.3, 1), target N(0, 1) whose mean is known: the exact ratio is the tilt that
    calibration finds. E|x| = √(2/π).
    """
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(80):
        x = 0.3 + rng.standard_normal(400)
        low, high = (
            weigh_images(GivenImages(x[:, None], x), None, None, {"x_0": 0.0})
            .mean(np.abs(x))
            .interval
        )
        hits += low <= np.sqrt(2 / np.pi) <= high
    # 95% − 3 binomial standard errors of 80 draws
    assert hits / 80 >= 0.877


@pytest.mark.parametrize(
    ("weight", "facts"),
    [
        (np.ones(299), {"limit": 300}),
        (-np.ones(300), {"row": 0}),
        (np.full(300, np.nan), {"row": 0}),
        (np.zeros(300), {}),
    ],
)
def test_unusable_design_weights(labelled: Any, weight: Any, facts: Any) -> None:
    with refused(DataError, option="sample_weight", **facts):
        DebiasedClassifier().fit(*labelled, sample_weight=weight)


@pytest.mark.parametrize(
    ("moments", "error", "facts"),
    [
        ({"label": {"mean": 0.0, "sd": -1.0}}, ConfigError, {"column": "label", "value": -1.0}),
        ({"label": {"mean": "high"}}, ConfigError, {"column": "label"}),
        ({"lable": 1.0}, DataError, {"option": "moments", "column": "lable"}),
        ({"label": {"median": 1.0}}, ConfigError, {"value": "{'median': 1.0}"}),
        ({"label": {"mean": np.nan}}, ConfigError, {"option": "moments", "column": "label"}),
        ({"site": 1.0}, DataError, {"option": "moments", "column": "site"}),
        ({"hole": 1.0}, DataError, {"option": "moments", "column": "hole", "count": 1}),
        ({"label": 7.0}, unskew.CoverageError, {}),
    ],
)
def test_unusable_moments(moments: Any, error: Any, facts: Any) -> None:
    attributes = {"site": ["a", "b", "c"], "hole": [1.0, np.nan, 2.0]}
    with refused(error, **facts) as caught:
        DebiasedRegressor(moments=moments).fit(
            np.zeros((3, 1)), [1.0, 2.0, 3.0], attributes=attributes
        )
    assert next(iter(moments)) in str(caught.value)


def test_a_misspelt_moment_is_answered_with_the_nearest_column() -> None:
    with pytest.raises(DataError, match="Did you mean 'label'"):
        DebiasedRegressor(moments={"lable": 1.0}).fit(np.zeros((3, 1)), [1.0, 2.0, 3.0])


def test_several_sources_without_a_word_on_their_bias_are_refused(labelled: Any) -> None:
    with refused(ConfigError, option="bias", sources=["a", "b"]):
        DebiasedClassifier().fit(*labelled, source=["a", "b"] * 150)
