"""Standard errors when ω was estimated, robust to groups.

They come from stacked influence functions of normalizers, parameters and target mean. With η = (u,
θ) the maximum of the profile likelihood, its score and information I as in
`unskew.solve.profile_likelihood`, and the target mean μ̂ = Σ_c p_c m_c, m_c = Σ_{i in c} v_i
h_i/Σ_{i in c} v_i, v_i = 1/Σ_{k kept} e^{u_ck} ω_ik, the influence of image i on μ̂ is

    ψ_i = π_i (h_i − m_{c_i}) − aᵀ score_i,   I a = ∂μ̂/∂η,   ∂μ̂/∂u_ck = −Σ_{i in c} π_i (h_i −
    m_c) q̃_ik, ∂μ̂/∂θ = −Σ_i π_i (h_i − m_{c_i}) Σ_k q̃_ik J_ik,

where q̃ are the memberships among the sources that are kept in training and π_i = 0 for the others'
images. With design weights score_i is multiplied by d_i, which π_i contains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from unskew.records import Bools, Codes, Estimate, Floats, Ints
from unskew.records.arrays import log_sums
from unskew.solve.profile_likelihood import Profile
from unskew.target.mass_covariance import MassError, sum_covariances
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.sampling_units import (
    Units,
    centre_units,
    centre_within_sources,
    counts_of,
    degrees_of_freedom,
    design_effect,
    find_units,
    student_estimate,
)
from unskew.weigh.stratified_spread import hidden_variance, stratified_variance


@dataclass(frozen=True, eq=False)
class EstimatedRows:
    """The rows behind estimated weights, those of the target's sample included.

    names : the sources, the sample among them.
    source : (R,)
    weight : (R,) π; 0 for rows that are not kept in training.
    unit : (R,) unit of each row (of groups and copies), or None where each is one by itself.
    profile : the likelihood at its maximum.
    kept : (K,) False for a source that is left out of training.
    mass_errors : independent errors of the strata's target masses: of surveys, and of the pool's
        own counts where masses follow these; none where they are exact.
    design_weight : (R,) d, how often each row counts; None: once.
    """

    names: tuple[str, ...]
    source: Codes
    weight: Floats = field(repr=False)
    unit: Ints | None = field(repr=False)
    profile: Profile = field(repr=False)
    kept: Bools
    mass_errors: tuple[MassError, ...] = field(repr=False, default=())
    design_weight: Floats | None = field(repr=False, default=None)

    @property
    def mass_covariance(self) -> Floats | None:
        """(C, C) covariance of the strata's target masses; None where they are exact."""
        return sum_covariances(self.mass_errors)

    @property
    def is_post_stratified(self) -> bool:
        """Strata and nothing else: within a stratum all weights are equal but for the units."""
        return (
            self.profile.u.shape[0] > 1
            and self.profile.n_parameters == 0
            and bool(self.kept.all())
            and self._flat
        )

    @property
    def _flat(self) -> bool:
        if self.profile.is_saturated:
            return True
        log_rk, cell_r = self.profile.log_omega, self.profile.cell
        first = np.unique(cell_r, return_index=True)
        row_of_cell = np.zeros(self.profile.u.shape[0], dtype=np.int64)
        row_of_cell[first[0]] = first[1]
        return bool((log_rk == log_rk[row_of_cell[cell_r]]).all())


def estimated_mean(
    rows: EstimatedRows, value_r: Floats, level: float, empty_mean_c: Floats | None = None
) -> Estimate:
    """Estimate the target mean Σ_i π_i h_i where ω was estimated.

    The standard error accounts for the estimation of ω and for the error of the margins. The
    variance is that of the unit sums of ψ, centred within sources (`centre_units`), or within
    strata if there is nothing but strata: then it is the post-stratified Σ_c p_c² s_c²/N_c, with
    more for strata of a few images (`stratified_variance`, `hidden_variance`). To it comes mᵀ
    Cov(p̂) m, m_c the mean of stratum c. Where no source is left out, the larger of this and the
    model-based variance Σ_i π_i² (h_i − m)² + aᵀ ∂μ̂/∂η counts, as in `weighted_mean`.
    The degrees of freedom of Welch and Satterthwaite count those of every survey.

    ``empty_mean_c`` is (C,) the mean of strata without mass, whose mass may be uncertain.
    """
    mean = float(rows.weight @ value_r)
    deviation_r = deviations_from_strata(rows, value_r)
    margin_e = mass_variances(rows, value_r, empty_mean_c)
    margin = float(margin_e.sum())
    scale = float(np.abs(deviation_r).max())
    units = find_units(rows)
    if _shows_no_spread(rows, units, value_r):
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    if scale <= 1e-15 * abs(mean) and margin == 0.0:
        return Estimate(mean, 0.0, (mean, mean), level)
    if units.cannot_vary:
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    if rows.is_post_stratified:
        variance_s, size_s = stratified_variance(rows, units, value_r, deviation_r)
        variance = float(variance_s.sum())
    else:
        spread_m, variance = spread_of_estimate(rows, units, deviation_r)
        variance += hidden_variance(rows, units, value_r, deviation_r)
        variance_s, size_s = (
            add_by_code(units.stratum_m, np.square(spread_m), units.size_s.size),
            units.size_s,
        )
    freedom_e = np.array([error.freedom for error in rows.mass_errors])
    freedom = degrees_of_freedom(
        np.concatenate([variance_s, margin_e]), np.concatenate([size_s, freedom_e + 1.0])
    )
    return student_estimate(mean, math.sqrt(variance + margin), freedom, level)


