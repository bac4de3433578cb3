"""Arms trained on all folds but one and tested on that one; what training on fewer images costs.

A model trained on the share f = (k−1)/k of the images is a little worse than one trained on all.
How much is read off models trained on half of those. Along a learning curve a − b f^{−γ}

    a(1) = a(f) + ρ (a(f) − a(f/2)),   ρ = (f^{−γ} − 1)/((f/2)^{−γ} − f^{−γ}),

linear in what happened to each image, so that it has the standard error of a mean over images. What
a model with a given number of parameters loses by estimating them is of the order of 1/n: γ = 1,
for which ρ = 1/k. On CIFAR-10 probes went along this curve (for k = 5 the measured ρ is in
docs/learning-performance.md). Where every doubling of the images adds as much as the last one, γ →
0 and ρ = log₂(k/(k−1)), which is larger: for k = 5, 0.32 instead of 0.20. Half that difference
counts as an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError
from unskew.learn.probe import Probe, fit_probe
from unskew.learn.sklearn_fit import fit_positive_rows
from unskew.records import Floats, Ints
from unskew.splits.folds import deal_folds

# Rows compared at a time, so that memory does not grow with the pool.
_ROWS = 4096


class TrainedProbe(Protocol):
    """A model that predicts a class, as a code, for every image."""

    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        """Return the (n,) class of every image, after subtracting the offset from the logits."""
        ...


class Learner(Protocol):
    """What is trained: the probe, or any scikit-learn classifier.

    ``adds_weights``: whether an image twice is the same as once with the sum of the weights; then
    copies cost nothing.
    """

    adds_weights: ClassVar[bool]

    def train(
        self,
        X_nd: npt.NDArray[Any],
        label_n: Ints,
        weight_n: Floats,
        n_classes: int,
        start: Any = None,
    ) -> TrainedProbe:
        """Train on (n, d) features with weights; ``start`` is a model to start from."""
        ...


@dataclass(frozen=True)
class ProbeLearner:
    """The linear probe (`fit_probe`)."""

    ridge: float = 3e-3
    # Closer to the minimum hardly a prediction changes.
    tol: float = 1e-4
    adds_weights: ClassVar[bool] = True

    def train(
        self,
        X_nd: npt.NDArray[Any],
        label_n: Ints,
        weight_n: Floats,
        n_classes: int,
        start: Any = None,
    ) -> TrainedProbe:
        begin = start if isinstance(start, Probe) else None
        return fit_probe(
            X_nd, label_n, weight_n, n_classes, ridge=self.ridge, tol=self.tol, start=begin
        )


@dataclass(frozen=True)
class EstimatorLearner:
    """Clones of a scikit-learn classifier, fitted with weights."""

    estimator: Any
    # A tree that wants so many images in a leaf counts rows.
    adds_weights: ClassVar[bool] = False

    def train(
        self,
        X_nd: npt.NDArray[Any],
        label_n: Ints,
        weight_n: Floats,
        n_classes: int,
        start: Any = None,
    ) -> TrainedProbe:
        seen = np.unique(label_n[weight_n > 0])
        if seen.size == 1:
            return _Constant(int(seen[0]))
        return _TrainedEstimator(fit_positive_rows(self.estimator, X_nd, label_n, weight_n))


@dataclass(frozen=True)
class _Constant:
    """A model that learned from one class alone."""

    code: int

    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        return np.full(len(X_nd), self.code, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _TrainedEstimator:
    fitted: Any

    def predict(self, X_nd: npt.NDArray[Any], logit_offset: Floats | None = None) -> Ints:
        if logit_offset is None:
            return np.asarray(self.fitted.predict(X_nd), dtype=np.int64)
        if not hasattr(self.fitted, "predict_proba"):
            raise ConfigError(
                f"logit adjustment needs predict_proba, which {type(self.fitted).__name__} does "
                "not have.",
                option="learner",
                value=type(self.fitted).__name__,
            )
        class_m = np.asarray(self.fitted.classes_, dtype=np.int64)
        with np.errstate(divide="ignore"):
            logit_nm = np.log(self.fitted.predict_proba(X_nd)) - logit_offset[class_m]
        return np.asarray(class_m[logit_nm.argmax(axis=1)])


@dataclass(frozen=True, eq=False)
class ProbeArm:
    """One way to learn from the pool: image weights, and class offsets for logit adjustment."""

    name: str
    weight: Floats = field(repr=False)
    logit_offset: Floats | None = field(repr=False, default=None)


@dataclass(frozen=True, eq=False)
class Hits:
    """Whether each image was classified rightly by a model that has not seen it.

    Attributes
    ----------
    full : (n,) 1 or 0, by the model trained on all other folds.
    half : (n,) 1, ½ or 0, the mean over two models, each trained on one half of those.
    split : (n,) 1, 0 or −1, the difference of these two: how much it matters on which images a
        model was trained.
    """

    full: Floats = field(repr=False)
    half: Floats = field(repr=False)
    split: Floats = field(repr=False)

    def minus(self, other: Hits) -> Hits:
        """Subtract another arm, image by image."""
        return Hits(self.full - other.full, self.half - other.half, self.split - other.split)

    def take(self, row_n: Ints) -> Hits:
        """Return those of these rows."""
        return Hits(self.full[row_n], self.half[row_n], self.split[row_n])


@dataclass(frozen=True, eq=False)
class Deal:
    """The fold of every image, and which of its two halves.

    Which half of the others goes with which is drawn again for every fold: ``swap[f, g]`` is 1 if
    the halves of fold g are exchanged when fold f is left out.
    """

    fold: Ints = field(repr=False)
    half: Ints = field(repr=False)
    swap: Ints = field(repr=False)
    n_folds: int

    def training_rows(self, left_out: int, within: int | None = None) -> Ints:
        """Return the rows of all folds but ``left_out``; with ``within`` 0 or 1, half of them."""
        used_n = self.fold != left_out
        if within is not None:
            used_n &= (self.half ^ self.swap[left_out][self.fold]) == within
        return np.flatnonzero(used_n)

    def take(self, row_n: Ints) -> Deal:
        """Return that of these rows."""
        return Deal(self.fold[row_n], self.half[row_n], self.swap, self.n_folds)


def deal_halves(unit_n: Ints, stratum_n: Ints, n_folds: int, seed: int, order_n: Ints) -> Deal:
    """Distribute units (groups and copies) over ``n_folds`` folds of two halves each.

    Stratum after stratum, so that all folds are alike. ``order_n`` has the images in an order of
    their own (by id), so that the order of the rows does not matter.
    """
    _, unit_m = np.unique(unit_n[order_n], return_index=True)
    # Units are numbered by their first image in that order, whatever numbers they came with.
    rank_m = np.argsort(np.argsort(unit_m))
    own_n = rank_m[np.unique(unit_n[order_n], return_inverse=True)[1]]
    n_units = unit_m.size
    if n_folds < 2 or 2 * n_folds > n_units:
        raise ConfigError(
            "folds is the number of parts that are left out in turn, at least 2, each with two "
            f"images or more that may be separated from the rest; got {n_folds!r}, and the images "
            f"form {n_units} groups that belong together.",
            option="folds",
            value=n_folds,
            count=n_units,
        )
    part_n = np.empty(unit_n.size, dtype=np.int64)
    part_n[order_n] = deal_folds(own_n, stratum_n[order_n], 2 * n_folds, seed)
    # Neighbours in the deal go to different folds and different halves; for even k the second round
    # swaps the halves.
    swapped_n = part_n // n_folds if n_folds % 2 == 0 else np.zeros_like(part_n)
    swap_ff = np.random.default_rng(seed).integers(0, 2, (n_folds, n_folds))
    return Deal(part_n % n_folds, (part_n + swapped_n) % 2, swap_ff, n_folds)


def merge_copies(X_nd: npt.NDArray[Any], label_n: Ints, unit_n: Ints) -> tuple[Ints, Ints]:
    """Return (m,) rows of which no two are copies, and (n,) which of these each row is.

    Rows of one unit are copies if they have the features and the label of its first row.
    """
    _, first_u, unit_n = np.unique(unit_n, return_index=True, return_inverse=True)
    original_n = np.arange(label_n.size)
    later = np.flatnonzero(first_u[unit_n] != original_n)
    for start in range(0, later.size, _ROWS):
        rows = later[start : start + _ROWS]
        first = first_u[unit_n[rows]]
        same = (label_n[rows] == label_n[first]) & (X_nd[rows] == X_nd[first]).all(axis=1)
        original_n[rows[same]] = first[same]
    kept, row_n = np.unique(original_n, return_inverse=True)
    return kept, row_n.astype(np.int64)


def cross_fit_arms(
    arms: Sequence[ProbeArm],
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    unit_n: Ints,
    n_classes: int,
    deal: Deal,
    learner: Learner,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, Hits]:
    """Cross-fit every arm by `cross_fit_arm`, and return its hits by name.

    Where weights add up, copies of an image are one row with the sum of their weights.
    """
    kept, row_n = (
        merge_copies(X_nd, label_n, unit_n)
        if learner.adds_weights
        else (np.arange(label_n.size), np.arange(label_n.size))
    )
    if kept.size == label_n.size:
        return {
            arm.name: cross_fit_arm(arm, X_nd, label_n, n_classes, deal, learner, advance)
            for arm in arms
        }
    X_md, label_m, deal_m = X_nd[kept], label_n[kept], deal.take(kept)
    merged = [
        ProbeArm(
            arm.name, np.bincount(row_n, weights=arm.weight).astype(np.float64), arm.logit_offset
        )
        for arm in arms
    ]
    return {
        arm.name: cross_fit_arm(arm, X_md, label_m, n_classes, deal_m, learner, advance).take(row_n)
        for arm in merged
    }


def cross_fit_arm(
    arm: ProbeArm,
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    n_classes: int,
    deal: Deal,
    learner: Learner,
    advance: Callable[[int], None] = lambda count: None,
) -> Hits:
    """Train on all folds but one, predict that one, and so on: 3 k fits."""
    hit_3n = np.zeros((3, label_n.size))
    for fold in range(deal.n_folds):
        test = np.flatnonzero(deal.fold == fold)
        X_td, label_t = X_nd[test], label_n[test]
        # No model begins where one that has seen the held-out images ended: what a solver leaves
        # undone would leak them.
        begin: TrainedProbe | None = None
        for at, within in enumerate((None, 0, 1)):
            train = deal.training_rows(fold, within)
            train = train[arm.weight[train] > 0]
            # Nothing to learn from is never right.
            if train.size:
                model = learner.train(
                    X_nd[train], label_n[train], arm.weight[train], n_classes, begin
                )
                hit_3n[at, test] = model.predict(X_td, arm.logit_offset) == label_t
                begin = begin or model
            advance(1)
    return Hits(hit_3n[0], (hit_3n[1] + hit_3n[2]) / 2.0, hit_3n[1] - hit_3n[2])


def curve_factor(n_folds: int) -> float:
    """Return ρ = 1/k, which extrapolates from k−1 of k folds to all along a curve a − b/f."""
    return 1.0 / n_folds


def curve_factor_error(n_folds: int) -> float:
    """Return half the difference between ρ and that of the slowest curve, log₂(k/(k−1)).

    Along that curve every doubling of the images adds the same.
    """
    return (math.log2(n_folds / (n_folds - 1)) - curve_factor(n_folds)) / 2.0


def extrapolate(hits: Hits, n_folds: int) -> Floats:
    """Compute (n,) v_i = h_i + ρ (h_i − g_i), whose mean is the accuracy with all images.

    h and g are the hits of the full and the half models.
    """
    return np.asarray(hits.full + curve_factor(n_folds) * (hits.full - hits.half))


def training_variance(hits: Hits, weight_n: Floats, deal: Deal) -> float:
    """Estimate the variance of the accuracy over the training images; rather too large.

    In fold f two models trained on different halves differ by D_f in accuracy (weighted by
    ``weight_n``), E D_f² = 2 σ² + v_f with v_f the variance from the images of the fold that judge
    them. v_f is not deducted: what is left of a few folds would be 0 half of the time where σ² is
    small, and intervals too short. The variance of a model trained on all images is taken for half
    that of one trained on half as many, σ²/2: the mean of D_f²/4 over folds.
    """
    squares = []
    for fold in range(deal.n_folds):
        rows = np.flatnonzero((deal.fold == fold) & (weight_n > 0))
        if rows.size:
            squares.append(float(weight_n[rows] @ hits.split[rows] / weight_n[rows].sum()) ** 2)
    return sum(squares) / len(squares) / 4.0 if squares else 0.0


def count_fits(n_arms: int, n_folds: int) -> int:
    """Count the models that ``n_arms`` calls of `cross_fit_arm` train."""
    return n_arms * 3 * n_folds
