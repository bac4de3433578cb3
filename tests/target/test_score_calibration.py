"""Calibration: recovers what was distorted, and ignores what should not matter."""

import numpy as np
import pytest
import scipy.special

from unskew.target.score_calibration import class_means, fit_calibration, sum_by_unit
from worlds_label_shift import logits


def scores(seed, n, n_classes=3, apart=1.5):
    rng = np.random.default_rng(seed)
    label = rng.integers(n_classes, size=n)
    return logits(rng, label, n_classes, apart), label


def fit(log_score, label, family="temperature", weight=None, unit=None):
    n = label.size
    weight = np.ones(n) if weight is None else weight
    unit = np.arange(n) if unit is None else unit
    return fit_calibration(log_score, label, weight, unit, family)


@pytest.mark.parametrize("family", ["temperature", "vector", "matrix"])
def test_calibrated_scores_have_the_shares_of_the_labels(family):
    log_score, label = scores(0, 300)
    calibration = fit(log_score, label, family)
    logit = calibration.log_ratio(log_score) + np.log(calibration.prior)
    np.testing.assert_allclose(
        scipy.special.softmax(logit, axis=1).mean(axis=0), np.bincount(label) / 300, atol=1e-9
    )


def test_temperature_and_bias_are_recovered():
    log_score, label = scores(1, 40_000)
    distorted = 2.5 * log_score + np.array([1.0, 0.0, -2.0])
    ratio = fit(distorted, label).log_ratio(distorted)
    slope = np.polyfit(log_score[:, 1] - log_score[:, 0], ratio[:, 1] - ratio[:, 0], 1)
    # 40,000 images: an error of about 0.01
    np.testing.assert_allclose(slope, [1.0, 0.0], atol=0.04)


@pytest.mark.parametrize("family", ["temperature", "matrix"])
def test_an_affine_change_of_the_logits_changes_nothing(family):
    log_score, label = scores(2, 200)
    plain = fit(log_score, label, family).log_ratio(log_score)
    changed = 3.0 * log_score + np.array([4.0, -1.0, 0.5])
    ratio = fit(changed, label, family).log_ratio(changed)
    np.testing.assert_allclose(
        scipy.special.softmax(ratio, axis=1), scipy.special.softmax(plain, axis=1), atol=1e-8
    )


@pytest.mark.parametrize("family", ["temperature", "vector", "matrix"])
def test_weights_are_counts(family):
    log_score, label = scores(3, 120)
    count = np.random.default_rng(4).integers(1, 4, 120)
    repeated = fit(np.repeat(log_score, count, axis=0), np.repeat(label, count), family)
    weighted = fit(log_score, label, family, weight=count.astype(float))
    np.testing.assert_allclose(weighted.theta, repeated.theta, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("family", ["temperature", "vector", "matrix"])
def test_the_influence_is_the_derivative_of_the_fit_by_an_image_s_weight(family):
    log_score, label = scores(5, 90)
    calibration = fit(log_score, label, family)
    weight = np.ones(90)
    weight[7] += 1e-4
    # weights within classes sum to the number of images, as they do in use
    own = label == label[7]
    weight[own] *= own.sum() / weight[own].sum()
    moved = fit(log_score, label, family, weight=weight)
    # scale and centre move with the weights: compare what the calibration says
    step = moved.log_ratio(log_score) - calibration.log_ratio(log_score)
    step = (step - step[:, :1]) / 1e-4
    n_c = own.sum()
    linear = calibration.influence[7] / np.sqrt(n_c / (n_c - 1))
    expected = calibration.design.logits(linear, calibration.standardized(log_score))
    expected = expected - expected[:, :1]
    np.testing.assert_allclose(step, expected, rtol=0.01, atol=0.01 * np.abs(expected).max())


def test_the_smallest_family_that_fits_is_taken():
    log_score, label = scores(6, 1500)
    assert fit(log_score, label, "auto").family == "temperature"
    softened = log_score * np.array([0.5, 1.0, 2.0])
    softened = softened - scipy.special.logsumexp(softened, axis=1, keepdims=True)
    assert fit(softened, label, "auto").family == "matrix"


def test_separable_classes_are_no_trouble():
    label = np.repeat([0, 1], 20)
    ratio = fit(np.log(0.8 * np.eye(2)[label] + 0.1), label).log_ratio(np.log([[0.9, 0.1]]))
    assert ratio[0, 0] - ratio[0, 1] > 12


def test_sums_and_means():
    value, label = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    np.testing.assert_array_equal(
        class_means(value, label, np.array([1.0, 1.0, 3.0, 1.0])), [[3.0, 4.0], [4.0, 5.0]]
    )
    np.testing.assert_array_equal(sum_by_unit(value, label), [[4.0, 6.0], [8.0, 10.0]])
