"""Scores of a classifier made honest on labelled images: temperature, slopes and intercepts.

The calibrated log-odds are affine in the logarithms of the scores s:

    η_c(s) = Σ_d A_cd log s_d + b_c,   p(c | s) = exp η_c / Σ_d exp η_d,

A = a I (bias-corrected temperature scaling), A diagonal (vector scaling; Alexandari, Kundaje &
Shrikumar 2020), or any matrix (Dirichlet calibration; Kull et al. 2019). They maximise the
weighted likelihood of the labels. Because the intercepts are free, the mean of p(c | s) over the
validation images is the share π_c of class c, so that p(c | s)/π_c is proportional to the density
of s within class c.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from unskew.errors import ConvergenceError
from unskew.records import Floats, Ints
from unskew.target.calibration_design import Design, make_design, number_of_parameters

# Keeps the slope finite where the classes are separable: then η differs by about log(1/_RIDGE).
# On the mean likelihood; elsewhere it moves the slope by a millionth of its size.
_RIDGE = 1e-8
_MAX_STEPS = 200
# A larger family is taken where the likelihood speaks for it beyond the 1% point, and there are
# so many images for each of its parameters.
_CHOICE_LEVEL = 0.01
_IMAGES_PER_PARAMETER = 20


@dataclass(frozen=True, eq=False)
class ScoreCalibration:
    """A fitted calibration.

    family : "temperature" (one slope), "vector" (one for each class) or "matrix" (C − 1 for each).
    centre : (C,) and ``scale``: x = (log s − centre)/scale.
    theta : (P,) the parameters of ``design``.
    prior : (C,) π, the shares of the classes among the labelled images.
    log_likelihood : Σ_j w_j log p(y_j | s_j).
    influence : (G, P) what each unit (image or group) adds to the error of θ, labels given.
    """

    family: str
    centre: Floats
    scale: float
    theta: Floats
    prior: Floats
    log_likelihood: float
    design: Design = field(repr=False)
    influence: Floats = field(repr=False)

    def standardized(self, log_score_nc: Floats) -> Floats:
        """(n, C) x, the logarithms that the design reads."""
        return np.asarray((log_score_nc - self.centre) / self.scale)

    def log_ratio(self, log_score_nc: Floats) -> Floats:
        """(n, C) log of p(s | c) = p(c | s)/π_c, up to a constant of each image."""
        logit_nc = self.design.logits(self.theta, self.standardized(log_score_nc))
        return np.asarray(logit_nc - np.log(self.prior))


def fit_calibration(
    log_score_vc: Floats, label_v: Ints, weight_v: Floats, unit_v: Ints, family: str
) -> ScoreCalibration:
    """Fit a family of calibrations to labelled images; "auto": the smallest that fits.

    ``weight_v`` sums to the number of images within each class; ``unit_v`` is the code of each
    image's group. Errors are those of drawing the images (or groups) of each class again.
    """
    if family != "auto":
        return _fit(log_score_vc, label_v, weight_v, unit_v, family)
    # A likelihood of weighted or grouped images counts for as many as are independent.
    n_units = np.unique(unit_v).size
    independent = min(np.square(weight_v.sum()) / np.square(weight_v).sum(), n_units)
    best = _fit(log_score_vc, label_v, weight_v, unit_v, "temperature")
    for name in ("vector", "matrix"):
        surplus = number_of_parameters(log_score_vc.shape[1], name) - best.theta.size
        if surplus < 1 or _IMAGES_PER_PARAMETER * (best.theta.size + surplus) > independent:
            continue
        larger = _fit(log_score_vc, label_v, weight_v, unit_v, name)
        gain = 2 * (larger.log_likelihood - best.log_likelihood) * independent / label_v.size
        if scipy.special.chdtrc(surplus, max(gain, 0.0)) < _CHOICE_LEVEL:
            best = larger
    return best


def _fit(
    log_score_vc: Floats, label_v: Ints, weight_v: Floats, unit_v: Ints, family: str
) -> ScoreCalibration:
    """Maximise Σ_j w_j log p(y_j | s_j)/Σ w − ridge |a|²/2 by Newton's method."""
    n, n_classes = log_score_vc.shape
    share_v = weight_v / weight_v.sum()
    centre_c = share_v @ log_score_vc
    centred_vc = log_score_vc - centre_c
    scale = float(np.sqrt(share_v @ np.square(centred_vc).sum(axis=1))) or 1.0
    x_vc = centred_vc / scale
    design = make_design(n_classes, family)
    is_label_vc = np.zeros((n, n_classes))
    is_label_vc[np.arange(n), label_v] = 1.0
    ridge_p = _RIDGE * design.is_slope
    theta_p = np.zeros(ridge_p.size)

    def objective(theta_p: Floats) -> tuple[float, Floats]:
        logit_vc = design.logits(theta_p, x_vc)
        log_p_vc = logit_vc - scipy.special.logsumexp(logit_vc, axis=1, keepdims=True)
        fit = float(share_v @ log_p_vc[np.arange(n), label_v])
        return 0.5 * float(ridge_p @ theta_p**2) - fit, np.exp(log_p_vc)

    value, p_vc = objective(theta_p)
    for _ in range(_MAX_STEPS):
        residual_vc = share_v[:, None] * (is_label_vc - p_vc)
        score_p = design.pull(residual_vc, x_vc).sum(axis=0) - ridge_p * theta_p
        curvature_pp = design.curvature(share_v, p_vc, x_vc) + np.diag(ridge_p)
        step_p = np.linalg.lstsq(curvature_pp, score_p, rcond=1e-14)[0]
        decrement = float(step_p @ score_p)
        if decrement <= 1e-20:
            break
        size = 1.0
        while size > 1e-8:
            trial, trial_vc = objective(theta_p + size * step_p)
            if trial <= value - 1e-4 * size * decrement or decrement < 1e-14:
                break
            size /= 2
        theta_p, value, p_vc = theta_p + size * step_p, trial, trial_vc
    else:
        raise ConvergenceError("the calibration of the scores did not converge.", value=decrement)
    score_vp = design.pull(is_label_vc - p_vc, x_vc)
    prior_c = np.asarray(share_v @ is_label_vc)
    return ScoreCalibration(
        family,
        centre_c,
        scale,
        theta_p,
        prior_c,
        float(weight_v @ np.log(np.maximum(p_vc[np.arange(n), label_v], 1e-300))),
        design,
        _influence(curvature_pp, score_vp, label_v, weight_v, unit_v),
    )


