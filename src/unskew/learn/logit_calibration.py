"""Logits made to hold on the target: one temperature, and a bias for every class.

A model that fits its training images too well is too sure of itself, and predicts classes of few
images too rarely; one with a strong penalty is not sure enough. Held-out images, weighted to the
target, show how much (Guo et al. 2017; Alexandari, Kundaje & Shrikumar 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
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
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class LogitCalibration:
    """Calibrated logits: scale · z_m + bias_m.

    Attributes
    ----------
    scale : the inverse temperature; above 1 the model was not sure enough.
    bias : (M,) sums to 0.
    """

    scale: float
    bias: Floats

    def apply(self, logit_nm: npt.NDArray[np.floating]) -> Floats:
        """Return the (n, M) calibrated logits."""
        return np.asarray(self.scale * logit_nm + self.bias, dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return {"scale": self.scale, "bias": self.bias.tolist()}


def fit_logit_calibration(
    logit_nm: npt.NDArray[np.floating],
    label_n: Ints,
    weight_n: Floats,
    unit_n: Ints | None = None,
    *,
    biases: bool = True,
) -> LogitCalibration:
    """Minimise Σ_i p_i (log Σ_m e^{s z_im + c_m} − s z_{i,y_i} − c_{y_i}) + Σ_m c_m²/(2 σ² n*).

    p_i = w_i/Σ_j w_j, n* the effective number of units, σ = ½: without images of a class its bias
    is 0. The logits must be those of models that have not seen the image. Without ``biases`` c = 0.

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
    code_n = (
        np.arange(used.size) if unit_n is None else np.unique(unit_n[used], return_inverse=True)[1]
    )
    share_u = np.bincount(code_n, weights=share_n).astype(np.float64)
    penalty = 1.0 / (_PRIOR**2 * effective_size(share_u))
    own = np.arange(used.size), label_m

    def value_and_gradient(point: Floats) -> tuple[float, Floats]:
        scale, bias_m = float(np.exp(point[0])), point[1:]
        moved_nm = scale * z_nm + bias_m
        moved_nm -= moved_nm.max(axis=1, keepdims=True)
        own_n = moved_nm[own]
        np.exp(moved_nm, out=moved_nm)
        total_n = moved_nm.sum(axis=1)
        value = float(share_n @ (np.log(total_n) - own_n)) + 0.5 * penalty * float(bias_m @ bias_m)
        moved_nm *= (share_n / total_n)[:, None]
        moved_nm[own] -= share_n
        slope = scale * float(np.einsum("nm,nm->", moved_nm, z_nm))
        return value, np.r_[slope, moved_nm.sum(axis=0) + penalty * bias_m]

    bound = float(np.log(_MOST))
    optimum = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(1 + kept.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-bound, bound), *[(None, None) if biases else (0.0, 0.0)] * kept.size],
    )
    bias_m = np.zeros(n_classes)
    bias_m[kept] = optimum.x[1:] - optimum.x[1:].mean()
    return LogitCalibration(float(np.exp(optimum.x[0])), bias_m)


def held_out_losses(logit_nm: npt.NDArray[np.floating], label_n: Ints, weight_n: Floats) -> Floats:
    """Compute the (n,) log losses, after the one temperature that suits the images best.

    So that a penalty is judged by what it makes of the images, not by how sure the model is. The
    loss of a class that is never predicted is bounded.
    """
    scale = fit_logit_calibration(logit_nm, label_n, weight_n, biases=False).scale
    moved_nm = scale * logit_nm
    own_n = moved_nm[np.arange(label_n.size), label_n]
    loss_n = np.logaddexp.reduce(moved_nm, axis=1) - own_n
    return np.asarray(np.minimum(loss_n, _MOST_LOSS), dtype=np.float64)


def choose_calibration(
    logit_nm: npt.NDArray[np.floating],
    label_n: Ints,
    weight_n: Floats,
    unit_n: Ints | None = None,
    *,
    seed: int = 0,
) -> tuple[LogitCalibration, Estimate]:
    """Fit a temperature, with class biases if they help; return also what biases gain.

    They help if the weighted accuracy on images of other folds than those they were fitted on is
    higher by more than one standard error of the paired difference, clustered by unit. A
    temperature alone changes no prediction.
    """
    unit_n = (
        np.arange(label_n.size) if unit_n is None else np.unique(unit_n, return_inverse=True)[1]
    )
    fold_n = deal_folds(unit_n, label_n, min(_FOLDS, int(unit_n.max()) + 1), seed)
    moved_nm = np.empty(logit_nm.shape)
    for fold in range(int(fold_n.max()) + 1):
        rest, part = np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)
        fitted = fit_logit_calibration(logit_nm[rest], label_n[rest], weight_n[rest], unit_n[rest])
        moved_nm[part] = fitted.apply(logit_nm[part])
    hits = [(z_nm.argmax(axis=1) == label_n).astype(np.float64) for z_nm in (moved_nm, logit_nm)]
    gain = plain_mean(weight_n / weight_n.sum(), hits[0] - hits[1], unit_n)
    biases = gain.value > gain.stderr
    return fit_logit_calibration(logit_nm, label_n, weight_n, unit_n, biases=biases), gain
