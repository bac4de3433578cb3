"""Scores of the classes: cross-fitted, and probabilities."""

from __future__ import annotations

import numpy as np

from raising import refused
from unlabelled_targets import shifted_world
from unskew import DataError
from unskew.bias.class_scores import SCORE_COLUMN, learn_class_scores

SHARE = [0.2, 0.3, 0.5]


def test_scores_are_those_of_probes_that_have_not_seen_the_image() -> None:
    pool, _, _ = shifted_world(1, share=SHARE)
    noise = pool.frame.assign(label=np.random.default_rng(0).permutation(pool.frame["label"]))
    scores = learn_class_scores(noise, ["x"])
    right = np.array(scores.classes)[scores.fold_log_p.argmax(axis=1)] == noise["label"]
    # Labels at random: the largest class has 0.6, and learning by heart would exceed it.
    assert right.mean() < 0.64
    np.testing.assert_allclose(np.exp(scores.fold_log_p).sum(axis=1), 1.0)


def test_columns_of_scores_are_taken_as_they_are() -> None:
    pool, _, _ = shifted_world(1, share=SHARE)
    scored = pool.frame.assign(**{SCORE_COLUMN + name: 0.0 for name in ("cat", "dog", "fox")})
    scores = learn_class_scores(scored, ["x"])
    np.testing.assert_allclose(np.exp(scores.log_p(scored)), 1 / 3)


def test_a_class_of_one_image_is_named() -> None:
    pool, _, _ = shifted_world(1, share=SHARE, n=200)
    lone = pool.frame.assign(label=["emu", *pool.frame["label"][1:]])
    with refused(DataError, levels=["emu"]):
        learn_class_scores(lone, ["x"])
