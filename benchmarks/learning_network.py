"""The small network trained from scratch in every way and by every recipe for rare classes."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from learning_results import Record, Results
from learning_settings import CASES, Case, LongTail
from learning_ways import calibration_error
from solver_table import commit_facts

import unskew
from paper.cifar_copies import CifarSplit
from paper.cifar_data import read_split
from paper.settings import Draw, Population
from unskew.learn.baselines import make_baseline
from unskew.learn.presets import settings_of
from unskew.learn.recipes import Recipe
from unskew.learn.sklearn_fit import offset_of
from unskew.learn.train import train_model
from unskew.learn.training_data import TrainingData
from unskew.records import Floats, Ints
from unskew.represent.color import border_hsv
from unskew.splits.folds import deal_folds

# The settings that networks are measured on; what tells most comes first.
TAILS = ("tail-100", "tail-200", "cifar100-tail-100", "cifar100-tail-200")
KEYS = (*TAILS, "classes-0.1-0.3", "missing-500", "background-500", "classes-0.1")
OURS: dict[str, dict[str, Any]] = {
    "auto": {"way": "auto"},
    "weights": {"way": "weights"},
    "half": {"way": "half"},
    "logit": {"way": "logit"},
    "head": {"way": "head"},
    "weights in the loss": {"way": "weights", "weighting": "loss"},
    "half in the loss": {"way": "half", "weighting": "loss"},
}
RECIPES = ("naive", "logit_adjustment", "classifier_retraining", "deferred_weighting", "vs_loss")
ARMS = ("auto", "naive", "weights", "logit", *RECIPES[1:], *list(OURS)[4:])
# Half the time of single precision on processors that have it, four times as much on others.
FAST_PRECISION, PLAIN_PRECISION = "bf16-mixed", "32-true"
# A tail has fewer images; with as many epochs as for 50,000 it would learn hardly anything.
EPOCHS_OF_A_TAIL = 10
# One tenth of every draw is left out of all trainings: it chooses the epoch, and calibrates `auto`.
_PARTS = 10


def measure_network(
    data: Path,
    cache: Path,
    seeds: Sequence[int],
    results: Results,
    cases: Sequence[Case],
    arms: Sequence[str],
) -> None:
    """Train every arm on every setting for every seed; one that was killed is resumed."""
    import torch

    torch.set_num_threads(1)
    load = functools.cache(
        lambda name: (read_split(data, name, "train"), read_split(data, name, "test"))
    )
    wanted = [key for key in KEYS if CASES[key] in cases]
    for seed, key in ((seed, key) for seed in seeds for key in wanted):
        for arm in arms or ARMS:
            if (key, seed, arm) not in results.read():
                train, test = load(CASES[key].data)
                begin, commit = time.process_time(), commit_facts()
                record = train_arm(CASES[key], train, test, arm, seed, cache)
                cpu = time.process_time() - begin
                results.add(
                    {"setting": key, "seed": seed, "arm": arm, **record, "cpu": cpu}
                    | {"commit": commit}
                )
                print(
                    f"{key} seed {seed} {arm} ({cpu:.0f} s): {record['accuracy']:.2f}",
                    file=sys.stderr,
                    flush=True,
                )


def train_arm(
    case: Case, train: CifarSplit, test: CifarSplit, arm: str, seed: int, cache: Path
) -> Record:
    """Train a network and test it: accuracy, by class, calibration error, in points."""
    import torch

    draw = case.setting.draw(Population(train.label, border_hsv(train.images)), seed)
    options = OURS.get(arm, {"way": "weights"})
    if isinstance(case.setting, LongTail):
        options = options | {"epochs": EPOCHS_OF_A_TAIL}
    fast = torch.cpu._is_avx512_bf16_supported()
    precision = FAST_PRECISION if fast else PLAIN_PRECISION
    settings = settings_of("fast", seed=seed, device="cpu", precision=precision, **options)
    images, recipe = training_data(draw, train, arm, seed)
    trained = train_model(
        images,
        settings,
        cache / "learning-network" / f"{case.key}-{seed}-{arm.replace(' ', '-')}",
        resume=True,
        logs=False,
        recipe=recipe,
    )
    score_nm = trained.scores(test.images, progress=False)
    hit_n = score_nm.argmax(axis=1) == test.label
    with np.errstate(divide="ignore"):
        error = calibration_error(np.log(score_nm), hit_n)
    return {
        "accuracy": 100.0 * float(hit_n.mean()),
        "by_group": [
            100.0 * float(hit_n[test.label == y].mean()) for y in range(len(test.classes))
        ],
        "calibration_error": 100.0 * error,
        "images": int(images.label.size),
        "epochs": settings.epochs,
        "precision": precision,
    }


def training_data(
    draw: Draw, train: CifarSplit, arm: str, seed: int
) -> tuple[TrainingData, Recipe | None]:
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
            group=unit_n[rows],
        )

    rows = np.flatnonzero(~is_validation_n)
    recipe, learned_n = None, weight_n
    if arm in RECIPES:
        recipe, learned_n = follow_recipe(arm, draw, target, rows, len(train.classes))
    held_out = part(np.flatnonzero(is_validation_n), weight_n, None)
    return part(rows, learned_n, held_out), recipe


def follow_recipe(
    arm: str, draw: Draw, target: unskew.Target | None, rows: Ints, n_classes: int
) -> tuple[Recipe, Floats]:
    """What the recipe does to the logits, and its weights of the rows ``rows`` (others 1)."""
    made = make_baseline(arm, draw.pool.take(rows), None if arm == "naive" else target)
    names = [str(m) for m in range(n_classes)]

    def by_class(values: Floats | None) -> Floats | None:
        if values is None or made.classes is None:
            return None
        return offset_of(names, made.classes, values)

    weight_n = np.ones(draw.index.size)
    weight_n[rows] = made.sample_weight
    form: Any = made.form or "weights"
    return Recipe(form, by_class(made.logit_offset), by_class(made.logit_factor)), weight_n
