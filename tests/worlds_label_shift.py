"""Worlds in which only the shares of classes differ between target and validation images, with
the scores of a classifier and the truth; used by the tests and ``benchmarks/honest_errors.py``.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulation_measures import binomial_error, mean_of
from simulations import DataSet, Rng, make_pool
from unskew import Target
from unskew.bias import Strata
from unskew.errors import CoverageError, UnskewWarning

NAMES = np.array([f"c{at}" for at in range(10)], dtype=object)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores of the target's and of labelled images, their labels, and the true shares."""

    target_scores: np.ndarray
    validation_scores: np.ndarray
    validation_labels: np.ndarray
    truth: np.ndarray
    options: dict[str, Any]

    def target(self, **options: Any) -> Target:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            return Target.from_predictions(
                self.target_scores,
                self.validation_scores,
                self.validation_labels,
                classes=NAMES[: self.truth.size],
                **{**self.options, **options},
            )


World = Callable[[Rng], Predictions]


def softmax(logit_nc: np.ndarray) -> np.ndarray:
    shifted = np.exp(logit_nc - logit_nc.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def draw_labels(rng: Rng, n: int, share: np.ndarray, least: int = 0) -> np.ndarray:
    """Labels by their shares, at least so many of each class."""
    while True:
        label = rng.choice(share.size, n, p=share)
        if np.bincount(label, minlength=share.size).min() >= least:
            return label


def logits(rng: Rng, label: np.ndarray, n_classes: int, apart: float) -> np.ndarray:
    """True log-odds under equal shares: unit Gaussians ``apart`` from the origin."""
    x = rng.normal(size=(label.size, n_classes)) + apart * np.eye(n_classes)[label]
    return apart * x


def gaussian(
    rng: Rng,
    truth: np.ndarray,
    *,
    m: int,
    v: int,
    apart: float = 1.5,
    slope: Any = 2.0,
    tilt: float = 0.5,
    prior: np.ndarray | None = None,
) -> Predictions:
    """A classifier whose log-odds are ``slope`` times too large, with wrong intercepts."""
    n = truth.size
    shift = np.linspace(-tilt, tilt, n)
    target = draw_labels(rng, m, truth)
    validation = draw_labels(rng, v, np.full(n, 1 / n) if prior is None else prior, 5)
    scores = [
        softmax(np.asarray(slope) * logits(rng, label, n, apart) + shift)
        for label in (target, validation)
    ]
    return Predictions(scores[0], scores[1], NAMES[validation], truth, {})


def overconfident(rng: Rng) -> Predictions:
    """Three classes, 500 target and 400 labelled images, log-odds twice too large."""
    return gaussian(rng, np.array([0.6, 0.3, 0.1]), m=500, v=400)


def rare_class(rng: Rng) -> Predictions:
    """Five classes, one of 1% of the target; 1,000 and 1,000 images."""
    truth = np.array([0.4, 0.3, 0.2, 0.09, 0.01])
    return gaussian(rng, truth, m=1000, v=1000, apart=2.0)


def rare_sharp(rng: Rng) -> Predictions:
    """Three classes that are hardly confused, one of 0.3% of 1,000 target images: about three."""
    return gaussian(rng, np.array([0.697, 0.3, 0.003]), m=1000, v=600, apart=3.5)


def absent_class(rng: Rng) -> Predictions:
    """Four classes, one of which the target does not have."""
    return gaussian(rng, np.array([0.5, 0.3, 0.2, 0.0]), m=600, v=500, apart=2.0)


def two_small(rng: Rng) -> Predictions:
    """Two classes, 150 target and 60 labelled images."""
    return gaussian(rng, np.array([0.8, 0.2]), m=150, v=60, apart=1.3)


def ten_classes(rng: Rng) -> Predictions:
    """Ten classes, 2,000 target and 1,000 labelled images, shares from 1% to 30%."""
    truth = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.04, 0.03, 0.02, 0.01])
    return gaussian(rng, truth, m=2000, v=1000, apart=2.5, slope=0.6)


def own_slopes(rng: Rng) -> Predictions:
    """Three classes, each with a slope of its own."""
    return gaussian(rng, np.array([0.2, 0.2, 0.6]), m=800, v=800, slope=np.array([0.5, 1.0, 2.0]))


def skewed_validation(rng: Rng) -> Predictions:
    """Three classes; the labelled images have shares 0.8, 0.15, 0.05, the target the reverse."""
    return gaussian(
        rng, np.array([0.05, 0.15, 0.8]), m=600, v=600, prior=np.array([0.8, 0.15, 0.05])
    )


def subtypes(rng: Rng) -> Predictions:
    """Classes of two subtypes, the harder one twice too frequent among the labelled images, with
    weights.
    """
    truth, n = np.array([0.7, 0.2, 0.1]), 3
    target, validation = draw_labels(rng, 700, truth), draw_labels(rng, 700, np.full(n, 1 / n), 20)
    scores, weight = [], np.ones(0)
    for label, hard in ((target, 0.3), (validation, 0.6)):
        is_hard = rng.random(label.size) < hard
        apart = np.where(is_hard, 1.0, 2.2)[:, None]
        x = rng.normal(size=(label.size, n)) + apart * np.eye(n)[label]
        scores.append(softmax(2.0 * x))
        weight = np.where(is_hard, 0.3 / 0.6, 0.7 / 0.4)
    return Predictions(
        scores[0], scores[1], NAMES[validation], truth, {"validation_weights": weight}
    )


