"""Scores as users give them: what is read, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import DataError
from unskew.target.classifier_scores import read_scores

LABELS = np.repeat(["a", "b", "c"], 6)
GOOD = 0.7 * np.eye(3)[np.repeat([0, 1, 2], 6)] + 0.1


def read(target=GOOD, validation=GOOD, labels=LABELS, classes=None, **further):
    given = {"weights": None, "group": None, "validation_group": None, **further}
    return read_scores(target, validation, labels, classes, *given.values())


def test_classes_are_the_labels_in_order():
    scores = read()
    assert scores.classes == ("a", "b", "c")
    np.testing.assert_allclose(np.exp(scores.target), GOOD)
    np.testing.assert_array_equal(scores.validation.label, np.repeat([0, 1, 2], 6))
    assert read(labels=np.repeat([10, 2, 33], 6)).classes == ("2", "10", "33")


def test_sums_may_be_rounded_and_zeros_are_half_of_the_smallest_score():
    rounded = GOOD.astype(np.float16)
    np.testing.assert_allclose(np.exp(read(target=rounded).target).sum(axis=1), 1)
    zero = np.where(GOOD < 0.5, 0.0, 1.0)
    zero[0] = [0.92, 0.08, 0.0]
    assert np.exp(read(validation=zero).validation.log_score).min() == pytest.approx(0.04)


def test_weights_sum_to_the_number_of_images_of_each_class():
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 18)
    validation = read(weights=weight).validation
    np.testing.assert_allclose(np.bincount(validation.label, weights=validation.weight), 6)


@pytest.mark.parametrize("bad", [-0.2, np.nan, 1.5])
def test_scores_must_be_probabilities(bad):
    wrong = GOOD.copy()
    wrong[4, 1] = bad
    with refused(DataError, option="target_scores", row=4, count=1):
        read(target=wrong)
    with refused(DataError, option="validation_scores", row=4, count=1):
        read(validation=wrong)


def test_shapes_and_names_must_fit():
    with refused(DataError, option="target_scores", value=[18, 2], limit=3):
        read(target=GOOD[:, :2])
    with refused(DataError, option="target_scores", value=[18], limit=3):
        read(target=GOOD[:, 0])
    with refused(DataError, option="target_scores"):
        read(target=GOOD[:0])
    with refused(DataError, option="target_scores"):
        read(target=[["high", "low", "low"]])
    with refused(DataError, option="validation_labels", count=17, limit=18):
        read(labels=LABELS[:17])
    with refused(DataError, option="classes"):
        read(classes=["a", "a", "b"])
    frame = pd.DataFrame(GOOD, columns=["a", "b", "c"])
    with refused(DataError, option="validation_scores", levels=["c"]):
        read(target=frame, validation=frame.rename(columns={"c": "d"}))


def test_labels_must_be_classes_and_present():
    with refused(DataError, option="validation_labels", levels=["x"]):
        read(labels=np.where(LABELS == "a", "x", LABELS), classes=["a", "b", "c"])
    missing = LABELS.astype(object)
    missing[0] = None
    with refused(DataError, option="validation_labels", levels=["(missing)"]):
        read(labels=missing)


def test_every_class_needs_five_labelled_images():
    few = np.r_[LABELS[:6], LABELS[6:10], LABELS[12:]]
    with refused(DataError, levels=["b"], count=4, limit=5):
        read(validation=GOOD[:16], labels=few)
    with refused(DataError, levels=["c"], count=0):
        read(validation=GOOD[:12], labels=LABELS[:12], classes=["a", "b", "c"])
    with refused(DataError, levels=["a"]):
        read(weights=np.r_[1.0, np.full(17, 0.01)])
    with refused(DataError, levels=["a", "b", "c"], count=3):
        read(validation_group=np.arange(18) // 2)


def test_weights_and_groups_must_fit():
    with refused(DataError, option="validation_weights", value=[17], limit=18):
        read(weights=np.ones(17))
    with refused(DataError, option="validation_weights", row=2):
        read(weights=np.r_[1.0, 1.0, -1.0, np.ones(15)])
    with refused(DataError, option="group", count=3, limit=18):
        read(group=[1, 2, 3])
    with refused(DataError, option="validation_group", count=18):
        read(validation_group=[None, *range(17)])
