"""The shares of the classes in unlabelled images, from calibrated scores: mathematics only.

Under label shift the images of a class look alike everywhere, p(s | c), and only the shares q of
the classes change. With r_c(s) ∝ p(s | c) the log-likelihood of m images,

    ℓ(q) = Σ_i log Σ_c q_c r_c(s_i),   q ≥ 0, Σ_c q_c = 1,

is concave (Saerens, Latinne & Decaestecker 2002). With h_c(s) = r_c(s)/Σ_d q_d r_d(s), the maximum
has mean h_c = 1 where q_c > 0 and ≤ 1 where q_c = 0: q is the mean of the posterior q_c h_c(s).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from unskew.errors import ConvergenceError
from unskew.records import Floats, Ints
from unskew.target.score_calibration import (
    ScoreCalibration,
    class_means,
    sum_by_unit,
    within_classes,
)

_EM_STEPS = 20
_MAX_STEPS = 100
_TINY = 1e-9
# Images of a class that the error of a small share is computed with, beyond those that the estimate
# counts: z²/2 as in the interval of Agresti & Coull (1998). A count of 0 has an error, too.
_PSEUDO_COUNT = 1.92
# Above this effective count (share/stderr)² the normal approximation needs no such help.
_SMALL_COUNT = 16.0


@dataclass(frozen=True, eq=False)
class LabelledScores:
    """Log scores of labelled images; ``weight`` sums to the number of images in each class."""

    log_score: Floats = field(repr=False)
    label: Ints = field(repr=False)
    weight: Floats = field(repr=False)
    unit: Ints = field(repr=False)


@dataclass(frozen=True, eq=False)
class ShareErrors:
    """The error of estimated shares.

    covariance : (C, C) of the shares; rows sum to 0.
    of_images : (C, C) the part of the target's images; the rest is that of the calibration.
    target_gc : (G, C) what each unit of the target adds to the error of the shares.
    validation_gc : (H, C) the same of the validation's units.
    condition : ratio of the largest to the smallest eigenvalue of the information of the shares.
    least : (C,) standard errors by the information of the images alone, whatever their spread.
    """

    covariance: Floats
    of_images: Floats
    target_gc: Floats = field(repr=False)
    validation_gc: Floats = field(repr=False)
    condition: float
    least: Floats


def solve_shares(log_ratio_nc: Floats, weight_n: Floats | None = None) -> Floats:
    """(C,) the q that maximises Σ_n w_n log Σ_c q_c r_nc."""
    n, n_classes = log_ratio_nc.shape
    share_n = np.full(n, 1 / n) if weight_n is None else weight_n / weight_n.sum()
    ratio_nc = scaled_ratios(log_ratio_nc)
    q_c = np.full(n_classes, 1 / n_classes)
    for _ in range(_EM_STEPS):
        q_c = q_c * (share_n @ (ratio_nc / (ratio_nc @ q_c)[:, None]))
    return _newton(ratio_nc, share_n, q_c)


def scaled_ratios(log_ratio_nc: Floats) -> Floats:
    """(n, C) r_nc, the largest of each image 1."""
    return np.asarray(np.exp(log_ratio_nc - log_ratio_nc.max(axis=1, keepdims=True)))


def _newton(ratio_nc: Floats, share_n: Floats, q_c: Floats) -> Floats:
    """Find the maximum from a starting point by Newton's method under q ≥ 0.

    The sum needs no constraint: the maximum of mean log(R q) − Σ_c q_c has sum 1. Every step solves
    a quadratic programme as non-negative least squares (Kim, Carbonetto, Stephens & Anitescu 2020).
    """
    from scipy.optimize import nnls

    def objective(q_c: Floats) -> float:
        with np.errstate(divide="ignore"):
            return float(share_n @ np.log(ratio_nc @ q_c) - q_c.sum())

    value, diagonal = objective(q_c), np.diag_indices(q_c.size)
    for _ in range(_MAX_STEPS):
        h_nc = ratio_nc / (ratio_nc @ q_c)[:, None]
        g_c = share_n @ h_nc
        if max(float(np.max(g_c)) - 1.0, float(np.max(q_c * (1.0 - g_c)))) < 1e-12:
            return np.asarray(q_c / q_c.sum())
        information_cc = (h_nc.T * share_n) @ h_nc
        information_cc[diagonal] += 1e-12 * (1.0 + information_cc[diagonal])
        factor_cc = np.linalg.cholesky(information_cc)
        # ½ pᵀ J p − pᵀ (J q + g − 1), and J q = g
        goal_c = scipy.linalg.solve_triangular(factor_cc, 2 * g_c - 1.0, lower=True)
        step_c = nnls(factor_cc.T, goal_c)[0] - q_c
        size, slope = 1.0, float(step_c @ (g_c - 1.0))
        if slope < 1e-13 * (1.0 + abs(value)):
            # The gain is below rounding: after this step the error is its square.
            q_c = np.maximum(q_c + step_c, 0.0)
            return np.asarray(q_c / q_c.sum())
        while size > 1e-12:
            trial = objective(q_c + size * step_c)
            if trial >= value + 1e-4 * size * slope:
                break
            size /= 2
        q_c, value = np.maximum(q_c + size * step_c, 0.0), trial
    raise ConvergenceError("the shares of the classes did not converge.", value=value)


def mixture_log_likelihood(ratio_nc: Floats, q_c: Floats) -> float:
    """ℓ(q) = Σ_n log Σ_c q_c r_nc."""
    with np.errstate(divide="ignore"):
        return float(np.log(ratio_nc @ q_c).sum())


def profile_interval(
    log_ratio_nc: Floats,
    q_c: Floats,
    at: int,
    level: float,
    inflation: float,
    direction_c: Floats | None = None,
) -> tuple[float, float]:
    """Find the shares t of one class with 2 (ℓ(q̂) − max_{q_at = t} ℓ(q)) ≤ χ² × ``inflation``.

    ``inflation`` is the variance of the share divided by that which the likelihood counts, so that
    the error of the calibration and of groups is in the interval. With ``direction_c`` =
    ∂q/∂q_at the maximum over the other shares is replaced by its linear approximation
    q̂ + (t − q̂_at) direction: one look at the images for each t.
    """
    from scipy.optimize import brentq

    ratio_nc = scaled_ratios(log_ratio_nc)
    n, share = ratio_nc.shape[0], float(q_c[at])
    best, equal_n = mixture_log_likelihood(ratio_nc, q_c), np.full(n, 1 / n)
    limit = float(scipy.special.ndtri(0.5 + level / 2)) * np.sqrt(max(inflation, 1.0))
    start_d = 0.98 * np.delete(q_c, at) + 0.02 / (q_c.size - 1)

    def drop_along(t: float, direction_c: Floats) -> float:
        moved_c = np.maximum(q_c + (t - share) * direction_c, 0.0)
        moved_c *= (1 - t) / max(moved_c.sum() - moved_c[at], _TINY)
        moved_c[at] = t
        return best - mixture_log_likelihood(ratio_nc, moved_c)

    def drop_at(t: float) -> float:
        # With q_at = t the others are mixed by their own shares: r' = t r_at + (1 − t) r_d.
        mixed_nd = t * ratio_nc[:, [at]] + (1 - t) * np.delete(ratio_nc, at, axis=1)
        rest_d = _newton(mixed_nd, equal_n, start_d / start_d.sum())
        return best - mixture_log_likelihood(mixed_nd, rest_d)

    def excess(t: float) -> float:
        # The root of the likelihood ratio is nearly linear in t.
        drop = drop_at(t) if direction_c is None else drop_along(t, direction_c)
        return float(np.sqrt(2 * max(drop, 0.0)) - limit)

    ends = []
    for end in (_TINY, 1 - _TINY):
        inside = abs(share - end) <= _TINY or excess(end) <= 0
        ends.append(round(end) if inside else brentq(excess, share, end, rtol=1e-4, xtol=1e-9))
    return float(ends[0]), float(ends[1])


def share_errors(
    q_c: Floats,
    calibration: ScoreCalibration,
    log_score_mc: Floats,
    unit_m: Ints,
    validation: LabelledScores,
) -> ShareErrors:
    """Compute the error of the shares: that of the target's images and of the calibration.

    The shares solve ψ(q, θ) = mean_i h(s_i) − 1 = 0 on the simplex. With J = mean h hᵀ and B a
    basis of {d: Σ d = 0},

        dq = B (Bᵀ J B)⁻¹ Bᵀ dψ,   dψ = mean_i (h_i − mean h) + (∂ψ/∂θ) dθ.

    Bounds q ≥ 0 are not used, so that a share of 0 has an error. Where a share is a count of a few
    images, J and the spread of h are computed with ``_PSEUDO_COUNT`` more of them (as the
    validation images of the class look), since they are not known from so few.
    """
    plain = _errors(q_c, np.zeros_like(q_c), calibration, log_score_mc, unit_m, validation)
    count_c = np.divide(
        np.square(q_c), np.diag(plain.covariance), out=np.zeros_like(q_c), where=q_c > 0
    )
    pseudo_c = _PSEUDO_COUNT * np.maximum(1.0 - count_c / _SMALL_COUNT, 0.0)
    if not pseudo_c.any():
        return plain
    return _errors(q_c, pseudo_c, calibration, log_score_mc, unit_m, validation)


def _errors(
    q_c: Floats,
    pseudo_c: Floats,
    calibration: ScoreCalibration,
    log_score_mc: Floats,
    unit_m: Ints,
    validation: LabelledScores,
) -> ShareErrors:
    m, n_classes = log_score_mc.shape
    q_c = (m * q_c + pseudo_c) / (m + pseudo_c.sum())
    weight_v = (pseudo_c / np.bincount(validation.label, weights=validation.weight))[
        validation.label
    ] * validation.weight
    taken_v = weight_v > 0
    log_score_nc = np.vstack([log_score_mc, validation.log_score[taken_v]])
    share_n = np.concatenate([np.ones(m), weight_v[taken_v]]) / (m + pseudo_c.sum())
    h_nc = likelihood_ratios(calibration.log_ratio(log_score_nc), q_c)
    information_cc = (h_nc.T * share_n) @ h_nc
    tangent_cb = scipy.linalg.null_space(np.ones((1, n_classes)))
    eigenvalue_b, vector_bb = np.linalg.eigh(tangent_cb.T @ information_cc @ tangent_cb)
    # A blind classifier has none: a large error, which is refused, instead of an infinite one.
    eigenvalue_b = np.maximum(eigenvalue_b, 1e-9)
    rotated_cb = tangent_cb @ vector_bb
    inverse_cc = (rotated_cb / eigenvalue_b) @ rotated_cb.T
    centred_nc = h_nc - share_n @ h_nc
    n_units = np.unique(unit_m).size
    target_gc = sum_by_unit(centred_nc[:m], unit_m) / (m + pseudo_c.sum())
    target_gc = target_gc @ inverse_cc * np.sqrt(n_units / max(n_units - 1, 1))
    # Pseudo-images stand for a few independent ones, however many they are spread over.
    pseudo_nc = np.sqrt(share_n[m:, None] / (m + pseudo_c.sum())) * centred_nc[m:] @ inverse_cc
    validation_gc = (
        calibration.influence @ _derivative(calibration, log_score_nc, h_nc, q_c, share_n).T
    ) @ inverse_cc
    of_images_cc = target_gc.T @ target_gc + pseudo_nc.T @ pseudo_nc
    return ShareErrors(
        of_images_cc + validation_gc.T @ validation_gc,
        of_images_cc,
        np.vstack([target_gc, pseudo_nc]),
        validation_gc,
        float(eigenvalue_b.max() / eigenvalue_b.min()),
        np.sqrt(np.diag(inverse_cc) / m),
    )


def likelihood_ratios(log_ratio_nc: Floats, q_c: Floats) -> Floats:
    """(n, C) h_c = r_c/Σ_d q_d r_d."""
    with np.errstate(divide="ignore"):
        log_mix_n = scipy.special.logsumexp(log_ratio_nc + np.log(q_c), axis=1)
    # A class that no image resembles: bounded, so that its square is finite.
    return np.asarray(np.exp(np.minimum(log_ratio_nc - log_mix_n[:, None], 300.0)))


def _derivative(
    calibration: ScoreCalibration, log_score_nc: Floats, h_nc: Floats, q_c: Floats, share_n: Floats
) -> Floats:
    """(C, P) ∂ mean h_c/∂θ = mean h_c (∂η_c/∂θ − Σ_d q_d h_d ∂η_d/∂θ)."""
    x_nc, design = calibration.standardized(log_score_nc), calibration.design
    pulled_nc = share_n[:, None] * h_nc
    return design.by_class(pulled_nc, x_nc) - pulled_nc.T @ design.pull(q_c * h_nc, x_nc)


@dataclass(frozen=True, eq=False)
class BlackBoxCheck:
    """Black-box shift estimation (Lipton, Wang & Smola 2018) beside maximum likelihood.

    share : (C,) q̃, from the mean scores: mean over the target = Σ_c q̃_c mean over class c.
    p_value : chance of so large a difference if the images of each class look alike in target and
        validation, and the calibration is right.
    """

    share: Floats
    p_value: float


def check_black_box(
    q_c: Floats,
    calibration: ScoreCalibration,
    errors: ShareErrors,
    log_score_mc: Floats,
    unit_m: Ints,
    validation: LabelledScores,
) -> BlackBoxCheck:
    """Compare the target's mean scores with those of the validation images mixed by q̂.

    Under label shift T = mean_target g − Σ_c q_c mean_{validation, c} g has mean 0 for every g. It
    is judged for the calibrated scores and for the largest of them, by the influence of every
    image on T, that through q̂ included. Where a class has few labelled images their spread is not
    well known: Hotelling's distribution, with the degrees of freedom of all parts together.
    """
    g_mf, g_vf = (
        _black_box_functions(calibration, scores) for scores in (log_score_mc, validation.log_score)
    )
    mean_cf = class_means(g_vf, validation.label, validation.weight)
    difference_f = g_mf.mean(axis=0) - q_c @ mean_cf
    target_gf = sum_by_unit(g_mf - g_mf.mean(axis=0), unit_m) / log_score_mc.shape[0]
    spread_gf = -(errors.target_gc @ mean_cf)
    # The pseudo-images behind the error of small shares come last.
    spread_gf[: target_gf.shape[0]] += target_gf
    total_c = np.bincount(validation.label, weights=validation.weight)
    pull_vf = within_classes(g_vf, validation.label, validation.weight)
    pull_vf *= (q_c / total_c)[validation.label][:, None]
    own_hf = -sum_by_unit(pull_vf, validation.unit)
    spread_hf = own_hf - errors.validation_gc @ mean_cf
    covariance_ff = spread_gf.T @ spread_gf + spread_hf.T @ spread_hf
    # Directions that q̂ follows by itself say nothing: their spread is a small part of the mean's.
    scale_f = np.sqrt(np.diag(target_gf.T @ target_gf + own_hf.T @ own_hf))
    known_f = scale_f > 1e-6
    safe_f = np.where(known_f, scale_f, 1.0)
    scaled_ff = (
        covariance_ff[np.ix_(known_f, known_f)]
        / np.outer(scale_f, scale_f)[np.ix_(known_f, known_f)]
    )
    eigenvalue_e, vector_fe = np.linalg.eigh(scaled_ff)
    usable_e = eigenvalue_e > 0.02
    score_e = vector_fe.T @ (difference_f[known_f] / scale_f[known_f])
    statistic = float(np.sum(score_e[usable_e] ** 2 / eigenvalue_e[usable_e]))
    freedom = _freedom(target_gf / safe_f, pull_vf / safe_f, validation)
    p_value = hotelling_p(statistic, int(usable_e.sum()), freedom)
    n_classes = q_c.size
    return BlackBoxCheck(_soft_shares(mean_cf[:, :n_classes], g_mf[:, :n_classes]), p_value)


def _freedom(target_gf: Floats, pull_vf: Floats, validation: LabelledScores) -> float:
    """Return Satterthwaite's degrees of freedom of the covariance."""
    label_v, weight_v = validation.label, validation.weight
    part_c = np.bincount(label_v, weights=np.square(pull_vf).sum(axis=1))
    n_c = np.square(np.bincount(label_v, weights=weight_v)) / np.bincount(
        label_v, weights=np.square(weight_v)
    )
    n_c = n_c * np.unique(validation.unit).size / label_v.size
    part_k = np.append(part_c, np.square(target_gf).sum())
    size_k = np.append(n_c, target_gf.shape[0])
    return float(np.square(part_k.sum()) / np.sum(np.square(part_k) / np.maximum(size_k - 1, 1)))


