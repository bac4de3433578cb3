"""The small network trained from scratch in every way, tested after every epoch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from learning_results import Results
from solver_table import commit_facts

import unskew
from paper.cifar_sheets import Sheets, read_sheets
from paper.settings import BEYOND, ClassOverlap, Draw, Population
from unskew.learn.presets import settings_of
from unskew.learn.train import train_model
from unskew.learn.training_data import TrainingData
from unskew.records import Floats, Ints
from unskew.represent.color import border_hsv
from unskew.splits.folds import deal_folds

SETTINGS = {
    setting.key: setting for setting in (BEYOND[1], BEYOND[3], BEYOND[4], ClassOverlap(0.1))
}
# What tells most comes first.
ARMS = ("half", "naive", "weights", "logit", "head", "weights in the loss", "half in the loss")
SETTINGS_OF_ARM: dict[str, dict[str, Any]] = {
    "naive": {"way": "weights"},
    "weights in the loss": {"way": "weights", "weighting": "loss"},
    "half in the loss": {"way": "half", "weighting": "loss"},
}
# One tenth of every draw is left out of all trainings: it chooses the epoch, and `auto`'s way.
_PARTS = 10


def measure_network(
    data: Path,
    cache: Path,
    seeds: Sequence[int],
    results: Results,
    keys: Sequence[str],
    arms: Sequence[str],
) -> None:
    """Train every arm on every setting for every seed; one that was killed is resumed."""
    import torch

    torch.set_num_threads(1)
    train, test = read_sheets(data, "cifar10", "train"), read_sheets(data, "cifar10", "test")
    population = Population(train.label, border_hsv(train.images))
    for seed in seeds:
        for arm in arms or ARMS:
            for key in [key for key in SETTINGS if not keys or key in keys]:
                if (key, seed, arm, settings_of("fast").epochs) not in results.read():
                    draw = SETTINGS[key].draw(population, seed)
                    folder = cache / "learning-network" / f"{key}-{seed}-{arm.replace(' ', '-')}"
                    trained = train_model(
                        training_data(draw, train, arm, seed),
                        settings_of(
                            "fast",
                            seed=seed,
                            device="cpu",
                            **SETTINGS_OF_ARM.get(arm, {"way": arm}),
                        ),
                        folder,
                        resume=True,
                        logs=False,
                        watch=by_class(test),
                    )
                    for epoch, row in enumerate(trained.history, start=1):
                        add_epoch(results, key, seed, arm, epoch, row, test)


def training_data(draw: Draw, train: Sheets, arm: str, seed: int) -> TrainingData:
    """The images of nine tenths of a draw with the arm's weights; the others validate."""
    bias, target = draw.families["debiased"]
    weight_n = unskew.debias(draw.pool, bias, target, rng=seed).weight
    stratum_n = draw.pool.source.astype(np.int64) * len(train.classes) + train.label[draw.index]
    unit_n = np.unique(draw.index, return_inverse=True)[1]
    is_validation_n = deal_folds(unit_n, stratum_n, _PARTS, seed) == 0
    ids = draw.pool.frame["id"].to_numpy()

    def part(rows: Ints, weight_n: Floats, validation: TrainingData | None) -> TrainingData:
        image_m = draw.index[rows]
        return TrainingData(
            train.images[image_m],
            train.label[image_m],
            train.classes,
            weight_n[rows],
            ids[rows],
            validation,
        )

    held_out = part(np.flatnonzero(is_validation_n), weight_n, None)
    learned_n = np.ones(weight_n.size) if arm == "naive" else weight_n
    return part(np.flatnonzero(~is_validation_n), learned_n, held_out)


def by_class(test: Sheets) -> dict[str, TrainingData]:
    """The test images of every class as a set of their own: the mean of ten accuracies is that of
    all, the lowest the worst class.
    """
    weights = {}
    for y, name in enumerate(test.classes):
        rows = np.flatnonzero(test.label == y)
        weights[name] = TrainingData(
            test.images[rows], test.label[rows], test.classes, np.ones(rows.size), rows.astype(str)
        )
    return weights


def add_epoch(
    results: Results, key: str, seed: int, arm: str, epoch: int, row: Any, test: Sheets
) -> None:
    by_group = [100 * row[f"{name}_accuracy"] for name in test.classes]
    record = {
        "setting": key,
        "seed": seed,
        "arm": arm,
        "epoch": epoch,
        "accuracy": float(np.mean(by_group)),
        "by_group": by_group,
    }
    results.add(record | {"seconds": row["seconds"], "commit": commit_facts()})
    print(
        f"{key} seed {seed} {arm} epoch {epoch}: {record['accuracy']:.2f}",
        file=sys.stderr,
        flush=True,
    )
