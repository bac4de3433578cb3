"""The compiled loop over images behind the likelihood of soft boxes. Importing this loads Numba."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints
from unskew.solve.kernels_compiler import compiled

# Images that lie on the rim of a support count as a little inside it: each would dominate the information.
RIM = 1e-3


@compiled
def sweep_soft_boxes(
    feature_nd: Floats,
    source_n: Ints,
    offset_nk: Floats,
    lower_kd: Floats,
    upper_kd: Floats,
    width: float,
    u_k: Floats,
    slot_kd2: Ints,
    n_free: int,
    order: int,
    stride: int,
    gradient_p: Floats,
    fisher_pp: Floats,
    mass_k: Floats,
    slope_p: Floats,
    slope_width_k: Floats,
) -> float:
    """Add one stratum's images to the sums; returns Σ_i log q_{i,s_i}, −inf if an image lies outside its own source's support.

    Parameters are laid out as θ (``n_free``: the free edges at ``slot_kd2``, then log γ), then u_k. With t = γ − distance, the part of
    θ in log ω has derivative −1/t at a lower edge that the image lies below, 1/t at an upper edge that it lies above, distance/t at log γ.

    ``order`` 0: the value only; 1: also the gradient of Σ log q, and of the masses Σ_i ω_ik; 2: also the Fisher information
    Σ_i [Σ_k q_ik g_ik g_ikᵀ − ḡ_i ḡ_iᵀ], from every ``stride``-th image (it steers the steps, and needs no more). Of F_pr and F_rp only one
    is added to: the information is F + Fᵀ with the diagonal counted once.
    """
    n, n_features = feature_nd.shape
    n_sources = u_k.shape[0]
    has_offset = offset_nk.shape[1] > 0
    slack_k = np.empty(n_sources)
    distance_k = np.empty(n_sources)
    q_k = np.empty(n_sources)
    # The free edges beyond which the image lies, source by source.
    active_km = np.empty((n_sources, n_features), dtype=np.int64)
    sign_km = np.empty((n_sources, n_features))
    n_active_k = np.empty(n_sources, dtype=np.int64)
    touched_p = np.empty(n_sources * (n_features + 1) + 1, dtype=np.int64)
    mean_p = np.empty(n_sources * (n_features + 1) + 1)
    last = n_free - 1  # log γ
    total = 0.0
    for i in range(n):
        own = source_n[i]
        top = -np.inf
        for k in range(n_sources):
            n_active_k[k] = 0
            slack_k[k] = 0.0
            if u_k[k] == -np.inf:
                continue
            distance = 0.0
            for d in range(n_features):
                z = feature_nd[i, d]
                if z < lower_kd[k, d]:
                    distance += lower_kd[k, d] - z
                    if slot_kd2[k, d, 0] >= 0:
                        active_km[k, n_active_k[k]] = slot_kd2[k, d, 0]
                        sign_km[k, n_active_k[k]] = -1.0
                        n_active_k[k] += 1
                elif z > upper_kd[k, d]:
                    distance += z - upper_kd[k, d]
                    if slot_kd2[k, d, 1] >= 0:
                        active_km[k, n_active_k[k]] = slot_kd2[k, d, 1]
                        sign_km[k, n_active_k[k]] = 1.0
                        n_active_k[k] += 1
            slack = 1.0 - distance / width
            distance_k[k] = distance / width
            if slack > 0.0:
                slack_k[k] = slack
                q_k[k] = u_k[k] + (offset_nk[i, k] if has_offset else 0.0)
                top = max(top, q_k[k])
        if slack_k[own] <= 0.0 or q_k[own] == -np.inf:
            return -np.inf
        total += q_k[own] - top + np.log(slack_k[own])
        norm = 0.0
        for k in range(n_sources):
            if slack_k[k] > 0.0:
                q_k[k] = np.exp(q_k[k] - top) * slack_k[k]
                norm += q_k[k]
                mass_k[k] += slack_k[k]
        total -= np.log(norm)
        if order == 0:
            continue
        informs = order == 2 and i % stride == 0
        n_touched = 0
        mean_width = 0.0  # of the derivatives by log γ
        for k in range(n_sources):
            if slack_k[k] <= 0.0:
                continue
            q_k[k] /= norm
            slope = 1.0 / (width * slack_k[k])
            ratio = distance_k[k] / slack_k[k]
            own_less_q = (1.0 if k == own else 0.0) - q_k[k]
            slope_width_k[k] += distance_k[k]
            gradient_p[n_free + k] += own_less_q
            gradient_p[last] += own_less_q * ratio
            for m in range(n_active_k[k]):
                gradient_p[active_km[k, m]] += own_less_q * sign_km[k, m] * slope
                slope_p[active_km[k, m]] += sign_km[k, m] * 1.0 / width
            if not informs:
                continue
            inner = max(slack_k[k], RIM)
            slope = 1.0 / (width * inner)
            ratio = distance_k[k] / inner
            mean_width += q_k[k] * ratio
            fisher_pp[n_free + k, n_free + k] += stride * q_k[k]
            fisher_pp[last, n_free + k] += stride * q_k[k] * ratio
            fisher_pp[last, last] += stride * q_k[k] * ratio * ratio
            touched_p[n_touched] = n_free + k
            mean_p[n_touched] = q_k[k]
            n_touched += 1
            for m in range(n_active_k[k]):
                p = active_km[k, m]
                share = q_k[k] * sign_km[k, m] * slope
                fisher_pp[p, n_free + k] += stride * share
                fisher_pp[p, last] += stride * share * ratio
                for m2 in range(m, n_active_k[k]):
                    fisher_pp[p, active_km[k, m2]] += stride * share * sign_km[k, m2] * slope
                touched_p[n_touched] = p
                mean_p[n_touched] = share
                n_touched += 1
        if not informs:
            continue
        touched_p[n_touched] = last
        mean_p[n_touched] = mean_width
        n_touched += 1
        for a in range(n_touched):
            scaled = stride * mean_p[a]
            for b in range(a, n_touched):
                fisher_pp[touched_p[a], touched_p[b]] -= scaled * mean_p[b]
    return total


@compiled
def gain_of_edges(
    feature_n: Floats,
    other_n: Floats,
    rest_n: Floats,
    factor_n: Floats,
    is_own_n: npt.NDArray[np.bool_],
    cell_n: Ints,
    n_cells: int,
    lower_m: Floats,
    upper_m: Floats,
    width: float,
) -> Floats:
    """Σ_i log q_{i,s_i} (up to a constant) with one source's edges along one feature at each of m places, everything else held.

    With p_i = a_i ω_i/(rest_i + a_i ω_i), where a_i holds e^{u} and the other factors of this source, ``rest`` the other sources and
    ``other`` the distance along the other features. The source's own u moves by one Newton step in each cell:
    gain + (Σ_i 1{own} − p_i)²/(2 Σ_i p_i (1 − p_i)).
    """
    value_m = np.empty(lower_m.shape[0])
    for m in range(lower_m.shape[0]):
        slope_c = np.zeros(n_cells)
        curvature_c = np.zeros(n_cells)
        value = 0.0
        for i in range(feature_n.shape[0]):
            distance = other_n[i] + max(lower_m[m] - feature_n[i], 0.0) + max(feature_n[i] - upper_m[m], 0.0)
            inside = factor_n[i] * max(0.0, 1.0 - distance / width)
            if is_own_n[i]:
                if inside <= 0.0:
                    value = -np.inf
                    break
                value += np.log(inside)
                slope_c[cell_n[i]] += 1.0
            value -= np.log(rest_n[i] + inside)
            share = inside / (rest_n[i] + inside)
            slope_c[cell_n[i]] -= share
            curvature_c[cell_n[i]] += share * (1.0 - share)
        for c in range(n_cells):
            if curvature_c[c] > 1e-9:
                value += slope_c[c] * slope_c[c] / (2.0 * curvature_c[c])
        value_m[m] = value
    return value_m