def hotelling_p(statistic: float, rank: int, freedom: float) -> float:
    """Compute the p-value of dᵀ Ĉ⁻¹ d where Ĉ has so many degrees of freedom."""
    if rank == 0 or freedom <= rank:
        return 1.0
    left = freedom - rank + 1.0
    return float(scipy.special.fdtrc(rank, left, statistic * left / (freedom * rank)))


def _black_box_functions(calibration: ScoreCalibration, log_score_nc: Floats) -> Floats:
    """(n, C + 1) calibrated score of each class if all are equally frequent, and the largest."""
    p_nc = scipy.special.softmax(calibration.log_ratio(log_score_nc), axis=1)
    return np.hstack([p_nc, p_nc.max(axis=1, keepdims=True)])


def _soft_shares(confusion_cd: Floats, score_mc: Floats) -> Floats:
    """(C,) the q with Σ q = 1 and mean score = Σ_c q_c (mean score of class c)."""
    n_classes = confusion_cd.shape[0]
    tangent_cb = scipy.linalg.null_space(np.ones((1, n_classes)))
    start_c = np.full(n_classes, 1 / n_classes)
    left_c = score_mc.mean(axis=0) - start_c @ confusion_cd
    move_b = np.linalg.lstsq(confusion_cd.T @ tangent_cb, left_c, rcond=1e-10)[0]
    return np.asarray(start_c + tangent_cb @ move_b)