def beside_rival(estimate: Estimate, rival: Estimate) -> Estimate:
    """Widen the error of an estimate by the choice between two models.

    The rival's mean μ̂' shows what the choice may cost. stderr² = max(V, V') + (μ̂ − μ̂')², the
    mean squared error of μ̂ if the rival is right. The interval is as long to both sides of μ̂ as
    the longer of both models' is, and |μ̂ − μ̂'| more, so that it contains both: it holds the truth
    wherever the rival's does, however the choice was made (an interval of fixed length for an
    estimate with a bound on its bias: Donoho 1994; Armstrong & Kolesár 2018).
    """
    apart = abs(estimate.value - rival.value)
    reach = max((model.interval[1] - model.interval[0]) / 2 for model in (estimate, rival)) + apart
    stderr = math.hypot(max(estimate.stderr, rival.stderr), apart)
    return Estimate(
        estimate.value, stderr, (estimate.value - reach, estimate.value + reach), estimate.level
    )


def beside_unpenalised(estimate: Estimate, plain: Estimate) -> Estimate:
    """Widen the error of an estimate whose parameters a penalty has moved.

    The fit without the penalty has no such bias, so μ̂ − μ̂', the distance of both means, estimates
    what the penalty does: stderr² = max(V, V') + (μ̂ − μ̂')². The interval reaches from the lower
    of both models' ends to the higher: it holds the truth wherever that of the fit without the
    penalty does. The value stays.
    """
    ends = [end for model in (estimate, plain) for end in model.interval]
    stderr = math.hypot(max(estimate.stderr, plain.stderr), estimate.value - plain.value)
    return Estimate(estimate.value, stderr, (min(ends), max(ends)), estimate.level)


def _shows_no_spread(rows: EstimatedRows, units: Units, value_r: Floats) -> bool:
    """Say whether every stratum holds a single unit, while the values differ."""
    if not rows.is_post_stratified or np.ptp(value_r[rows.weight > 0]) == 0.0:
        return False
    weighed = rows.weight > 0
    cell_m, unit_m = rows.profile.cell[weighed], units.unit_n[weighed]
    unit_of_cell = np.zeros(rows.profile.u.shape[0], dtype=np.int64)
    unit_of_cell[cell_m] = unit_m
    return bool((unit_of_cell[cell_m] == unit_m).all())


def deviations_from_strata(rows: EstimatedRows, value_r: Floats) -> Floats:
    """Return (R,) h_i − m_{c_i}, 0 for rows without weight."""
    mean_c = cell_means(rows, value_r)
    return np.where(rows.weight > 0, value_r - mean_c[rows.profile.cell], 0.0)


def mass_variances(
    rows: EstimatedRows, value_r: Floats, empty_mean_c: Floats | None = None
) -> Floats:
    """Compute mᵀ Cov(p̂) m of every error of the strata's masses, m_c the mean of stratum c."""
    mean_c = stratum_deviations(rows, value_r, empty_mean_c)
    return np.array(
        [max(float(mean_c @ error.covariance_cc @ mean_c), 0.0) for error in rows.mass_errors]
    )


def stratum_deviations(
    rows: EstimatedRows, value_r: Floats, empty_mean_c: Floats | None = None
) -> Floats:
    """Return (C,) m_c − μ̂; masses sum to 1, so that the offset changes no variance."""
    mean_c, mean = cell_means(rows, value_r), float(rows.weight @ value_r)
    mass_c = add_by_code(rows.profile.cell, rows.weight, mean_c.size)
    return np.where(mass_c > 0, mean_c, mean if empty_mean_c is None else empty_mean_c) - mean


