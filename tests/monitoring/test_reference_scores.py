"""Scores come from one half of the old images, and rank among the other."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from monitored_pools import draw_images
from unskew.monitoring.reference_scores import learn_scores
from unskew.monitoring.stream import TARGET_STREAM, Reference
from unskew.monitoring.variables import DISTANCE, MEMBERSHIP, WEIGHT
from unskew.records import Pool, Target


def test_scores_rank_among_the_half_that_they_were_not_fitted_on(reference: Reference) -> None:
    values = reference.streams["a"].values
    assert values["x"].size == 200
    assert values[WEIGHT].size == values[MEMBERSHIP].size == 100
    assert reference.streams[TARGET_STREAM].values[DISTANCE].size == 60


def test_scores_of_the_fitted_images_are_their_weights_and_memberships() -> None:
    rng = np.random.default_rng(6)
    frame = draw_images(30, rng).assign(label=rng.choice(["cat", "dog"], 60))
    pool, target = Pool(frame), Target.margins({"label": {"cat": 0.7, "dog": 0.3}})
    bias = unskew.bias.Strata("label")
    scores = learn_scores(pool, bias, target, ("x", "y"), seed=0)
    weights = unskew.debias(pool, bias, target)
    is_a = frame["source"] == "a"
    computed = scores.compute(frame[is_a], "a")
    assert computed[WEIGHT] == pytest.approx(weights.sample_weight[is_a], rel=1e-9)
    # q of strata is the share of the source among the images of the stratum.
    share = is_a.groupby(frame["label"]).mean()
    assert computed[MEMBERSHIP] == pytest.approx(share[frame["label"][is_a]].to_numpy(), rel=1e-9)
    unknown = scores.compute(frame[is_a].assign(label="fox"), "a")
    assert WEIGHT not in unknown


def test_an_unknown_level_leaves_the_scores_of_the_others() -> None:
    rng = np.random.default_rng(7)
    frame = draw_images(30, rng).assign(label=rng.choice(["cat", "dog"], 60))
    target = Target.uniform("label")
    scores = learn_scores(Pool(frame), unskew.bias.Strata("label"), target, (), seed=0)
    # Another column has missing values; they are no obstacle.
    other = [None if k % 3 else "p" for k in range(60)]
    mixed = frame.assign(label=["fox", *frame["label"][1:]], other=other)
    computed = scores.compute(mixed, "a")[WEIGHT]
    assert np.isinf(computed[0])
    assert computed[1:] == pytest.approx(scores.compute(frame, "a")[WEIGHT][1:])


def test_a_model_that_cannot_be_fitted_is_a_note() -> None:
    pool = Pool(draw_images(5, np.random.default_rng(8)))
    scores = learn_scores(pool, unskew.bias.Strata("label"), Target.uniform("label"), (), seed=0)
    assert scores.weights is None
    assert scores.note
    assert scores.compute(pool.frame, "a") == {}
