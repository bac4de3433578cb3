"""The small network trained from scratch on two of the settings, judged on the test images after
every epoch.
"""

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
from paper.settings import BEYOND, Population
from unskew.learn.presets import settings_of
from unskew.learn.train import train_model
from unskew.learn.training_data import TrainingData
from unskew.represent.color import border_hsv

# What tells most comes first.
RUNS = (
    ("classes-0.1-0.3", "naive"),
    ("classes-0.1-0.3", "loss"),
    ("missing-500", "naive"),
    ("missing-500", "loss"),
    ("missing-500", "systematic"),
    ("classes-0.1-0.3", "systematic"),
    ("classes-0.1-0.3", "multinomial"),
    ("missing-500", "multinomial"),
)
SETTINGS_OF_ARM: dict[str, dict[str, Any]] = {
    "naive": {"weighting": "loss"},
    "loss": {"weighting": "loss"},
    "systematic": {"weighting": "sampler", "scheme": "systematic"},
    "multinomial": {"weighting": "sampler", "scheme": "multinomial"},
}


def measure_network(data: Path, cache: Path, seeds: Sequence[int], results: Results) -> None:
    """Every run of `RUNS` for every seed; one that was killed goes on after its last epoch."""
    import torch

    torch.set_num_threads(1)
    train, test = read_sheets(data, "cifar10", "train"), read_sheets(data, "cifar10", "test")
    population = Population(train.label, border_hsv(train.images))
    settings = {setting.key: setting for setting in BEYOND}
    for seed in seeds:
        for key, arm in RUNS:
            epochs = settings_of("fast").epochs
            if all((key, seed, arm, epoch) in results.read() for epoch in range(1, epochs + 1)):
                continue
            draw = settings[key].draw(population, seed)
            bias, target = draw.families["debiased"]
            weight_n = (
                np.ones(draw.index.size)
                if arm == "naive"
                else unskew.debias(draw.pool, bias, target, rng=seed).weight
            )
            ids = draw.pool.frame["id"].to_numpy()
            data = TrainingData(
                train.images[draw.index], train.label[draw.index], train.classes, weight_n, ids
            )
            chosen = settings_of("fast", seed=seed, device="cpu", **SETTINGS_OF_ARM[arm])
            folder = cache / "learning-network" / f"{key}-{seed}-{arm}"
            trained = train_model(
                data, chosen, folder, resume=True, logs=False, watch=by_class(test)
            )
            for epoch, row in enumerate(trained.history, start=1):
                add_epoch(results, key, seed, arm, epoch, row, test)


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