def _influence(
    curvature_pp: Floats, score_vp: Floats, label_v: Ints, weight_v: Floats, unit_v: Ints
) -> Floats:
    """(G, P) I⁻¹ Σ_{j in g} w_j (score_j − mean of its class) √(n_c/(n_c − 1))/Σ w."""
    pull_vp = within_classes(score_vp, label_v, weight_v) / weight_v.sum()
    total_gp = sum_by_unit(pull_vp, unit_v)
    return np.asarray(np.linalg.lstsq(curvature_pp, total_gp.T, rcond=1e-14)[0].T)


def within_classes(value_vp: Floats, label_v: Ints, weight_v: Floats) -> Floats:
    """(v, P) w_j (value_j − mean of its class) √(n_c/(n_c − 1)), n_c Kish's number of images."""
    total_c = np.bincount(label_v, weights=weight_v)
    n_c = np.square(total_c) / np.bincount(label_v, weights=np.square(weight_v))
    mean_cp = class_means(value_vp, label_v, weight_v)
    factor_v = (weight_v * np.sqrt(n_c / np.maximum(n_c - 1.0, 0.5))[label_v])[:, None]
    return np.asarray(factor_v * (value_vp - mean_cp[label_v]))


def class_means(value_vp: Floats, label_v: Ints, weight_v: Floats) -> Floats:
    """(C, P) weighted mean of the values of each class."""
    total_c = np.bincount(label_v, weights=weight_v)
    part_vc = np.zeros((label_v.size, total_c.size))
    part_vc[np.arange(label_v.size), label_v] = weight_v / total_c[label_v]
    return np.asarray(part_vc.T @ value_vp)


def sum_by_unit(value_np: Floats, unit_n: Ints) -> Floats:
    """(G, P) sums over the images of each unit."""
    order_n = np.argsort(unit_n, kind="stable")
    start_g = np.flatnonzero(np.diff(unit_n[order_n], prepend=-1))
    return np.asarray(np.add.reduceat(value_np[order_n], start_g, axis=0))
