"""Standard errors for known omega, robust to groups.

Here ω is known; where it was estimated, `unskew.weigh.estimated_omega` has the formulas.

Notation: q_i the memberships of image i, π_i its weight, λ_k the shares, H the Hessian of the
objective at the solution, and H⁻ the generalized inverse of H with H⁻λ = 0 (H has the null vector
1: the constant in u, which is fixed by convention).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy
import scipy.sparse

from unskew.errors import warn_caller
from unskew.records import Estimate, Floats
from unskew.weigh.bootstrap import bootstrap_fit
from unskew.weigh.curvature import (
    check_solved,
    invert_hessian,
    read_hessian,
    read_memberships,
    solve_hessian,
)
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.estimated_omega import (
    beside_rival,
    beside_unpenalised,
    estimated_covariance,
    estimated_mean,
)
from unskew.weigh.sampling_units import (
    Units,
    centre_units,
    centre_within_sources,
    check_order,
    check_values,
    counts_of,
    degrees_of_freedom,
    design_effect,
    find_units,
    student_estimate,
)
from unskew.weigh.share_interval import bound_share

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Floats, Weights


# Replicates behind the standard error of a model without derivatives.
REPLICATES = 100


def weighted_mean(weights: Weights, values: npt.ArrayLike, level: float = 0.95) -> Estimate:
    """Estimate the target mean μ̂ = Σ_i π_i h_i with its standard error.

    The error accounts for the estimated normalizers, and for ω where a model of it was fitted
    (`estimated_mean`). What follows is for known ω.

    The influence of image i on μ̂ (n times the derivative with respect to how often it counts) is,
    up to a constant per source,

        ψ_i = n π_i (h_i − μ̂) + aᵀ q_i,   H a = c,   c_k = Σ_i π_i q_ik (h_i − μ̂).

    The numbers of images per source are fixed, so ψ is centred within sources, and the variance is
    n⁻² Σ_j T_j²/(1 − leverage_j)^{a_j}, with T_j the sum of the centred ψ over unit j (a group, or
    an image without groups), leverage and a_j as `centre_units` explains. Hence duplicating every
    image within its group changes no standard error, and one source with equal weights has the
    textbook's s/√n.

    A source with one unit has no spread of its own: there ψ is centred at a_k instead, its
    expectation in source k under the model. If there is one unit altogether, or one group of
    several images in every source, no standard error exists, and it is infinite.

    With design weights image i counts d_i times, with the same q_i: n π_i contains d_i, and aᵀ q_i
    is multiplied by it; H, c and the centres are weighted by d. Errors are those of data in which
    image i is repeated d_i times, the copies being one group.

    That sandwich sees only what happened: a link that could have produced an image but produced
    none adds nothing to it, and where the answer rests on such links it comes out near 0. So the
    larger of it and the model-based variance (`_influence`) is reported, which counts every link by
    its probability. Where the links produced images, the two agree up to noise.

    The interval uses Student's t with the degrees of freedom of Welch and Satterthwaite, (Σ_s
    v_s)²/Σ_s (v_s²/(m_s − 1)), over the strata s with m_s units and variance v_s: exact for one
    source of normal values with equal weights, wide where few groups carry the variance. That of a
    rare outcome is not symmetric (`bound_share`).
    """
    check_order(values, weights)
    value_n = check_values(values, weights.weight.size)
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        estimate = _mean_of_fit(weights.estimation, value_n, level)
    else:
        check_solved(weights)
        estimate = _mean_of_solve(weights, value_n, level)
    return bound_share(estimate, weights.weight, value_n, weights.unit)


def _mean_of_fit(estimation: Estimation, value_n: Floats, level: float) -> Estimate:
    """Use influence functions, or a bootstrap where the model has no derivatives."""
    if not estimation.is_smooth:
        return bootstrap_fit(estimation, REPLICATES, estimation.seed, value_n).estimate(level)
    value_r = estimation.values_of_rows(value_n)
    empty_mean_c = estimation.means_without_mass(value_n)
    estimate = estimated_mean(estimation.rows, value_r, level, empty_mean_c)
    rival, unpenalised = estimation.rival_rows, estimation.unpenalised_rows
    if rival is not None:
        estimate = beside_rival(estimate, estimated_mean(rival, value_r, level, empty_mean_c))
    if unpenalised is None:
        return estimate
    plain = estimated_mean(unpenalised, value_r, level, empty_mean_c)
    if abs(estimate.value - plain.value) > plain.stderr:
        warn_caller(
            f"the ridge moves this mean from {plain.value:.4g} ± {plain.stderr:.2g} to "
            f"{estimate.value:.4g}: the penalty decides, not the images. The interval covers both. "
            "Lower ridge; in place of Propensity, which has one, use Tilt."
        )
    return beside_unpenalised(estimate, plain)


def _mean_of_solve(weights: Weights, value_n: Floats, level: float) -> Estimate:
    mean = float(weights.weight @ value_n)
    deviation_n = value_n - mean
    scale = float(np.abs(deviation_n).max())
    if scale <= 1e-15 * abs(mean):
        return Estimate(mean, 0.0, (mean, mean), level)
    units = find_units(weights)
    if units.cannot_vary:
        return Estimate(mean, math.inf, (-math.inf, math.inf), level)
    deviation_n /= scale
    spread_m, model_variance = spread_of_mean(weights, units, deviation_n)
    variance_s = add_by_code(units.stratum_m, np.square(spread_m), units.size_s.size)
    variance = max(
        float(variance_s.sum()), model_variance * design_effect(weights, units, deviation_n)
    )
    if variance == 0.0:
        return Estimate(mean, 0.0, (mean, mean), level)
    freedom = degrees_of_freedom(variance_s, units.size_s)
    return student_estimate(mean, scale * math.sqrt(variance), freedom, level)


def spread_of_mean(weights: Weights, units: Units, deviation_n: Floats) -> tuple[Floats, float]:
    """Return (m,) what each unit adds to μ̂, and the model-based variance for independent images.

    The former is centred, and its squares add up to the variance of μ̂.
    """
    influence_n, expected_k, model_variance = _influence(weights, deviation_n)
    excess_n = influence_n - counts_of(weights) * expected_k[weights.source]
    # At weak links a is huge, and what is left of a difference of its size is rounding.
    excess_n[np.abs(excess_n) <= 16 * np.finfo(np.float64).eps * np.abs(expected_k).max()] = 0.0
    return centre_within_sources(weights, units, excess_n), model_variance


def influence_of_mean(weights: Weights, deviation_n: Floats) -> tuple[Floats, Floats]:
    """Return (n,) d_i ψ_i of `weighted_mean` and (K,) a_k, the expectation of ψ in each source."""
    return _influence(weights, deviation_n)[:2]


def _influence(weights: Weights, deviation_n: Floats) -> tuple[Floats, Floats, float]:
    """Return ψ and a of `influence_of_mean`, and the model-based variance for independent images.

    Under the model image i came from source k with probability q_ik, and there ψ has expectation
    a_k, so the variance is

        n⁻² Σ_i Σ_k q_ik (ψ_i − a_k)² = Σ_i π_i² (h_i − μ̂)² + aᵀHa/n,   aᵀHa = aᵀc,

    because Σ_k q_ik (ψ_i − a_k) = n π_i (h_i − μ̂) and Σ_i q_i (1 − q_i)ᵀ is n H. For K = 1 it is
    Σ_i π_i² (h_i − μ̂)².

    Two passes over the memberships, with a few vectors of length n in memory.
    """
    pull_n = weights.weight * deviation_n
    pull_k = np.zeros(len(weights.names))
    for rows, q_bk in read_memberships(weights):
        pull_k += q_bk.T @ pull_n[rows]
    a_k = solve_hessian(read_hessian(weights), pull_k)
    a_k -= a_k.mean()
    influence_n, count_n = pull_n.size * pull_n, counts_of(weights)
    for rows, q_bk in read_memberships(weights):
        influence_n[rows] += count_n[rows] * (q_bk @ a_k)
    # aᵀc rather than aᵀHa: where links are weak a is huge, and differences within well linked
    # sources would lose their digits.
    curved = max(float(a_k @ pull_k), 0.0)
    return influence_n, a_k, float(pull_n @ (pull_n / count_n)) + curved / pull_n.size


def log_normalizer_covariance(weights: Weights) -> Floats:
    """Compute the (K, K) covariance of log Ω̂, normalizers relative to the target's (ω ≡ 1).

    Without groups it is the model-based covariance of Kong, McCullagh, Meng, Nicolae & Tan (2003),
    which MBAR writes as Θ = Wᵀ(I − W N Wᵀ)⁺W with the target added as a state without images. In
    terms of H⁻, with r = Σ_i π_i q_i − λ and b = H⁻r,

        n Cov = H⁻ − Λ⁻¹ − b1ᵀ − 1bᵀ + (n Σ_i π_i² + rᵀb) 11ᵀ,

    which needs (K, K) matrices only, and whose one singular direction is known exactly rather than
    found by a tolerance. K = 1 gives Σ_i π_i² − 1/n.

    With groups or design weights it is the sandwich of the influence functions ψ_ik = (H⁻q_i)_k −
    n π_i − bᵀq_i of log Ω̂_k, centred and summed as in `weighted_mean`; this holds K + 1 numbers for
    every group in memory. It is infinite where there is one group altogether, or one group of
    several images in every source.
    """
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        return _covariance_of_fit(weights.estimation)
    share_k, weight_n = weights.solution.share, weights.weight
    target_k = np.zeros(share_k.size)
    for rows, q_bk in read_memberships(weights):
        target_k += q_bk.T @ weight_n[rows]
    inverse_kk = invert_hessian(read_hessian(weights), share_k)
    excess_k = target_k - share_k
    shift_k = inverse_kk @ excess_k
    if weights.unit is not None or weights.design_weight is not None:
        return _clustered_covariance(weights, inverse_kk, shift_k)
    covariance_kk = inverse_kk - shift_k[:, None] - shift_k[None, :]
    covariance_kk += weight_n.size * float(weight_n @ weight_n) + float(excess_k @ shift_k)
    diagonal_k = np.diagonal(covariance_kk) - 1.0 / share_k
    # The differences cancel where ω ≡ 1 is nearly one of the sources; a variance is never negative.
    np.fill_diagonal(covariance_kk, np.maximum(diagonal_k, 0.0))
    return covariance_kk / weight_n.size


def _covariance_of_fit(estimation: Estimation) -> Floats:
    """Compute that of a fitted model; 0 with strata, whose normalizers are 1 by definition."""
    n_sources = len(estimation.fitted.names)
    if estimation.fitted.normalizers_known:
        return np.zeros((n_sources, n_sources))
    return estimated_covariance(estimation.rows)[:n_sources, :n_sources]


def _clustered_covariance(weights: Weights, inverse_kk: Floats, shift_k: Floats) -> Floats:
    """Compute n⁻² Σ_j T_j T_jᵀ/(1 − leverage_j)^{a_j}.

    T_j is the sum over unit j of the centred influence functions of log Ω̂.
    """
    units = find_units(weights)
    if units.cannot_vary:
        return np.full_like(inverse_kk, np.inf)
    share_k, n, n_sources = weights.solution.share, weights.weight.size, shift_k.size
    count_n = counts_of(weights)
    total_mk = np.zeros((units.stratum_m.size, n_sources))
    sum_kk = np.zeros((n_sources, n_sources))
    for rows, q_bk in read_memberships(weights, max_rows=max(1, _DENSE_BLOCK // n_sources)):
        d_b = count_n[rows][:, None]
        influence_bk = (
            d_b * (q_bk @ (inverse_kk - shift_k[:, None])) - n * weights.weight[rows][:, None]
        )
        _add_rows(total_mk, units.unit_n[rows], influence_bk)
        _add_rows(sum_kk, weights.source[rows], influence_bk)
    # Σ_i q_ik ψ_i/n_k, the expectation in source k under the model, in closed form.
    expected_kk = inverse_kk - np.diag(1.0 / share_k) - shift_k[:, None]
    mean_kk = sum_kk / np.bincount(weights.source, weights=count_n)[:, None]
    spread_mk = centre_units(weights, units, total_mk, mean_kk, expected_kk)
    return spread_mk.T @ spread_mk


# Numbers in the largest dense temporary, 16 MB.
_DENSE_BLOCK = 2**21


def _add_rows(total_mk: Floats, code_b: npt.NDArray[Any], block_bk: Floats) -> None:
    """Add every row i of the block to ``total_mk[code_b[i]]``."""
    code_u, position_b = np.unique(code_b, return_inverse=True)
    sum_ub = scipy.sparse.csr_array(
        (np.ones(code_b.size), (position_b, np.arange(code_b.size))),
        shape=(code_u.size, code_b.size),
    )
    total_mk[code_u] += sum_ub @ block_bk
