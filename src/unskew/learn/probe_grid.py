"""Probes on one grid: positions of the dial × ridges, cross-fitted, calibrated, chosen from.

Weights that are worth few images need a stronger penalty than equal ones, so that no single ridge
is fair to every way of learning: whatever is compared gets the same grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Count, Positive, Seed, Share, checked
from unskew.errors import ConfigError
from unskew.learn.dial import (
    Dialled,
    check_positive_weights,
    keep_class_shares,
    temper_within,
    turn_dial,
)
from unskew.learn.logit_calibration import (
    LogitCalibration,
    choose_calibration,
    fit_logit_calibration,
    held_out_losses,
)
from unskew.learn.presets import TAUS
from unskew.learn.probe import Probe, fit_probe
from unskew.learn.ways import LEAST_ESS, START, HeldOutHits, WayChoice, choose_way, paired_error
from unskew.records import Floats, Ints
from unskew.records.clustered_mean import effective_size
from unskew.splits.folds import deal_folds

RIDGES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
# Closer to the minimum hardly a held-out prediction changes.
_ROUGH = 3e-4
FOLDS = 5
# Powers of the weights within classes that are tried beside 1: they are worth more images, and are
# better where the model is nearly right and sees what decides about the weights (Shimodaira 2000).
WITHIN = {0.5: "the square roots of the weights", 0.0: "equal weights"}
# Of larger data so many images are enough to choose by.
MOST_IMAGES = 50_000


@dataclass(frozen=True, eq=False)
class TunedProbe:
    """A probe with the dial and the ridge that were chosen for it, calibrated on the target.

    ``probe`` holds all of the ``calibration`` that is linear; `logits` adds the last step.
    """

    probe: Probe
    choice: WayChoice
    calibration: LogitCalibration = field(repr=False)

    def logits(self, X_nd: npt.NDArray[Any]) -> Floats:
        """Compute the (n, M) calibrated logits."""
        last = self.calibration.of_spread()
        logit_nm = self.probe.logits(X_nd)
        return logit_nm if last is None else last.apply(logit_nm)


def dialled_probe(
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    dialled: Dialled,
    *,
    ridge: float,
    tol: float = 1e-5,
    start: Probe | None = None,
) -> Probe:
    """Fit a probe with dialled weights, its logits those of the target.

    Intercepts are not penalised, so that a shift of the logits in the loss moves the intercepts by
    as much, and nothing else: the fit needs no shift, only its result.
    """
    with np.errstate(invalid="ignore"):  # a class that is never predicted: −∞ + ∞
        begin = (
            None
            if start is None
            else replace(start, intercept=start.intercept + dialled.logit_shift)
        )
    probe = fit_probe(
        X_nd, label_n, dialled.weight, dialled.logit_shift.size, ridge=ridge, tol=tol, start=begin
    )
    return replace(probe, intercept=probe.intercept - dialled.logit_shift)


def cross_fit_logits(
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    dialled: Dialled,
    fold_n: Ints,
    ridges: Sequence[float],
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> npt.NDArray[np.float32]:
    """Return the (R, n, M) logits of every image by the probe of the other folds, for each ridge.

    Classes have the same shares in all of them (`keep_class_shares`). Strong penalties first: each
    fit starts where the last one of the same fold ended. A fold whose other images have no weight
    gets logits of 0.
    """
    logit_rnm = np.zeros((len(ridges), label_n.size, dialled.logit_shift.size), dtype=np.float32)
    falling = np.argsort(ridges)[::-1]
    for fold in range(int(fold_n.max()) + 1):
        train = np.flatnonzero((fold_n != fold) & (dialled.weight > 0))
        test = np.flatnonzero(fold_n == fold)
        part = replace(dialled, weight=keep_class_shares(dialled.weight, label_n, train))
        X_md, X_td, probe = X_nd[train], X_nd[test], None
        for at in falling if train.size else ():
            probe = dialled_probe(
                X_md, label_n[train], part, ridge=ridges[at], tol=_ROUGH, start=probe
            )
            logit_rnm[at, test] = probe.logits(X_td)
            advance(1)
    return logit_rnm


@checked
def tune_probe(
    X_nd: npt.NDArray[Any],
    label_n: Ints,
    weight_n: Floats,
    n_classes: Count,
    *,
    taus: Sequence[Share] = tuple(TAUS.values()),
    ridges: Sequence[Positive] = RIDGES,
    unit_n: Ints | None = None,
    stratum_n: Ints | None = None,
    judge_weight_n: Floats | None = None,
    logit_offset_m: Floats | None = None,
    calibrate: bool = True,
    seed: Seed = 0,
    tol: Positive = 1e-5,
    advance: Callable[[int], None] = lambda count: None,
) -> TunedProbe:
    """Choose dial and ridge on cross-fitted logits, fit the probe, and calibrate it.

    Every candidate is trained on four of five folds and judged on the fifth; `choose_way` chooses,
    and `choose_calibration` calibrates on the same held-out logits. The probe takes over what is
    linear of that; `TunedProbe.logits` are the calibrated ones.

    Parameters
    ----------
    X_nd, label_n, weight_n, n_classes : as for `fit_probe`.
    taus, ridges : the grid; with one of each nothing is chosen. With several τ the power to which
        weights are taken within classes is chosen, too (`choose_within`), before τ.
    unit_n : (n,) groups and copies of an image, on one side of every fold.
    stratum_n : (n,) of which every fold gets its share; default: the label.
    judge_weight_n : (n,) weights of the target, which judge and calibrate; default: ``weight_n``.
    logit_offset_m : (M,) subtracted from the logits of every candidate (logit adjustment).
    calibrate : False: the probe as it was fitted.
    """
    if not len(taus) or not len(ridges):
        raise ConfigError("taus and ridges have at least one entry each.", option="taus")
    unit_n = (
        np.arange(label_n.size) if unit_n is None else np.unique(unit_n, return_inverse=True)[1]
    )
    stratum_n = label_n if stratum_n is None else stratum_n
    judge_n = weight_n if judge_weight_n is None else judge_weight_n
    offset_m = np.zeros(n_classes) if logit_offset_m is None else logit_offset_m
    check_positive_weights(weight_n)
    check_positive_weights(judge_n)
    rows = some_rows(unit_n, np.maximum(weight_n, judge_n), seed)
    X_md, label_m, weight_m, judge_m = X_nd[rows], label_n[rows], weight_n[rows], judge_n[rows]
    unit_m = np.unique(unit_n[rows], return_inverse=True)[1]
    n_folds = min(FOLDS, int(unit_m.max()) + 1)
    fold_m = (
        deal_folds(unit_m, stratum_n[rows], n_folds, seed) if n_folds > 1 else np.zeros_like(unit_m)
    )
    is_free = len(taus) > 1
    is_same = is_free and not turn_dial(weight_m, label_m, n_classes, 1.0).shifts
    if is_same:
        taus = [tau for tau in taus if tau == START] or list(taus)[:1]

    def judge(tau: float, power: float) -> HeldOutHits:
        own_m = temper_within(weight_m, label_m, n_classes, power)
        dialled = _dialled(own_m, label_m, tau, offset_m)
        logit_rmm = cross_fit_logits(X_md, label_m, dialled, fold_m, ridges, advance=advance)
        return judge_ridges(logit_rmm, label_m, tau, ridges, judge_m, unit_m)

    power, start, words = 1.0, START if START in taus else taus[0], ""
    known = {(start, 1.0): judge(start, 1.0)}
    if is_free and varies_within(weight_m, label_m, n_classes):
        known |= {(start, tried): judge(start, tried) for tried in WITHIN}
        power, words = choose_within({tried: one for (_, tried), one in known.items()})
        weight_n, weight_m = (
            temper_within(weight, label, n_classes, power)
            for weight, label in ((weight_n, label_n), (weight_m, label_m))
        )
    judged = [known.get((tau, power)) or judge(tau, 1.0) for tau in taus]
    alone = "no other way was tried"
    if is_same:
        alone = "the weights do not depend on the class, so that all ways are the same"
    choice = choose_way(join_candidates(judged), seed=seed, alone=alone)
    choice = replace(choice, within=power, reason=choice.reason + words)
    ridge = float(ridges[0] if choice.ridge is None else choice.ridge)
    calibration = LogitCalibration(1.0, np.zeros(n_classes))
    if calibrate and n_folds > 1:
        dialled = _dialled(weight_m, label_m, choice.tau, offset_m)
        logit_mm = cross_fit_logits(X_md, label_m, dialled, fold_m, [ridge], advance=advance)[0]
        if effective_size(np.bincount(unit_m, weights=judge_m).astype(np.float64)) < LEAST_ESS:
            calibration = fit_logit_calibration(logit_mm, label_m, judge_m, unit_m, biases=False)
        else:
            calibration, _ = choose_calibration(logit_mm, label_m, judge_m, unit_m, seed=seed)
    dialled = _dialled(weight_n, label_n, choice.tau, offset_m)
    probe = dialled_probe(X_nd, label_n, dialled, ridge=ridge, tol=tol)
    return TunedProbe(calibrated(probe, calibration), choice, calibration)


def varies_within(weight_n: Floats, label_n: Ints, n_classes: int) -> bool:
    """Tell whether the weights differ within a class, beyond rounding."""
    equal_n = temper_within(weight_n, label_n, n_classes, 0.0)
    return bool(np.abs(weight_n - equal_n).max() > 1e-9 * weight_n.max())


def choose_within(judged: Mapping[float, HeldOutHits]) -> tuple[float, str]:
    """Choose the power to which weights are taken within classes: (power, words).

    It leaves 1 only for one whose log loss is lower by more than one standard error of the paired
    difference, clustered by unit, and whose accuracy is not lower; each at its best ridge. Fewer
    than `LEAST_ESS` effective units choose nothing.
    """
    sums = {power: one.by_unit() for power, one in judged.items()}
    best = {power: int(own.merit.sum(axis=1).argmax()) for power, own in sums.items()}
    weight_u, start_u = sums[1.0].weight, sums[1.0].merit[best[1.0]]
    right = {power: float(own.right[best[power]].sum()) for power, own in sums.items()}
    chosen, highest, words = 1.0, 0.0, ""
    for power, own in sums.items() if effective_size(weight_u) >= LEAST_ESS else ():
        gain_u = own.merit[best[power]] - start_u
        gain, stderr = float(gain_u.sum()), paired_error(gain_u, weight_u)
        if gain > max(stderr, highest) and right[power] >= right[1.0]:
            chosen, highest = power, gain
            words = (
                f" Within classes it learns from {WITHIN[power]}: log loss on held-out images "
                f"{-gain:+.4f} ± {stderr:.4f}, accuracy "
                f"{100 * (right[power] - right[1.0]):+.1f} points."
            )
    return chosen, words


def judge_ridges(
    logit_rnm: npt.NDArray[np.floating],
    label_n: Ints,
    tau: float,
    ridges: Sequence[float],
    weight_n: Floats,
    unit_n: Ints,
) -> HeldOutHits:
    """Judge the (R, n, M) held-out logits of one τ at every ridge."""
    return HeldOutHits(
        np.full(len(ridges), tau),
        np.array(ridges),
        logit_rnm.argmax(axis=2) == label_n,
        weight_n,
        unit_n,
        np.stack([held_out_losses(logit_nm, label_n, weight_n) for logit_nm in logit_rnm]),
    )


def join_candidates(judged: Sequence[HeldOutHits]) -> HeldOutHits:
    """Return the candidates of all, which the same images judged."""
    return replace(
        judged[0],
        tau=np.concatenate([one.tau for one in judged]),
        ridge=np.concatenate([one.ridge for one in judged]),
        hit=np.concatenate([one.hit for one in judged]),
        loss=np.concatenate([np.asarray(one.loss) for one in judged]),
    )


def _dialled(weight_n: Floats, label_n: Ints, tau: float, offset_m: Floats) -> Dialled:
    dialled = turn_dial(weight_n, label_n, offset_m.size, tau)
    return replace(dialled, logit_shift=dialled.logit_shift + offset_m)


def calibrated(probe: Probe, calibration: LogitCalibration) -> Probe:
    """Return the probe whose logits are the calibrated ones, but for their spread."""
    coefficient = probe.coefficient
    if calibration.factor is not None:
        seen = np.isfinite(probe.intercept)
        coefficient = coefficient - coefficient[:, seen].mean(axis=1, keepdims=True)
        coefficient = calibration.factor * coefficient
    return replace(
        probe,
        coefficient=calibration.scale * coefficient,
        intercept=replace(calibration, spread=None).apply(probe.intercept[None, :])[0],
    )


def some_rows(unit_n: Ints, weight_n: Floats, seed: int) -> Ints:
    """Return all rows with weight, or those of so many units that about `MOST_IMAGES` remain."""
    used = np.flatnonzero(weight_n > 0)
    if used.size <= MOST_IMAGES:
        return used
    rank_u = np.random.default_rng(seed).permutation(int(unit_n.max()) + 1)
    return used[rank_u[unit_n[used]] < MOST_IMAGES / used.size * rank_u.size]
