"""Logits made to hold on the target: a temperature, biases and a slope of classes, and a spread.

A model that fits its training images too well is too sure of itself, and predicts classes of few
images too rarely; one with a strong penalty is not sure enough. Held-out images, weighted to the
target, show how much (Guo et al. 2017; Alexandari, Kundaje & Shrikumar 2020). A penalty holds down
the coefficients of a class of few images more than those of others, so that predictions of frequent
classes are too sure and those of rare ones not sure enough: the slope turns that back, as
normalised classifiers do (Kang et al. 2020).

The temperature with the lowest log loss may still leave the class that comes first too sure where
it is sure and not sure enough where it is not, because the loss also counts how little the others
get. The last step makes the temperature depend on how far the logits of an image are spread, fitted
to how often the first class is right; it changes no prediction.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from unskew.records import Floats, Ints
from unskew.records.clustered_mean import effective_size, plain_mean
from unskew.records.weights import Estimate
from unskew.splits.folds import deal_folds

# Standard deviation of the class biases that are expected: few images of a class move it little.
_PRIOR = 0.5
# No held-out image makes a model more than so many times surer, or less sure.
_MOST = 20.0
# Of one image: a probability of e^−30.
_MOST_LOSS = 30.0
# Exponent of the spread.
_STEEPEST = 0.9
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class LogitCalibration:
    """Calibrated logits: k r^γ z′_m, with z′_m = scale · factor_m · (z_m − their mean) + bias_m.

    r = log Σ_m e^{z′_m} − their mean, at least log M, is how far the logits of an image are spread.

    Attributes
    ----------
    scale : the inverse temperature; above 1 the model was not sure enough. Of several labels (M,).
    bias : (M,) sums to 0, but of several labels.
    factor : (M,) of the classes, above 1 where the model was less sure of a class than of others;
        None: all 1, and the mean stays.
    spread : (k, γ); γ < 0: the model was too sure where it was sure. None: k = 1, γ = 0, and the
        mean stays.
    """

    scale: float | Floats
    bias: Floats
    factor: Floats | None = None
    spread: tuple[float, float] | None = None

    def apply(self, logit_nm: npt.NDArray[np.floating]) -> Floats:
        """Return the (n, M) calibrated logits."""
        factor_m: float | Floats = 1.0
        if self.factor is not None:
            logit_nm, factor_m = _centred(logit_nm), self.factor
        moved_nm = np.asarray(self.scale * factor_m * logit_nm + self.bias, dtype=np.float64)
        if self.spread is None:
            return moved_nm
        moved_nm, (k, gamma) = _centred(moved_nm), self.spread
        return np.asarray(k * _spread_of(moved_nm)[:, None] ** gamma * moved_nm)

    def of_spread(self) -> LogitCalibration | None:
        """Return the last step alone, which no linear layer can take over; None: there is none."""
        if self.spread is None:
            return None
        return LogitCalibration(1.0, np.zeros_like(self.bias), spread=self.spread)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        factor = None if self.factor is None else self.factor.tolist()
        scale = np.asarray(self.scale).tolist()
        spread = None if self.spread is None else list(self.spread)
        return {"scale": scale, "bias": self.bias.tolist(), "factor": factor, "spread": spread}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LogitCalibration:
        """Read what `to_dict` returned."""
        factor, spread = values.get("factor"), values.get("spread")
        return cls(
            np.array(values["scale"]),
            np.array(values["bias"]),
            None if factor is None else np.array(factor),
            None if spread is None else (float(spread[0]), float(spread[1])),
        )

    @classmethod
    def of_labels(cls, each: Sequence[LogitCalibration]) -> LogitCalibration:
        """Join those of two classes, absent and present, of each label.

        Between these two the logit z becomes scale · (factor₀ + factor₁)/2 · z + bias₁ − bias₀.
        """
        scale_m = [one.scale * (1.0 if one.factor is None else one.factor.mean()) for one in each]
        bias_m = np.array([one.bias[1] - one.bias[0] for one in each])
        return cls(np.array(scale_m, dtype=np.float64), bias_m)


def fit_logit_calibration(
    logit_nm: npt.NDArray[np.floating],
    label_n: Ints,
    weight_n: Floats,
    unit_n: Ints | None = None,
    *,
    biases: bool = True,
    slope: bool = False,
) -> LogitCalibration:
    """Minimise the log loss of s e^{−κ t_m} z_im + c_m, plus (κ² + Σ_m c_m²)/(2 σ² n*).

    Images count by p_i = w_i/Σ_j w_j; n* is the effective number of units, σ = ½: without images of
    a class its bias is 0. z are the logits less their mean, t_m the log of the number of images of
    class m, less its mean. The logits must be those of models that have not seen the image. Without
    ``biases`` c = 0, without ``slope`` κ = 0.

    Facts: logits + constant change nothing; weights that are all multiplied by one number change
    nothing; a class whose logit is −∞ keeps it.
    """
    n, n_classes = logit_nm.shape
    used = np.flatnonzero((weight_n > 0) & np.isfinite(logit_nm[np.arange(n), label_n]))
    neutral = LogitCalibration(1.0, np.zeros(n_classes))
    if used.size < 2:
        return neutral
    z_nm = np.asarray(logit_nm[used], dtype=np.float64)
    kept = np.flatnonzero(np.isfinite(z_nm).all(axis=0))
    label_m = np.searchsorted(kept, label_n[used])
    if kept.size < 2 or (kept[np.minimum(label_m, kept.size - 1)] != label_n[used]).any():
        return neutral
    z_nm = z_nm[:, kept] - z_nm[:, kept].mean(axis=1, keepdims=True)
    share_n = weight_n[used] / weight_n[used].sum()
    penalty = _penalty(share_n, None if unit_n is None else unit_n[used])
    own = np.arange(used.size), label_m

    count_k = np.bincount(label_m, minlength=kept.size)
    log_count_k = np.log(np.maximum(count_k, 1))
    log_count_k -= log_count_k.mean()

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        scale_k, bias_k = np.exp(point[0] - point[1] * log_count_k), point[2:]
        moved_nk = scale_k * z_nm + bias_k
        moved_nk -= moved_nk.max(axis=1, keepdims=True)
        own_n = moved_nk[own]
        np.exp(moved_nk, out=moved_nk)
        total_n = moved_nk.sum(axis=1)
        value = float(share_n @ (np.log(total_n) - own_n))
        value += 0.5 * penalty * float(point[1:] @ point[1:])
        moved_nk *= (share_n / total_n)[:, None]
        moved_nk[own] -= share_n
        slope_k = scale_k * np.einsum("nm,nm->m", moved_nk, z_nm)
        of_slope = -float(slope_k @ log_count_k) + penalty * point[1]
        return value, np.r_[slope_k.sum(), of_slope, moved_nk.sum(axis=0) + penalty * bias_k]

    bound = float(np.log(_MOST))
    free, fixed = (None, None), (0.0, 0.0)
    optimum = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(2 + kept.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-bound, bound), (-1.0, 1.0) if slope else fixed]
        + [free if biases else fixed] * kept.size,
    )
    bias_m, factor_m = np.zeros(n_classes), np.ones(n_classes)
    bias_m[kept] = optimum.x[2:] - optimum.x[2:].mean()
    factor_m[kept] = np.exp(-optimum.x[1] * log_count_k)
    return LogitCalibration(float(np.exp(optimum.x[0])), bias_m, factor_m if slope else None)


def fit_spread(
    logit_nm: Floats, label_n: Ints, weight_n: Floats, unit_n: Ints | None = None
) -> tuple[float, float]:
    """Return (k, γ) of k r^γ z that minimise the log loss of whether the first class is right.

    The loss is −Σ_i p_i (h_i log c_i + (1 − h_i) log(1 − c_i)) + (a² + γ²)/(2 σ² n*): c is the
    largest probability, h whether its class is the label, a = log(k r̄^γ) at the mean spread r̄,
    p, n* and σ as in `fit_logit_calibration`. |γ| < 1, so that wider logits stay wider.

    Facts: no prediction changes; with two classes of equal logits both keep ½; without images it
    is (1, 0).
    """
    used = np.flatnonzero((weight_n > 0) & np.isfinite(logit_nm).any(axis=1))
    if used.size < 2:
        return 1.0, 0.0
    z_nm = _centred(logit_nm[used])
    spread_n = _spread_of(z_nm)
    share_n = weight_n[used] / weight_n[used].sum()
    middle = float(share_n @ spread_n)
    log_spread_n = np.log(spread_n / middle)
    penalty = _penalty(share_n, None if unit_n is None else unit_n[used])
    top_n = z_nm.argmax(axis=1)
    hit_n, own_n = top_n == label_n[used], z_nm[np.arange(used.size), top_n]
    below_nm = np.where(np.isfinite(z_nm), z_nm, 0.0) - own_n[:, None]
    is_other_nm = np.isfinite(z_nm)
    is_other_nm[np.arange(used.size), top_n] = False

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        scale_n = np.exp(point[0] + point[1] * log_spread_n)
        other_nm = np.exp(scale_n[:, None] * below_nm) * is_other_nm
        odds_n = np.maximum(other_nm.sum(axis=1), np.exp(-_MOST_LOSS))  # (1 − c)/c
        loss_n = np.log1p(odds_n) - np.where(hit_n, 0.0, np.log(odds_n))
        slope_n = np.einsum("nm,nm->n", other_nm, below_nm) * scale_n
        pull_n = share_n * slope_n * (1.0 / (1.0 + odds_n) - np.where(hit_n, 0.0, 1.0 / odds_n))
        value = float(share_n @ loss_n) + 0.5 * penalty * float(point @ point)
        return value, np.array([pull_n.sum(), pull_n @ log_spread_n]) + penalty * point

    bound = float(np.log(_MOST))
    optimum = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(2),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-bound, bound), (-_STEEPEST, _STEEPEST)],
    )
    scale, gamma = (float(value) for value in optimum.x)
    return float(np.exp(scale)) * middle**-gamma, gamma


def _centred(logit_nm: npt.NDArray[np.floating]) -> Floats:
    """Return logits less the mean of the finite ones of their row."""
    finite_nm = np.where(np.isneginf(logit_nm), np.nan, logit_nm)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without any logit
        return np.asarray(logit_nm - np.nanmean(finite_nm, axis=1, keepdims=True), dtype=np.float64)


def _spread_of(centred_nm: Floats) -> Floats:
    """Return (n,) log Σ_m e^{z_m} of centred logits; 1 for a row that has one finite at most."""
    spread_n = np.logaddexp.reduce(centred_nm, axis=1)
    return np.where(spread_n > 0, spread_n, 1.0)


def _penalty(share_n: Floats, unit_n: Ints | None) -> float:
    """Return 1/(σ² n*), n* the effective number of units."""
    code_n = (
        np.arange(share_n.size) if unit_n is None else np.unique(unit_n, return_inverse=True)[1]
    )
    share_u = np.bincount(code_n, weights=share_n).astype(np.float64)
    return 1.0 / (_PRIOR**2 * effective_size(share_u))


def two_logits(logit_n: npt.NDArray[np.floating]) -> Floats:
    """Return the (n, 2) logits of absent and present of a label whose own logit is ``logit_n``."""
    return np.column_stack([np.zeros(logit_n.size), logit_n])


def held_out_losses(logit_nm: npt.NDArray[np.floating], label_n: Ints, weight_n: Floats) -> Floats:
    """Compute the (n,) log losses, after the one temperature that suits the images best.

    So that a penalty is judged by what it makes of the images, not by how sure the model is. The
    loss of a class that is never predicted is bounded.
    """
    scale = fit_logit_calibration(logit_nm, label_n, weight_n, biases=False).scale
    return _losses(scale * logit_nm, label_n)


def _losses(logit_nm: npt.NDArray[np.floating], label_n: Ints) -> Floats:
    """Compute the (n,) log losses, bounded."""
    loss_n = np.logaddexp.reduce(logit_nm, axis=1) - logit_nm[np.arange(label_n.size), label_n]
    return np.asarray(np.minimum(loss_n, _MOST_LOSS), dtype=np.float64)


def choose_calibration(
    logit_nm: npt.NDArray[np.floating],
    label_n: Ints,
    weight_n: Floats,
    unit_n: Ints | None = None,
    *,
    seed: int = 0,
) -> tuple[LogitCalibration, Estimate]:
    """Fit a temperature, with class biases and a slope if they help; return also their gain.

    They help if, on images of other folds than those they were fitted on, the weighted accuracy is
    higher by more than one standard error of the paired difference, clustered by unit; or if it is
    higher at all, and the log loss lower by more than two: that sees more, because every image of a
    rare class moves it. A temperature alone changes no prediction, nor does the spread
    (`fit_spread`), which three classes or more get last.
    """
    unit_n = (
        np.arange(label_n.size) if unit_n is None else np.unique(unit_n, return_inverse=True)[1]
    )
    fold_n = deal_folds(unit_n, label_n, min(_FOLDS, int(unit_n.max()) + 1), seed)
    moved_nm, plain_nm = np.empty(logit_nm.shape), np.empty(logit_nm.shape)
    for fold in range(int(fold_n.max()) + 1):
        rest, part = np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)
        images = logit_nm[rest], label_n[rest], weight_n[rest], unit_n[rest]
        moved_nm[part] = fit_logit_calibration(*images, slope=True).apply(logit_nm[part])
        plain_nm[part] = fit_logit_calibration(*images, biases=False).apply(logit_nm[part])
    share_n = weight_n / weight_n.sum()
    hit_n, plain_n = ((z_nm.argmax(axis=1) == label_n) * 1.0 for z_nm in (moved_nm, plain_nm))
    gain = plain_mean(share_n, hit_n - plain_n, unit_n)
    less = plain_mean(share_n, _losses(plain_nm, label_n) - _losses(moved_nm, label_n), unit_n)
    helps = gain.value > gain.stderr or (gain.value > 0 and less.value > 2 * less.stderr)
    fitted = fit_logit_calibration(logit_nm, label_n, weight_n, unit_n, biases=helps, slope=helps)
    if logit_nm.shape[1] > 2:
        held_nm = moved_nm if helps else fitted.apply(logit_nm)
        fitted = replace(fitted, spread=fit_spread(held_nm, label_n, weight_n, unit_n))
    return fitted, gain
