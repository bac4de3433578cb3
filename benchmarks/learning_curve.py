"""Accuracy on the test images of probes trained on parts of a draw: how the learning curve goes on,
which forecasts extrapolate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from learning_arms import TrainingArm, family_arm, score_arm
from learning_results import Results
from solver_table import commit_facts

from paper.features import Features
from paper.settings import Population, Setting
from unskew.splits.folds import deal_folds

# Forecasts train on four of five folds, and on halves of those.
SHARES = (0.4, 0.8, 1.0)
_PARTS = 5


def measure_curves(
    features: Features, settings: Sequence[Setting], seeds: Sequence[int], results: Results
) -> None:
    """Naive and debiased, mean over five choices of the folds (copies of an image stay
    together).
    """
    population = Population(features.train_label, features.border)
    for seed in seeds:
        for setting in settings:
            done = {key[2] for key in results.read() if key[:2] == (setting.key, seed)}
            if {"naive", "debiased"} <= done:
                continue
            draw = setting.draw(population, seed)
            image_n = np.unique(draw.index, return_inverse=True)[1]
            stratum_n = (
                draw.pool.source.astype(np.int64) * features.n_classes
                + features.train_label[draw.index]
            )
            fold_n = deal_folds(image_n, stratum_n, _PARTS, seed)
            arms = (
                TrainingArm("naive", draw.index, np.ones(draw.index.size)),
                family_arm(draw, "debiased", seed),
            )
            for arm in arms:
                accuracy = [
                    _mean_accuracy(arm, fold_n, share, features, setting) for share in SHARES
                ]
                record = {
                    "setting": setting.key,
                    "seed": seed,
                    "arm": arm.name,
                    "shares": SHARES,
                    "accuracy": accuracy,
                }
                results.add(record | {"commit": commit_facts()})
                print(
                    f"{setting.key} seed {seed} {arm.name}: {np.round(accuracy, 2)}",
                    file=sys.stderr,
                    flush=True,
                )


def _mean_accuracy(
    arm: TrainingArm, fold_n: np.ndarray, share: float, features: Features, setting: Setting
) -> float:
    """Over rotations of the folds: 2, 4 or 5 of them in turn."""
    count = round(share * _PARTS)
    rotations = range(_PARTS) if count < _PARTS else range(1)
    accuracies = []
    for first in rotations:
        rows = np.flatnonzero((fold_n - first) % _PARTS < count)
        part = TrainingArm(arm.name, arm.index[rows], arm.weight[rows])
        accuracies.append(score_arm(part, features, setting, tol=1e-4).accuracy)
    return float(np.mean(accuracies))