def cell_means(rows: EstimatedRows, value_r: Floats) -> Floats:
    """Compute (C,) m_c, the weighted mean of every stratum; 0 without weight."""
    n_cells = rows.profile.u.shape[0]
    mass_c = add_by_code(rows.profile.cell, rows.weight, n_cells)
    total_c = add_by_code(rows.profile.cell, rows.weight * value_r, n_cells)
    return np.divide(total_c, mass_c, out=np.zeros(n_cells), where=mass_c > 0)


def influence_of_estimate(rows: EstimatedRows, pull_r: Floats) -> tuple[Floats, float]:
    """Compute (R,) ψ for π_i (h_i − m) = ``pull_r``, and aᵀ ∂μ̂/∂η."""
    profile = rows.profile
    g_ck, g_p = np.zeros(profile.u.shape), np.zeros(profile.n_parameters)
    for cell, at, q_bk in profile.blocks():
        share_bk = q_bk * rows.kept
        # A reference image that no kept source could have produced pulls at nothing.
        share_bk /= np.maximum(share_bk.sum(axis=1, keepdims=True), 1e-300)
        pulled_bk = pull_r[at][:, None] * share_bk
        g_ck[cell] -= pulled_bk.sum(axis=0)
        if profile.derivative is not None:
            g_p -= profile.derivative.total(at, pulled_bk)
    a_ck, a_p = profile.information.solve(g_ck, g_p)
    influence_r = pull_r.copy()
    for cell, at, q_bk in profile.blocks():
        residual_bk = profile.counted(at, profile.residuals(at, q_bk))
        influence_r[at] -= residual_bk @ a_ck[cell]
        if profile.derivative is not None:
            influence_r[at] -= profile.derivative.along(at, residual_bk, a_p)
    return influence_r, float(np.sum(a_ck * g_ck) + a_p @ g_p)


def spread_of_estimate(
    rows: EstimatedRows, units: Units, deviation_r: Floats
) -> tuple[Floats, float]:
    """Return (m,) what each unit adds to μ̂, centred, and the variance that counts."""
    pull_r = rows.weight * deviation_r
    influence_r, curved = influence_of_estimate(rows, pull_r)
    spread_m = centre_within_sources(rows, units, influence_r.size * influence_r)
    variance = float(spread_m @ spread_m)
    if rows.kept.all():
        model = float(pull_r @ (pull_r / counts_of(rows))) + max(curved, 0.0)
        variance = max(variance, model * design_effect(rows, units, deviation_r))
    return spread_m, variance


def estimated_covariance(rows: EstimatedRows) -> Floats:
    """Compute the (K, K) covariance of log Ω̂_k = log n_k − u_k − log Σ_i v_i over all rows.

    There is one stratum; it is the sandwich of the influence functions of log Ω̂.
    """
    profile, n_sources = rows.profile, len(rows.names)
    units = find_units(rows)
    if units.cannot_vary:
        return np.full((n_sources, n_sources), np.inf)
    count_r = counts_of(rows)
    log_v_r = -log_sums(profile.log_omega + profile.u[0])
    weight_r = scipy.special.softmax(log_v_r + np.log(count_r))
    common_k, common_p = np.zeros(n_sources), np.zeros(profile.n_parameters)
    for _, at, q_bk in profile.blocks():
        pulled_bk = weight_r[at][:, None] * q_bk
        common_k += pulled_bk.sum(axis=0)
        if profile.derivative is not None:
            common_p += profile.derivative.total(at, pulled_bk)
    solved = [
        profile.information.solve((common_k - unit)[None, :], common_p)
        for unit in np.eye(n_sources)
    ]
    a_kj, a_pj = (
        np.column_stack([a_ck[0] for a_ck, _ in solved]),
        np.column_stack([a_p for _, a_p in solved]),
    )
    influence_rj = np.repeat(-(weight_r - count_r / count_r.sum())[:, None], n_sources, axis=1)
    for _, at, q_bk in profile.blocks():
        residual_bk = profile.counted(at, profile.residuals(at, q_bk))
        influence_rj[at] -= residual_bk @ a_kj
        if profile.derivative is not None:
            influence_rj[at] -= profile.derivative.by_row(at, residual_bk) @ a_pj
    n = weight_r.size
    total_mj = np.column_stack(
        [n * add_by_code(units.unit_n, column, units.stratum_m.size) for column in influence_rj.T]
    )
    size_k = np.bincount(rows.source, weights=count_r, minlength=n_sources)
    mean_kj = np.column_stack(
        [n * add_by_code(rows.source, column, n_sources) / size_k for column in influence_rj.T]
    )
    spread_mj = centre_units(rows, units, total_mj, mean_kj, np.zeros((n_sources, n_sources)))
    return np.asarray(spread_mj.T @ spread_mj)
