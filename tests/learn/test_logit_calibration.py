"""Logits that hold on the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unskew.learn.logit_calibration import (
    LogitCalibration,
    choose_calibration,
    fit_logit_calibration,
    fit_spread,
    held_out_losses,
)


def _sample(seed: int, n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """True logits, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logit_nm = rng.normal(size=(n, 3)) * 2
    gumbel_nm = rng.gumbel(size=(n, 3))
    return logit_nm, (logit_nm + gumbel_nm).argmax(axis=1)


def test_scale_and_bias_are_found() -> None:
    logit_nm, label_n = _sample(0)
    bias_m = np.array([0.4, -0.1, -0.3])
    found = fit_logit_calibration((logit_nm - bias_m) / 1.7, label_n, np.ones(label_n.size))
    assert found.scale == pytest.approx(1.7, rel=0.05)
    np.testing.assert_allclose(found.bias - found.bias.mean(), bias_m, atol=0.08)


def test_weights_move_the_classes_to_their_shares() -> None:
    logit_nm, label_n = _sample(1)
    weight_n = np.array([1.0, 3.0, 1.0])[label_n]
    found = fit_logit_calibration(logit_nm, label_n, weight_n)
    # Label shift adds log 3 to the logit of class 1.
    assert found.bias[1] - found.bias[0] == pytest.approx(np.log(3), abs=0.12)


def test_a_constant_in_the_logits_changes_nothing() -> None:
    logit_nm, label_n = _sample(2, 400)
    rng = np.random.default_rng(0)
    one = fit_logit_calibration(logit_nm, label_n, np.ones(400))
    other = fit_logit_calibration(logit_nm + rng.normal(size=(400, 1)), label_n, 5 * np.ones(400))
    assert other.scale == pytest.approx(one.scale, rel=1e-4)
    np.testing.assert_allclose(other.bias, one.bias, atol=1e-4)


def test_few_images_of_a_class_hardly_move_it() -> None:
    rng = np.random.default_rng(3)
    logit_nm = rng.normal(size=(12, 3))
    found = fit_logit_calibration(logit_nm, np.repeat([0, 1, 2], [10, 1, 1]), np.ones(12))
    assert np.abs(found.bias).max() < 1.0


def test_a_class_that_is_never_predicted_stays_so() -> None:
    logit_nm, label_n = _sample(4, 500)
    logit_nm = np.column_stack([logit_nm, np.full(500, -np.inf)])
    found = fit_logit_calibration(logit_nm, label_n, np.ones(500))
    assert found.bias[3] == 0.0
    assert np.isneginf(found.apply(logit_nm)[:, 3]).all()


def test_separated_images_have_a_finite_scale() -> None:
    label_n = np.arange(40) % 2
    found = fit_logit_calibration(np.eye(2)[label_n] * 5, label_n, np.ones(40))
    assert np.isfinite(found.scale)


def test_class_biases_are_kept_only_where_they_help() -> None:
    logit_nm, label_n = _sample(5)
    right, gain = choose_calibration(logit_nm, label_n, np.ones(label_n.size))
    assert not right.bias.any()
    assert gain.value <= gain.stderr
    wrong_nm = logit_nm + np.array([2.0, 0.0, 0.0])
    moved, gain = choose_calibration(wrong_nm, label_n, np.ones(label_n.size))
    assert moved.bias[0] < -1
    assert gain.value > 10 * gain.stderr
    # What is said of the gain is what it is on other images.
    other_nm, truth_n = _sample(6)
    before = (other_nm + np.array([2.0, 0.0, 0.0])).argmax(axis=1) == truth_n
    after = moved.apply(other_nm + np.array([2.0, 0.0, 0.0])).argmax(axis=1) == truth_n
    assert after.mean() - before.mean() == pytest.approx(gain.value, abs=0.02)


def test_a_temperature_alone_changes_no_prediction() -> None:
    logit_nm, label_n = _sample(7, 500)
    found = fit_logit_calibration(3 * logit_nm + np.eye(3)[0], label_n, np.ones(500), biases=False)
    assert found.scale < 0.6
    assert (found.bias == 0).all()


def test_held_out_losses_know_no_temperature_and_stay_finite() -> None:
    logit_nm, label_n = _sample(3, 500)
    losses = [held_out_losses(scale * logit_nm, label_n, np.ones(500)) for scale in (0.2, 1.0, 5.0)]
    for loss_n in losses[1:]:
        # To the tolerance of the temperature.
        np.testing.assert_allclose(loss_n, losses[0], atol=1e-3)
    logit_nm[:, 2] = -np.inf  # never predicted
    loss_n = held_out_losses(logit_nm, label_n, np.ones(500))
    assert np.isfinite(loss_n).all()
    assert loss_n[label_n == 2].min() > loss_n[label_n != 2].max()


