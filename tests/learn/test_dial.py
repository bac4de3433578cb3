"""The dial: weights into logits, class by class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn.dial import temper_within, turn_dial


def _problem(seed: int, n: int = 200, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.gamma(0.7, size=n) * (rng.random(n) > 0.1), rng.integers(0, n_classes, n)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with refused(DataError, option="weight_n"):
        turn_dial(np.array(weights), np.array([0, 1]), 2, 0.5)


def test_a_class_beyond_the_last_is_refused() -> None:
    with refused(DataError, option="label_n", limit=2):
        turn_dial(np.ones(2), np.array([0, 5]), 2, 0.5)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_shares_times_the_shift_are_the_target_shares(seed: int, tau: float) -> None:
    weight_n, label_n = _problem(seed)
    dialled = turn_dial(weight_n, label_n, 4, tau)
    share_m = np.bincount(label_n, weights=weight_n, minlength=4)
    moved_m = np.bincount(label_n, weights=dialled.weight, minlength=4) * np.exp(
        -dialled.logit_shift
    )
    np.testing.assert_allclose(moved_m / moved_m.sum(), share_m / share_m.sum(), atol=1e-12)
    assert ((dialled.weight > 0) == (weight_n > 0)).all()


def test_at_zero_the_weights_stay() -> None:
    weight_n, label_n = _problem(1)
    dialled = turn_dial(weight_n, label_n, 4, 0.0)
    assert not dialled.shifts
    np.testing.assert_allclose(dialled.weight, weight_n / weight_n[weight_n > 0].mean())


def test_weights_of_the_label_alone_vanish_at_one() -> None:
    label_n = np.repeat([0, 1, 2], [50, 30, 20])
    share_m = np.array([0.2, 0.3, 0.5])
    weight_n = (share_m / [50, 30, 20])[label_n]
    dialled = turn_dial(weight_n, label_n, 3, 1.0)
    np.testing.assert_allclose(dialled.weight, 1.0)
    # Logit adjustment: log(share in the pool/share in the target), up to a constant.
    shift_m = np.log(np.array([0.5, 0.3, 0.2]) / share_m)
    np.testing.assert_allclose(np.diff(dialled.logit_shift), np.diff(shift_m), atol=1e-12)


def test_a_class_without_weight_has_no_shift() -> None:
    dialled = turn_dial(np.array([1.0, 3.0, 0.0]), np.array([0, 1, 2]), 4, 0.5)
    assert dialled.logit_shift[2] == dialled.logit_shift[3] == 0.0
    assert dialled.weight[2] == 0.0


def test_of_several_labels_every_label_has_a_weight_and_a_shift() -> None:
    rng = np.random.default_rng(0)
    label_nm = rng.random((300, 3)) < [0.5, 0.2, 0.0]
    weight_n = np.exp(label_nm @ [1.0, -0.5, 0.0])
    dialled = turn_dial(weight_n, label_nm, 3, 1.0)
    assert dialled.weight.shape == (300, 3)
    for m in range(2):
        present_n = label_nm[:, m]
        odds = weight_n[present_n].sum() / weight_n[~present_n].sum()
        moved = dialled.weight[present_n, m].sum() / dialled.weight[~present_n, m].sum()
        assert moved * np.exp(-dialled.logit_shift[m]) == pytest.approx(odds)
    # A label that no image has is not shifted.
    assert dialled.logit_shift[2] == 0.0


def test_a_dial_beyond_its_ends_is_refused() -> None:
    with refused(ConfigError, option="tau", value=1.5):
        turn_dial(np.ones(2), np.array([0, 1]), 2, 1.5)


@given(st.integers(0, 10_000), st.sampled_from([0.5, 1.0]))
def test_a_row_that_counts_as_several_images_is_those_images(seed: int, tau: float) -> None:
    weight_n, label_n = _problem(seed)
    count_n = np.random.default_rng(seed).integers(1, 4, weight_n.size)
    one = turn_dial(weight_n * count_n, label_n, 4, tau, count_n=count_n.astype(float))
    at = np.repeat(np.arange(weight_n.size), count_n)
    each = turn_dial(weight_n[at], label_n[at], 4, tau)
    np.testing.assert_allclose(one.logit_shift, each.logit_shift, atol=1e-12)
    ratio_n = (one.weight / count_n)[at] / np.where(each.weight > 0, each.weight, 1.0)
    assert np.ptp(ratio_n[each.weight > 0]) < 1e-12


def test_weights_tempered_within_classes_keep_the_sum_of_every_class() -> None:
    rng = np.random.default_rng(0)
    label, weight = rng.integers(0, 4, 200), np.exp(rng.normal(size=200))
    weight[:20] = 0.0
    weight[label == 3] = 0.0
    for power in (0.0, 0.5, 1.0):
        tempered = temper_within(weight, label, 5, power)
        for y in range(5):
            own = weight[label == y]
            assert tempered[label == y].sum() == pytest.approx(own.sum())
        assert (tempered[weight == 0] == 0).all()
    np.testing.assert_allclose(temper_within(weight, label, 5, 1.0), weight)
    equal = temper_within(weight, label, 5, 0.0)
    for y in range(3):
        assert np.ptp(equal[(label == y) & (weight > 0)]) < 1e-12
    half, seen = temper_within(weight, label, 5, 0.5), (label == 0) & (weight > 0)
    ratio = half[seen] / np.sqrt(weight[seen])
    assert np.ptp(ratio) < 1e-12