def bursts(rng: Rng) -> Predictions:
    """Bursts of four images of one class and much the same look, in target and validation."""
    truth, n = np.array([0.6, 0.3, 0.1]), 3
    parts = []
    for share, size in ((truth, 250), (np.full(n, 1 / n), 200)):
        label = draw_labels(rng, size, share, 8)
        common = rng.normal(size=(size, n)) * np.sqrt(0.7)
        group = np.repeat(np.arange(size), 4)
        x = common[group] + rng.normal(size=(4 * size, n)) * np.sqrt(0.3)
        x += 1.7 * np.eye(n)[label[group]]
        parts.append((softmax(1.5 * 1.7 * x), label[group], group))
    (target, _, group), (validation, label, validation_group) = parts
    options = {"group": group, "validation_group": validation_group}
    return Predictions(target, validation, NAMES[label], truth, options)


WORLDS: tuple[World, ...] = (
    overconfident,
    rare_class,
    rare_sharp,
    absent_class,
    two_small,
    ten_classes,
    own_slopes,
    skewed_validation,
    subtypes,
    bursts,
)


def pool_of(rng: Rng, predictions: Predictions, n: int = 600) -> DataSet:
    """Two sources with other shares of the classes, and values that depend on the class."""
    truth, n_classes = predictions.truth, predictions.truth.size
    level = 2.0 * np.arange(n_classes)
    label = draw_labels(rng, n, np.full(n_classes, 1 / n_classes), 10)
    value = level[label] + rng.exponential(size=n)
    pool = make_pool(rng.integers(2, size=n), label=NAMES[label])
    return DataSet(pool, Strata("label"), predictions.target(), value, float(truth @ level) + 1.0)


def pooled(world: World) -> Callable[[Rng], DataSet]:
    """The recipe of a pool that is debiased to the shares estimated in ``world``."""
    return lambda rng: pool_of(rng, world(rng))


def blind(rng: Rng) -> Predictions:
    """Three classes, and scores that have nothing to do with them, 500 and 400 images."""
    label = draw_labels(rng, 400, np.full(3, 1 / 3))
    scores = [softmax(rng.normal(size=(n, 3))) for n in (500, 400)]
    return Predictions(*scores, NAMES[label], np.array([0.6, 0.3, 0.1]), {})


def blurred(rng: Rng) -> Predictions:
    """Not label shift: the target's images are harder to tell apart (1.2 instead of 1.8 sd)."""
    truth, shares = np.array([0.6, 0.3, 0.1]), np.full(3, 1 / 3)
    target, validation = draw_labels(rng, 800, truth), draw_labels(rng, 800, shares)
    x = [
        rng.normal(size=(label.size, 3)) + apart * np.eye(3)[label]
        for label, apart in ((target, 1.2), (validation, 1.8))
    ]
    return Predictions(softmax(2 * x[0]), softmax(2 * x[1]), NAMES[validation], truth, {})


def nearly_blind(rng: Rng) -> Predictions:
    """Three classes that it can hardly tell apart (0.35 sd), 500 and 400 images."""
    return gaussian(rng, np.array([0.6, 0.3, 0.1]), m=500, v=400, apart=0.35)


def rows(options: Namespace, seed: int = 2026) -> Iterator[str]:
    """The table of docs/honest-errors.md: means through `Strata`, the shares' own intervals, and
    how often the check objects or the estimate is refused.
    """
    yield "| world | data | sets | mean | shares | rarest | check < 5% | refused |"
    yield "|---|---|---|---|---|---|---|---|"
    for world in (*WORLDS, nearly_blind, blind, blurred):
        if not options.only or world.__name__ in options.only:
            yield _row(world, options.sets, seed)


def _row(world: World, n_sets: int, seed: int) -> str:
    hits, own, p_values = [], [], []
    for at in range(n_sets):
        rng = np.random.default_rng([seed, at])
        try:
            data = pool_of(rng, world(rng))
        except CoverageError:
            continue
        assert data.target is not None
        assert data.target.label_shift is not None
        low, high = mean_of(data).interval
        hits.append(low <= data.truth <= high)
        record, truth = data.target.label_shift, world(np.random.default_rng([seed, at])).truth
        low_c, high_c = np.transpose(record.interval)
        own.append((low_c <= truth) & (truth <= high_c))
        p_values.append(record.agreement_p)
    about = " ".join((world.__doc__ or "").split()).rstrip(".")
    refused = 1 - len(hits) / n_sets
    if not hits:
        return f"| `{world.__name__}` | {about} | {n_sets:,} | | | | | {refused:.0%} |"
    shares = [
        f"{share:.1%} ± {binomial_error(share, len(hits)):.1%}"
        for share in (
            float(np.mean(hits)),
            float(np.mean(own)),
            float(np.mean(own, axis=0)[truth.argmin()]),
        )
    ]
    objected = float(np.mean(np.array(p_values) < 0.05))
    return (
        f"| `{world.__name__}` | {about} | {n_sets:,} | {' | '.join(shares)} | {objected:.1%} | "
        f"{refused:.0%} |"
    )