def test_the_slope_finds_classes_that_are_held_down() -> None:
    """Logits of rare classes that are too small, as a penalty makes them."""
    rng = np.random.default_rng(5)
    size_m = np.array([4000, 1000, 250, 60])
    label_n = np.repeat(np.arange(4), size_m)
    true_nm = 2.0 * np.eye(4)[label_n] + rng.normal(size=(label_n.size, 4))
    true_nm -= true_nm.mean(axis=1, keepdims=True)
    factor_m = (size_m / np.exp(np.log(size_m).mean())) ** -0.2
    weight_n = 1.0 / size_m[label_n]
    found = fit_logit_calibration(true_nm / factor_m, label_n, weight_n, biases=False, slope=True)
    # 60 images of the last class are worth about 200 of the four.
    assert found.factor is not None
    np.testing.assert_allclose(found.factor, factor_m, rtol=0.1)
    np.testing.assert_allclose(np.log(found.factor).mean(), 0.0, atol=1e-9)
    again = LogitCalibration.from_dict(found.to_dict())
    np.testing.assert_array_equal(again.apply(true_nm), found.apply(true_nm))
    # As before, a constant changes nothing, and a class that is never predicted stays so.
    np.testing.assert_allclose(found.apply(true_nm + 3.0), found.apply(true_nm), atol=1e-9)
    true_nm[:, 3] = -np.inf
    assert np.isneginf(found.apply(true_nm)[:, 3]).all()
    assert np.isfinite(found.apply(true_nm)[:, :3]).all()


def _narrowed(seed: int, n: int = 8000, n_classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are too wide where they are wide, and labels drawn from 1.5 r^−½ times them."""
    rng = np.random.default_rng(seed)
    logit_nm = rng.normal(size=(n, n_classes)) * rng.uniform(0.5, 4.0, (n, 1))
    logit_nm -= logit_nm.mean(axis=1, keepdims=True)
    spread_n = np.log(np.exp(logit_nm).sum(axis=1, keepdims=True))
    true_nm = 1.5 * spread_n**-0.5 * logit_nm
    return logit_nm, (true_nm + rng.gumbel(size=true_nm.shape)).argmax(axis=1)


def test_the_spread_is_found_and_changes_no_prediction() -> None:
    logit_nm, label_n = _narrowed(0)
    k, gamma = fit_spread(logit_nm, label_n, np.ones(label_n.size))
    assert (k, gamma) == pytest.approx((1.5, -0.5), abs=0.12)
    # Weight two is an image repeated.
    weight_n = np.where(np.arange(label_n.size) < 3000, 2.0, 1.0)
    both = np.r_[np.arange(label_n.size), np.arange(3000)]
    twice = fit_spread(logit_nm[both], label_n[both], np.ones(both.size), both)
    assert fit_spread(logit_nm, label_n, weight_n) == pytest.approx(twice, abs=1e-4)
    moved_nm = LogitCalibration(1.0, np.zeros(6), spread=(k, gamma)).apply(logit_nm)
    assert (moved_nm.argmax(axis=1) == logit_nm.argmax(axis=1)).all()


def test_confidence_is_the_share_that_is_right_at_every_level_of_it() -> None:
    # Of a third of 16,000 images a share has a standard error of about 0.007.
    logit_nm, label_n = _narrowed(1, 16_000)
    other_nm, other_n = _narrowed(2, 16_000)
    fitted, _ = choose_calibration(logit_nm, label_n, np.ones(label_n.size))
    for calibration, low, high in (
        (fitted, 0.0, 0.025),
        (replace(fitted, spread=None), 0.035, 0.2),
    ):
        moved_nm = calibration.apply(other_nm)
        proba_nm = np.exp(moved_nm - np.logaddexp.reduce(moved_nm, axis=1)[:, None])
        gap_n = proba_nm.max(axis=1) - (moved_nm.argmax(axis=1) == other_n)
        third_n = np.digitize(proba_nm.max(axis=1), (0.5, 0.8))
        assert low <= max(abs(gap_n[third_n == part].mean()) for part in range(3)) <= high


def test_the_spread_of_few_images_and_of_missing_classes() -> None:
    nothing = np.zeros(0)
    assert fit_spread(np.zeros((0, 3)), nothing.astype(np.int64), nothing) == (1.0, 0.0)
    logit_nm, label_n = _narrowed(3, 300)
    logit_nm = np.column_stack([logit_nm, np.full(300, -np.inf)])
    k, gamma = fit_spread(logit_nm, label_n, np.ones(300))
    again = LogitCalibration.from_dict(
        LogitCalibration(2.0, np.zeros(7), spread=(k, gamma)).to_dict()
    )
    assert again.spread == (k, gamma)
    moved_nm = again.apply(logit_nm)
    assert np.isneginf(moved_nm[:, 6]).all()
    assert np.isfinite(moved_nm[:, :6]).all()
