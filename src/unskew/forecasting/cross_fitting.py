"""Arms trained on all folds but one and tested on that one; what training on fewer images costs.

A model trained on the share f = (k−1)/k of the images is a little worse than one trained on all.
How much is read off models trained on half of those. Along a learning curve a − b f^{−γ}

    a(1) = a(f) + ρ (a(f) − a(f/2)),   ρ = (f^{−γ} − 1)/((f/2)^{−γ} − f^{−γ}),

linear in what happened to each image, so that it has the standard error of a mean over images. What
a model with a given number of parameters loses by estimating them is of the order of 1/n: γ = 1,
for which ρ = 1/k. On CIFAR-10 probes went along this curve (for k = 5 the measured ρ is in
docs/ways-performance.md). Where every doubling of the images adds as much as the last one, γ →
0 and ρ = log₂(k/(k−1)), which is larger: for k = 5, 0.32 instead of 0.20. Half that difference
counts as an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.errors import ConfigError
from unskew.forecasting.learners import Learner, TrainedProbe
from unskew.learn.dial import keep_class_shares
from unskew.learn.logit_calibration import choose_calibration, fit_logit_calibration
from unskew.learn.presets import Way
from unskew.learn.probe import Probe
from unskew.records import Floats, Ints
from unskew.splits.folds import deal_folds

# Rows compared at a time, so that memory does not grow with the pool.
_ROWS = 4096
# Weights that differ by no more than this, relative to their mean, give the same model.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class ProbeArm:
    """One way to learn from the pool.

    Attributes
    ----------
    name : of the arm.
    weight : (n,) of the images in training.
    logit_offset : (M,) subtracted from the logits when predicting; None: nothing.
    ridge : of a probe.
    way : how the debiasing weights are learned from; None for other arms.
    calibrate : (n,) weights of held-out images, on which a probe's temperature and class biases are
        fitted (`choose_calibration`); None: they are not.
    """

    name: str
    weight: Floats = field(repr=False)
    logit_offset: Floats | None = field(repr=False, default=None)
    ridge: float | None = None
    way: Way | None = None
    calibrate: Floats | None = field(repr=False, default=None)

    def merge(self, row_n: Ints) -> ProbeArm:
        """Add up the weights of the images that ``row_n`` (n,) makes one row."""
        weight_m, calibrate_m = (
            None if values is None else np.bincount(row_n, weights=values).astype(np.float64)
            for values in (self.weight, self.calibrate)
        )
        assert weight_m is not None
        return replace(self, weight=weight_m, calibrate=calibrate_m)


def arms_by_fit(arms: Sequence[ProbeArm]) -> list[list[ProbeArm]]:
    """Put arms together whose weights are proportional and ridges equal: their fits are the same.

    With sources that differ in their classes alone "logit" has the weights of naive.
    """
    groups: list[list[ProbeArm]] = []
    for arm in arms:
        share_n = arm.weight / arm.weight.mean()
        for group in groups:
            other_n = group[0].weight / group[0].weight.mean()
            if arm.ridge == group[0].ridge and np.abs(share_n - other_n).max() <= _SAME:
                group.append(arm)
                break
        else:
            groups.append([arm])
    return groups


@dataclass(frozen=True, eq=False)
class Hits:
    """Whether each image was classified rightly by a model that has not seen it.

    Attributes
    ----------
    full : (n,) 1 or 0, by the model trained on all other folds.
    half : (n,) 1, ½ or 0, the mean over two models, each trained on one half of those.
    split : (n,) 1, 0 or −1, the difference of these two: how much it matters on which images a
        model was trained.
    optimism : how much higher the weighted mean of ``full`` is expected to be because ridge or way
        were chosen on these images.
    labels : of images with any number of labels, the hits of each, whose mean these are.
    """

    full: Floats = field(repr=False)
    half: Floats = field(repr=False)
    split: Floats = field(repr=False)
    optimism: float = 0.0
    labels: tuple[Hits, ...] = field(repr=False, default=())

    def minus(self, other: Hits) -> Hits:
        """Subtract another arm, image by image, and label by label."""
        return Hits(
            self.full - other.full,
            self.half - other.half,
            self.split - other.split,
            self.optimism - other.optimism,
            tuple(own.minus(its) for own, its in zip(self.labels, other.labels, strict=True)),
        )

    def take(self, row_n: Ints) -> Hits:
        """Return those of these rows."""
        return Hits(self.full[row_n], self.half[row_n], self.split[row_n], self.optimism)


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
    own_n = number_units(unit_n[order_n])
    n_units = int(own_n.max()) + 1
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


def number_units(unit_n: Ints) -> Ints:
    """Give units new numbers, in the order of their first images."""
    _, first_u, code_n = np.unique(unit_n, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first_u))[code_n], dtype=np.int64)


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
    """Cross-fit every arm, and return its hits by name: 3 k fits for arms of the same weights.

    Where weights add up, copies of an image are one row with the sum of their weights.
    """
    row_n = np.arange(label_n.size)
    if learner.adds_weights:
        kept, row_n = merge_copies(X_nd, label_n, unit_n)
        if kept.size < label_n.size:
            X_nd, label_n, unit_n, deal = X_nd[kept], label_n[kept], unit_n[kept], deal.take(kept)
            arms = [arm.merge(row_n) for arm in arms]
    hits: dict[str, Hits] = {}
    for group in arms_by_fit(arms):
        hits |= _cross_fit(group, X_nd, label_n, unit_n, n_classes, deal, learner, advance)
    return {arm.name: hits[arm.name].take(row_n) for arm in arms}


def _cross_fit(
    arms: Sequence[ProbeArm],
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    unit_n: Ints,
    n_classes: int,
    deal: Deal,
    learner: Learner,
    advance: Callable[[int], None],
) -> dict[str, Hits]:
    """Train on all folds but one, predict that one, and so on, for arms that share their fits."""
    weight_n, ridge = arms[0].weight, arms[0].ridge
    hit_a3n = np.zeros((len(arms), 3, label_n.size))
    # No model begins where one that has seen the held-out images ended: what a solver leaves undone
    # would leak them.
    starts: dict[int, TrainedProbe] = {}
    biased: set[str] = set()
    for at, within in enumerate((None, 0, 1)):
        logits = {
            arm.name: np.full((label_n.size, n_classes), np.nan, dtype=np.float32)
            for arm in arms
            if arm.calibrate is not None
        }
        for fold in range(deal.n_folds):
            advance(len(arms))
            train, test = deal.training_rows(fold, within), np.flatnonzero(deal.fold == fold)
            train = train[weight_n[train] > 0]
            if not train.size:  # nothing to learn from is never right
                continue
            model = learner.train(
                X_nd[train],
                label_n[train],
                keep_class_shares(weight_n, label_n, train),
                n_classes,
                ridge,
                starts.get(fold),
            )
            starts.setdefault(fold, model)
            for arm, hit_3n in zip(arms, hit_a3n, strict=True):
                if arm.name in logits:
                    assert isinstance(model, Probe)
                    logits[arm.name][test] = model.logits(X_nd[test]) - (
                        0.0 if arm.logit_offset is None else arm.logit_offset
                    )
                else:
                    predicted_t = model.predict(X_nd[test], arm.logit_offset)
                    hit_3n[at, test] = predicted_t == label_n[test]
        for arm, hit_3n in zip(arms, hit_a3n, strict=True):
            if arm.name in logits:
                logit_nm = logits[arm.name]
                if within is None and _biases_help(arm, logit_nm, label_n, unit_n):
                    biased.add(arm.name)
                hit_3n[at] = (
                    calibrated_hits(arm, logit_nm, label_n, unit_n, deal, within)
                    if arm.name in biased
                    else ~np.isnan(logit_nm).any(axis=1) & (logit_nm.argmax(axis=1) == label_n)
                )
    return {
        arm.name: Hits(full_n, (one_n + other_n) / 2.0, one_n - other_n)
        for arm, (full_n, one_n, other_n) in zip(arms, hit_a3n, strict=True)
    }


def _biases_help(
    arm: ProbeArm, logit_nm: npt.NDArray[np.floating], label_n: Ints, unit_n: Ints
) -> bool:
    """Tell whether class biases help (`choose_calibration`); a temperature changes no hit."""
    assert arm.calibrate is not None
    rows = np.flatnonzero(~np.isnan(logit_nm).any(axis=1) & (arm.calibrate > 0))
    if np.unique(unit_n[rows]).size < 2:
        return False
    calibration, _ = choose_calibration(
        logit_nm[rows], label_n[rows], arm.calibrate[rows], unit_n[rows]
    )
    return bool(calibration.bias.any())


def calibrated_hits(
    arm: ProbeArm,
    logit_nm: npt.NDArray[np.floating],
    label_n: Ints,
    unit_n: Ints,
    deal: Deal,
    within: int | None,
) -> Floats:
    """Compute (n,) 1 or 0, the logits of each fold calibrated on those of the others.

    All logits are of models that have not seen the image; of a half (``within``) only its own
    images calibrate. Rows of NaN, which no model has predicted, are never right.
    """
    assert arm.calibrate is not None
    hit_n = np.zeros(label_n.size)
    for fold in range(deal.n_folds):
        test, rows = np.flatnonzero(deal.fold == fold), deal.training_rows(fold, within)
        calibration = fit_logit_calibration(
            logit_nm[rows], label_n[rows], arm.calibrate[rows], unit_n[rows], slope=True
        )
        hit_n[test] = calibration.apply(logit_nm[test]).argmax(axis=1) == label_n[test]
    return np.where(np.isnan(logit_nm).any(axis=1), 0.0, hit_n)


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
    """Count the models of ``n_arms`` arms, those that they share for each of them."""
    return n_arms * 3 * n_folds
