"""Accuracy on the test images of probes trained on parts of a draw: how the learning curve goes on,
which forecasts extrapolate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from learning_results import Results
from learning_ways import FOLDS, Images, distinct_images
from solver_table import commit_facts

import unskew
from paper.features import Features
from paper.settings import Population, Setting
from unskew.learn.dial import turn_dial
from unskew.learn.probe_grid import dialled_probe
from unskew.learn.ways import DEFAULT_RIDGE, START
from unskew.records import Floats

# Forecasts train on four of five folds, and on halves of those.
SHARES = (0.4, 0.8, 1.0)


def measure_curves(
    features: Features, settings: Sequence[Setting], seeds: Sequence[int], results: Results
) -> None:
    """Naive and half, mean over five choices of the folds (copies of an image stay together)."""
    population = Population(features.train_label, features.border)
    for seed in seeds:
        for setting in settings:
            done = {key[2] for key in results.read() if key[:2] == (setting.key, seed)}
            if {"naive", "half"} <= done:
                continue
            draw = setting.draw(population, seed)
            images = distinct_images(draw, features, seed)
            bias, target = draw.families["debiased"]
            weights = {
                "naive": images.merge(np.ones(draw.index.size)),
                "half": images.merge(unskew.debias(draw.pool, bias, target, rng=seed).weight),
            }
            for arm, weight_m in weights.items():
                accuracy = [_mean_accuracy(weight_m, images, share, features) for share in SHARES]
                record = {
                    "setting": setting.key,
                    "seed": seed,
                    "arm": arm,
                    "shares": SHARES,
                    "accuracy": accuracy,
                }
                results.add(record | {"commit": commit_facts()})
                print(
                    f"{setting.key} seed {seed} {arm}: {np.round(accuracy, 2)}",
                    file=sys.stderr,
                    flush=True,
                )


def _mean_accuracy(weight_m: Floats, images: Images, share: float, features: Features) -> float:
    """Over rotations of the folds: 2, 4 or 5 of them in turn."""
    count = round(share * FOLDS)
    accuracies = []
    for first in range(FOLDS) if count < FOLDS else range(1):
        rows = np.flatnonzero((images.fold - first) % FOLDS < count)
        label_r = images.label[rows]
        dialled = turn_dial(weight_m[rows], label_r, images.n_classes, START)
        probe = dialled_probe(images.X[rows], label_r, dialled, ridge=DEFAULT_RIDGE, tol=1e-4)
        accuracies.append(100 * float((probe.predict(features.test) == features.test_label).mean()))
    return float(np.mean(accuracies))
