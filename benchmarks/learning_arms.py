"""Ways to learn from a draw of a setting, each a weight for every image (and for logit adjustment
an offset for every class).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from functools import partial

import numpy as np

import unskew
from paper.features import Features
from paper.settings import Draw, Population, Setting
from unskew.learn.baselines import BASELINES, make_baseline
from unskew.learn.probe import Probe, fit_probe
from unskew.learn.sklearn_fit import offset_of
from unskew.records import Floats, Ints

# Columns that say how usual the background is, for the density ratio of the one setting where a
# target sample makes it sensible.
DENSITY_COLUMNS = ("usual", "unusual")


@dataclass(frozen=True, eq=False)
class TrainingArm:
    """Images of the population by number, and a weight for each."""

    name: str
    index: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    logit_offset: Floats | None = field(repr=False, default=None)

    @property
    def ess(self) -> float:
        return float(self.weight.sum() ** 2 / np.square(self.weight).sum())


@dataclass(frozen=True)
class Score:
    """Accuracies on the test images, in points: all, and of every group."""

    accuracy: float
    by_group: tuple[float, ...]

    @property
    def worst(self) -> float:
        return min(self.by_group)


def reference_arm(population: Population, size: int, seed: int) -> TrainingArm:
    """An unbiased sample of the same size, drawn with replacement as the sources are."""
    index_n = np.random.default_rng([seed, size]).integers(0, population.label.size, size)
    return TrainingArm("reference", index_n, np.ones(size))


def arms_of(
    draw: Draw, population: Population, seed: int, only: Set[str] | None = None
) -> Iterator[TrainingArm]:
    """Reference, naive, the families of the setting, the true ω, and the baselines that can be
    made; or ``only`` some of these.
    """
    makers: dict[str, Callable[[], TrainingArm]] = {
        "reference": lambda: reference_arm(population, draw.index.size, seed),
        "naive": lambda: TrainingArm("naive", draw.index, np.ones(draw.index.size)),
        "oracle": lambda: TrainingArm(
            "oracle", draw.index, unskew.debias_weights(draw.omega, draw.pool.source).weight
        ),
        **{name: partial(family_arm, draw, name, seed) for name in draw.families},
    }
    yield from (make() for name, make in makers.items() if only is None or name in only)
    if only is None:
        yield from baseline_arms(draw, seed)


def family_arm(draw: Draw, name: str, seed: int) -> TrainingArm:
    """The weights of one of the setting's bias models."""
    bias, target = draw.families[name]
    return TrainingArm(name, draw.index, unskew.debias(draw.pool, bias, target, rng=seed).weight)


def baseline_arms(draw: Draw, seed: int) -> Iterator[TrainingArm]:
    """Those that the setting's target allows; in place of a target that nobody knows, none."""
    target = next(iter(draw.families.values()))[1]
    options = {"subsample": {"seed": seed}}
    if set(DENSITY_COLUMNS) <= set(draw.pool.frame.columns):
        options["density_ratio"] = {"features": DENSITY_COLUMNS}
    classes = sorted(set(draw.pool.frame["label"].astype(str)), key=int)
    for name in BASELINES:
        if name == "naive":
            continue
        try:
            made = make_baseline(name, draw.pool, target, **options.get(name, {}))
        except unskew.UnskewError:
            continue
        if made.form not in (None, "posthoc"):
            continue
        offset = None
        if made.logit_offset is not None and made.classes is not None:
            offset = offset_of(classes, made.classes, made.logit_offset)
        yield TrainingArm(name, draw.index, made.weight, offset)


def train_arm(arm: TrainingArm, features: Features, *, tol: float = 1e-5) -> Probe:
    """The probe, ridge 3e-3.

    Copies of one image are one row with the sum of their weights, which is the same problem: weight
    two = image repeated.
    """
    image_m, row_n = np.unique(arm.index, return_inverse=True)
    weight_m = np.bincount(row_n, weights=arm.weight)
    return fit_probe(
        features.train[image_m],
        features.train_label[image_m],
        weight_m,
        features.n_classes,
        ridge=3e-3,
        tol=tol,
    )


def score_arm(
    arm: TrainingArm, features: Features, setting: Setting, *, tol: float = 1e-5
) -> Score:
    """Train the probe and count on the test images."""
    probe = train_arm(arm, features, tol=tol)
    hit_n = probe.predict(features.test, arm.logit_offset) == features.test_label
    group_n, names = setting.group(Population(features.test_label, features.test_border))
    by_group = tuple(100.0 * float(hit_n[group_n == g].mean()) for g in range(len(names)))
    return Score(100.0 * float(hit_n.mean()), by_group)
