"""Models that read labels and models that read features, scored by one likelihood."""

from __future__ import annotations

import pytest

import unskew
from raising import refused
from unlabelled_targets import shifted_world
from unskew import ConfigError
from unskew.bias import ClassShift, ClassTilt, Strata

POOLED = [0.6, 0.3, 0.1]
OTHER = [0.2, 0.3, 0.5]


def test_classes_are_not_counted_as_evidence_by_themselves() -> None:
    """A model that reads labels without need scores as one that reads nothing."""
    pool, target, _ = shifted_world(5, share=POOLED, sources=1)
    table = unskew.choose_bias(pool, [ClassShift(["x"])], target, check=False).table
    score = table.set_index("candidate")["score"]
    # Estimated shares are off by chance, which costs about C/2 of 1,500 images.
    assert score["ClassShift(x)"] == pytest.approx(score["naive pooling"], abs=0.004)


def test_a_labelled_sample_is_scored_by_its_labels() -> None:
    pool, target, _ = shifted_world(6, share=OTHER, labelled=True)
    table = unskew.choose_bias(
        pool, {"shift": ClassShift(["x"]), "strata": Strata("label")}, target, check=False
    ).table.set_index("candidate")
    assert table.loc["shift", "score"] == pytest.approx(table.loc["strata", "score"])


def test_candidates_read_the_label_through_the_same_features() -> None:
    pool, target, _ = shifted_world(6, share=OTHER)
    with refused(ConfigError, option="candidates"):
        unskew.choose_bias(pool, [ClassShift(["x"]), ClassTilt(["x_0"])], target)
