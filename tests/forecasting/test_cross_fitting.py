"""Folds of two halves that keep together what belongs together, and the extrapolation of the
learning curve.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from raising import refused
from unskew.errors import ConfigError
from unskew.forecasting.cross_fitting import (
    Deal,
    Hits,
    ProbeArm,
    arms_by_fit,
    calibrated_hits,
    cross_fit_arms,
    curve_factor,
    curve_factor_error,
    deal_halves,
    extrapolate,
    merge_copies,
    training_variance,
)
from unskew.forecasting.learners import EstimatorLearner, Learner, ProbeLearner
from unskew.learn.probe import Probe


def _hits(
    arm: ProbeArm, X_nd: Any, label_n: Any, n_classes: int, deal: Deal, learner: Learner
) -> Hits:
    unit_n = np.arange(label_n.size)
    return cross_fit_arms([arm], X_nd, label_n, unit_n, n_classes, deal, learner)[arm.name]


@settings(max_examples=50)
@given(
    n_folds=st.integers(2, 7),
    n=st.integers(30, 120),
    n_units=st.integers(28, 60),
    seed=st.integers(0, 999),
)
def test_units_stay_together_and_every_fold_has_two_halves(
    n_folds: int, n: int, n_units: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    unit_n = np.unique(rng.integers(0, n_units, n), return_inverse=True)[1]
    if unit_n.max() + 1 < 2 * n_folds:
        return
    stratum_n = rng.integers(0, 3, n)
    deal = deal_halves(unit_n, stratum_n, n_folds, seed, np.arange(n))
    for unit in range(unit_n.max() + 1):
        assert (
            np.unique(deal.fold[unit_n == unit]).size
            == np.unique(deal.half[unit_n == unit]).size
            == 1
        )
    assert {(fold, half) for fold, half in zip(deal.fold, deal.half, strict=True)} == {
        (f, h) for f in range(n_folds) for h in (0, 1)
    }
    # In another order of the rows, and with other numbers for the units, everybody is where they
    # were.
    order = rng.permutation(n)
    again = deal_halves(
        rng.permutation(n)[unit_n[order]], stratum_n[order], n_folds, seed, np.argsort(order)
    )
    np.testing.assert_array_equal(again.fold, deal.fold[order])
    np.testing.assert_array_equal(again.half, deal.half[order])


@pytest.mark.parametrize("n_folds", [2, 3, 4, 5, 10])
def test_strata_of_single_images_are_shared_out_evenly(n_folds: int) -> None:
    stratum_n = np.repeat([0, 1, 2], [97, 31, 8])
    deal = deal_halves(np.arange(136), stratum_n, n_folds, 0, np.arange(136))
    for stratum in range(3):
        for code, parts in ((deal.fold, n_folds), (deal.half, 2)):
            count = np.bincount(code[stratum_n == stratum], minlength=parts)
            # Dealt in turn: within one image of one another, and of two rounds.
            assert np.ptp(count) <= 2


@pytest.mark.parametrize("n_folds", [1, 6])
def test_too_few_units_for_the_folds(n_folds: int) -> None:
    with refused(ConfigError, option="folds", count=11):
        deal_halves(np.arange(22) // 2, np.zeros(22, dtype=np.int64), n_folds, 0, np.arange(22))


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
def test_curves_of_both_shapes_are_extrapolated_exactly(n_folds: int) -> None:
    full = (n_folds - 1) / n_folds
    levels = {share: 0.9 - 0.02 / share for share in (full / 2, full, 1.0)}
    value = extrapolate(
        Hits(np.full(3, levels[full]), np.full(3, levels[full / 2]), np.zeros(3)), n_folds
    )
    np.testing.assert_allclose(value, levels[1.0], rtol=1e-12)
    grows = {share: 0.9 + 0.03 * np.log2(share) for share in (full / 2, full, 1.0)}
    factor = curve_factor(n_folds) + 2 * curve_factor_error(n_folds)
    assert grows[full] + factor * (grows[full] - grows[full / 2]) == pytest.approx(
        grows[1.0], rel=1e-12
    )


def test_a_probe_and_the_same_classifier_of_scikit_learn_hit_alike() -> None:
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, 3, 300)
    X_nd = rng.standard_normal((300, 4)) + 2 * rng.standard_normal((3, 4))[label_n]
    deal = deal_halves(np.arange(300), label_n, 3, 0, np.arange(300))
    arm = ProbeArm("own", rng.gamma(1.0, size=300), np.array([0.0, 1.0, 0.0]), ridge=1.0)
    # fit_positive_rows hands on weights of mean 1, so that C is relative to the number of images;
    # both halves and folds have other numbers.
    probe = _hits(arm, X_nd, label_n, 3, deal, ProbeLearner(tol=1e-8))
    assert probe.full.mean() > 0.6
    other = _hits(
        arm, X_nd, label_n, 3, deal, EstimatorLearner(LogisticRegression(C=1 / 200, tol=1e-8))
    )
    assert np.mean(probe.full == other.full) > 0.99


def test_copies_are_rows_of_one_unit_with_the_same_features_and_label() -> None:
    X_nd = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [3.0, 2.0], [1.0, 2.0]])
    label_n = np.array([0, 0, 1, 0, 0, 0])
    # Row 3 is of another unit, row 2 has another label, row 4 other features.
    unit_n = np.array([7, 7, 7, 5, 7, 7])
    kept, row_n = merge_copies(X_nd, label_n, unit_n)
    np.testing.assert_array_equal(kept, [0, 2, 3, 4])
    np.testing.assert_array_equal(row_n, [0, 0, 1, 2, 3, 0])
    np.testing.assert_array_equal(merge_copies(X_nd, label_n, np.arange(6))[1], np.arange(6))


@given(seed=st.integers(0, 999))
@settings(max_examples=10)
def test_merged_copies_change_no_hit(seed: int) -> None:
    """Weight two = image repeated; a tree that counts rows is left alone."""
    rng = np.random.default_rng(seed)
    image_n = rng.integers(0, 60, 150)
    X_nd = rng.standard_normal((60, 3))[image_n]
    label_n = rng.integers(0, 2, 60)[image_n]
    unit_n = np.unique(image_n, return_inverse=True)[1]
    deal = deal_halves(unit_n, label_n, 3, seed, np.arange(150))
    arms = [
        ProbeArm("naive", np.ones(150), ridge=0.1),
        ProbeArm("own", rng.gamma(1.0, size=150), np.array([0.0, 0.3]), ridge=0.1),
    ]
    for learner in (
        ProbeLearner(1e-10),
        EstimatorLearner(DecisionTreeClassifier(min_samples_leaf=5, random_state=0)),
    ):
        found = cross_fit_arms(arms, X_nd, label_n, unit_n, 2, deal, learner)
        for arm in arms:
            plain = _hits(arm, X_nd, label_n, 2, deal, learner)
            for name in ("full", "half", "split"):
                np.testing.assert_array_equal(getattr(found[arm.name], name), getattr(plain, name))


def test_nothing_to_learn_from_is_never_right_and_one_class_is_all_there_is() -> None:
    label_n = np.repeat([0, 1], 20)
    X_nd = label_n[:, None] + np.zeros((40, 2))
    deal = deal_halves(np.arange(40), label_n, 2, 0, np.arange(40))
    for learner in (ProbeLearner(), EstimatorLearner(DecisionTreeClassifier())):
        only = np.zeros(40)
        only[np.flatnonzero(deal.fold == 0)] = 1.0
        hits = _hits(ProbeArm("one fold", only), X_nd, label_n, 2, deal, learner)
        assert not hits.full[deal.fold == 0].any()
        assert hits.full[deal.fold == 1].all()
        hits = _hits(
            ProbeArm("one class", (label_n == 1).astype(float)), X_nd, label_n, 2, deal, learner
        )
        np.testing.assert_array_equal(hits.full, label_n)
        np.testing.assert_array_equal(hits.half, label_n)


def test_training_variance_is_that_of_accuracies_that_vary_with_the_halves() -> None:
    """Models of half the images whose accuracies have the variance σ²: that of a model of all of
    them is σ²/2, and noise only adds.
    """
    rng = np.random.default_rng(0)
    sigma, n, n_folds = 0.1, 1_000, 5
    fold_n = np.arange(n) % n_folds
    deal = Deal(
        fold_n, np.zeros(n, dtype=np.int64), np.zeros((n_folds, n_folds), dtype=np.int64), n_folds
    )
    weight_n = rng.random(n)
    found = []
    for _ in range(400):
        split_f = rng.normal(0.0, sigma, n_folds) - rng.normal(0.0, sigma, n_folds)
        hits = Hits(np.ones(n), np.ones(n), split_f[fold_n])
        found.append(training_variance(hits, weight_n, deal))
    assert abs(np.mean(found) - sigma**2 / 2) < 4 * np.std(found) / np.sqrt(len(found))
    noisy = Hits(np.ones(n), np.ones(n), rng.choice([-1.0, 0.0, 1.0], n))
    assert training_variance(noisy, weight_n, deal) > 0
    assert training_variance(Hits(np.ones(n), np.ones(n), np.zeros(n)), weight_n, deal) == 0.0


class _Counted(ProbeLearner):
    fits = 0

    def train(self, *args: Any, **options: Any) -> Probe:
        type(self).fits += 1
        return super().train(*args, **options)


def test_arms_of_proportional_weights_share_their_fits() -> None:
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, 2, 60)
    X_nd = rng.standard_normal((60, 2)) + label_n[:, None]
    deal = deal_halves(np.arange(60), label_n, 2, 0, np.arange(60))
    arms = [
        ProbeArm("naive", np.full(60, 1 / 60)),
        ProbeArm("logit", np.ones(60), np.array([0.5, -0.5])),
        ProbeArm("other", np.ones(60), ridge=0.5),
    ]
    assert [[arm.name for arm in group] for group in arms_by_fit(arms)] == [
        ["naive", "logit"],
        ["other"],
    ]
    learner, told = _Counted(), []
    hits = cross_fit_arms(arms, X_nd, label_n, np.arange(60), 2, deal, learner, told.append)
    assert _Counted.fits == 2 * 3 * 2
    assert sum(told) == 3 * 3 * 2
    for arm in arms:
        alone = _hits(arm, X_nd, label_n, 2, deal, ProbeLearner())
        np.testing.assert_array_equal(hits[arm.name].full, alone.full)
        np.testing.assert_array_equal(hits[arm.name].half, alone.half)


def test_no_image_is_judged_by_a_calibration_that_has_seen_it() -> None:
    """With the other label everywhere in a fold, its hits are misses: its own labels have no say in
    what is predicted there.
    """
    rng = np.random.default_rng(0)
    label_n = (rng.random(400) < 0.3) * 1
    logit_nm = rng.standard_normal((400, 2)).astype(np.float32)
    deal = deal_halves(np.arange(400), label_n, 4, 0, np.arange(400))
    arm = ProbeArm("half", np.ones(400), calibrate=np.ones(400))
    own = deal.fold == 1
    for within in (None, 0, 1):
        hit_n = calibrated_hits(arm, logit_nm, label_n, np.arange(400), deal, within)
        flipped_n = np.where(own, 1 - label_n, label_n)
        other_n = calibrated_hits(arm, logit_nm, flipped_n, np.arange(400), deal, within)
        np.testing.assert_array_equal(other_n[own], 1 - hit_n[own])


def test_class_biases_are_fitted_to_the_weights_that_calibrate() -> None:
    """Logits for equally frequent classes; the target has nine of ten of the second one."""
    rng = np.random.default_rng(0)
    label_n = rng.integers(0, 2, 4000)
    x_n = rng.standard_normal(4000) + label_n
    logit_nm = np.column_stack([np.zeros(4000), x_n - 0.5]).astype(np.float32)
    logit_nm[:7] = np.nan
    deal = deal_halves(np.arange(4000), label_n, 2, 0, np.arange(4000))
    target_n = np.where(label_n == 1, 0.9, 0.1)
    arm = ProbeArm("half", np.ones(4000), calibrate=target_n)
    hit_n = calibrated_hits(arm, logit_nm, label_n, np.arange(4000), deal, None)
    best_n = (x_n - 0.5 + np.log(9) > 0) == label_n
    # What nothing has predicted is never right.
    assert not hit_n[:7].any()
    assert np.average(hit_n == best_n, weights=target_n) > 0.97
