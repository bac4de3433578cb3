"""Probes on one grid of dials and ridges."""

from __future__ import annotations

import numpy as np
import pytest

from raising import refused
from unskew.errors import DataError
from unskew.learn.dial import keep_class_shares, turn_dial
from unskew.learn.logit_calibration import LogitCalibration
from unskew.learn.probe import Probe, fit_probe
from unskew.learn.probe_grid import calibrated, cross_fit_logits, dialled_probe, tune_probe
from unskew.learn.ways import WayChoice


def _classes(seed: int, sizes: list[int], d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    label_n = np.repeat(np.arange(len(sizes)), sizes)
    centre_md = np.random.default_rng(99).normal(size=(len(sizes), d))
    return (centre_md[label_n] + rng.normal(size=(label_n.size, d))).astype(np.float32), label_n


def _to_equal_shares(label_n: np.ndarray) -> np.ndarray:
    return 1.0 / np.bincount(label_n)[label_n]


def test_at_zero_the_probe_is_the_weighted_one() -> None:
    X_nd, label_n = _classes(0, [300, 80, 40])
    weight_n = _to_equal_shares(label_n)
    dialled = turn_dial(weight_n, label_n, 3, 0.0)
    probe = dialled_probe(X_nd, label_n, dialled, ridge=0.01)
    np.testing.assert_allclose(
        probe.coefficient,
        fit_probe(X_nd, label_n, weight_n, 3, ridge=0.01).coefficient,
        atol=1e-4,
    )


def test_at_one_the_probe_is_logit_adjustment() -> None:
    X_nd, label_n = _classes(0, [300, 80, 40])
    dialled = turn_dial(_to_equal_shares(label_n), label_n, 3, 1.0)
    probe = dialled_probe(X_nd, label_n, dialled, ridge=0.01)
    plain = fit_probe(X_nd, label_n, np.ones(label_n.size), 3, ridge=0.01)
    np.testing.assert_allclose(probe.coefficient, plain.coefficient, atol=1e-4)
    shift_m = probe.intercept - plain.intercept + np.log([300, 80, 40])
    np.testing.assert_allclose(shift_m - shift_m.mean(), 0.0, atol=1e-4)


def test_where_the_start_is_does_not_matter() -> None:
    X_nd, label_n = _classes(1, [200, 100])
    dialled = turn_dial(_to_equal_shares(label_n), label_n, 2, 0.5)
    cold = dialled_probe(X_nd, label_n, dialled, ridge=0.003)
    start = dialled_probe(X_nd, label_n, dialled, ridge=0.1)
    warm = dialled_probe(X_nd, label_n, dialled, ridge=0.003, start=start)
    np.testing.assert_allclose(warm.coefficient, cold.coefficient, atol=1e-3)


def test_the_tuned_probe_is_right_and_calibrated_on_the_target() -> None:
    X_nd, label_n = _classes(2, [3000, 600, 150, 60])
    tuned = tune_probe(X_nd, label_n, _to_equal_shares(label_n), 4)
    test_nd, truth_n = _classes(3, [2000] * 4)
    logit_nm = tuned.probe.logits(test_nd)
    right = (logit_nm.argmax(axis=1) == truth_n).mean()
    naive = fit_probe(X_nd, label_n, np.ones(label_n.size), 4, ridge=0.01)
    assert right > (naive.predict(test_nd) == truth_n).mean() + 0.03
    proba_nm = np.exp(logit_nm - logit_nm.max(axis=1, keepdims=True))
    confidence_n = (proba_nm / proba_nm.sum(axis=1, keepdims=True)).max(axis=1)
    assert confidence_n.mean() == pytest.approx(right, abs=0.04)
    assert {row.way for row in tuned.choice.scores} == {"weights", "half", "logit"}


def test_a_calibrated_probe_has_calibrated_logits() -> None:
    rng = np.random.default_rng(0)
    X_nd = rng.normal(size=(30, 4))
    probe = Probe(rng.normal(size=(4, 3)), np.array([0.5, -0.5, -np.inf]))
    for factor_m in (None, np.array([0.5, 2.0, 1.0])):
        calibration = LogitCalibration(1.7, np.array([0.1, -0.1, 0.0]), factor_m)
        np.testing.assert_allclose(
            calibrated(probe, calibration).logits(X_nd), calibration.apply(probe.logits(X_nd))
        )


def test_folds_keep_the_shares_of_the_classes() -> None:
    """Two images of a class, one of them held out: the other one stands for both."""
    label_n, weight_n = np.array([0, 0, 0, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 5.0])
    kept_n = keep_class_shares(weight_n, label_n, np.array([0, 1, 4]))
    np.testing.assert_allclose(kept_n, [10 / 3, 20 / 3, 10.0])
    rng = np.random.default_rng(1)
    # Features that tell nothing: held-out images of rare classes are predicted by their shares.
    label_n = np.repeat([0, 1, 2], [20, 4, 4])
    X_nd = 1e-9 * rng.normal(size=(28, 2))
    dialled = turn_dial(_to_equal_shares(label_n), label_n, 3, 0.5)
    fold_n = np.arange(28) % 4
    logit_nm = cross_fit_logits(X_nd, label_n, dialled, fold_n, [0.1])[0]
    np.testing.assert_allclose(logit_nm - logit_nm[:, :1], 0.0, atol=1e-2)


def test_units_stay_on_one_side() -> None:
    """Labels that are noise, known to every copy: only folds that keep copies together see it."""
    rng = np.random.default_rng(4)
    X_nd = np.repeat(rng.normal(size=(300, 40)).astype(np.float32), 4, axis=0)
    label_n = np.repeat(rng.integers(0, 2, 300), 4)
    unit_n = np.repeat(np.arange(300), 4)
    scores = [
        tune_probe(X_nd, label_n, np.ones(1200), 2, unit_n=unit, ridges=(0.001,)).choice.score
        for unit in (unit_n, None)
    ]
    assert scores[0] < 0.6 < scores[1]


def test_the_ridge_of_other_weights_is_judged_by_the_target() -> None:
    """Weights of the target on one class alone: whatever predicts that class most is best."""
    X_nd, label_n = _classes(7, [400, 400])
    tuned = tune_probe(
        X_nd,
        label_n,
        np.ones(800),
        2,
        taus=(0.0,),
        judge_weight_n=np.where(label_n == 1, 1.0, 0.0),
        logit_offset_m=np.array([0.0, -5.0]),
        calibrate=False,
    )
    assert tuned.choice.way == "weights"
    assert tuned.choice.ess == pytest.approx(400)
    assert tuned.choice.score > 0.9
    plain = fit_probe(X_nd, label_n, np.ones(800), 2, ridge=tuned.choice.ridge)
    np.testing.assert_allclose(
        tuned.probe.logits(X_nd) - plain.logits(X_nd), np.tile([0.0, 5.0], (800, 1)), atol=1e-2
    )


def test_a_single_unit_is_fitted_without_a_choice() -> None:
    X_nd, label_n = _classes(8, [3, 3])
    tuned = tune_probe(X_nd, label_n, np.ones(6), 2, unit_n=np.zeros(6, dtype=int))
    assert (tuned.choice.way, tuned.choice.ridge) == ("half", 0.01)
    assert tuned.calibration.scale == 1


def test_two_classes_of_which_one_has_a_single_image() -> None:
    X_nd, label_n = _classes(5, [50, 1])
    tuned = tune_probe(X_nd, label_n, _to_equal_shares(label_n), 2)
    assert np.isfinite(tuned.probe.logits(X_nd)).all()
    assert tuned.choice.way == "half"


def test_a_class_without_weight_is_never_predicted() -> None:
    X_nd, label_n = _classes(6, [200, 200, 200])
    weight_n = np.where(label_n == 2, 0.0, 1.0)
    tuned = tune_probe(X_nd, label_n, weight_n, 3)
    assert set(tuned.probe.predict(X_nd)) == {0, 1}


def test_few_effective_images_fit_one_temperature() -> None:
    """Biases and a slope of classes are chosen from 300 equally weighted units on, as a way is."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 200)
    X = np.eye(3)[label] + 2.0 * rng.normal(size=(200, 3))
    tuned = tune_probe(X, label, np.array([1.0, 2.0, 8.0])[label], 3)
    assert not tuned.calibration.bias.any()
    assert tuned.calibration.factor is None


def test_of_weights_that_do_not_depend_on_the_class_there_is_one_way() -> None:
    rng = np.random.default_rng(0)
    X, label, weight = rng.normal(size=(800, 2)), np.tile([0, 1], 400), np.ones(800)
    X[:, 0] += label
    choice = tune_probe(X, label, weight, 2).choice
    assert choice.reason == (
        "half: the weights do not depend on the class, so that all ways are the same."
    )
    assert "no other way was tried" in tune_probe(X, label, weight, 2, taus=[0.0]).choice.reason


@pytest.mark.parametrize("bad", [-1.0, np.inf, 0.0])
def test_weights_that_nothing_can_be_learned_from_are_refused(bad: float) -> None:
    X, label, weight = np.ones((40, 2)), np.tile([0, 1], 20), np.ones(40)
    wrong = np.full(40, 0.0) if bad == 0 else np.where(np.arange(40) == 7, bad, 1.0)
    for weights in ((wrong, weight), (weight, wrong)):
        with refused(DataError, option="weight_n"):
            tune_probe(X, label, weights[0], 2, judge_weight_n=weights[1])


def _spread(seed: int, bend: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes along x₀; weights lognormal in x₁, which bends the border by ``bend``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 30))
    logit = 2.0 * X[:, 0] + bend * (np.square(X[:, 1]) - 1.0)
    return X, (rng.random(3000) < 1 / (1 + np.exp(-logit))).astype(np.int64), np.exp(1.5 * X[:, 1])


def test_weights_that_the_model_does_not_need_are_tempered_within_classes() -> None:
    """Where the model is right all weights give the same rule, and equal ones know it best."""
    X, label, weight = _spread(0, 0.0)
    choice = tune_probe(X, label, weight, 2).choice
    assert choice.within < 1.0
    assert "Within classes it learns from" in choice.reason
    assert tune_probe(X, label, weight, 2, taus=[0.5]).choice.within == 1.0
    again = tune_probe(X, label, weight, 2)
    assert WayChoice.from_dict(again.choice.to_dict()) == choice
    few = tune_probe(X[:300], label[:300], weight[:300], 2).choice
    assert few.within == 1.0


def test_weights_that_the_model_needs_stay_as_they_are() -> None:
    """A straight border cannot follow a bent one: only the weights say where it has to be right."""
    assert tune_probe(*_spread(1, 2.0), 2).choice.within == 1.0


def test_weights_of_the_class_alone_are_not_tempered() -> None:
    X, label, _ = _spread(2, 0.0)
    choice = tune_probe(X, label, np.where(label == 1, 3.0, 1.0), 2).choice
    assert choice.within == 1.0
    assert "Within classes" not in choice.reason
