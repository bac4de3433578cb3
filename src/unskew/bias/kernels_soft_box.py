"""The compiled loop over images behind the likelihood of soft boxes. Importing this loads Numba."""

from __future__ import annotations

import numpy as np

from unskew.records import Floats, Ints
from unskew.solve.kernels_compiler import compiled

# A sum of logarithms is the logarithm of a product, taken where that becomes so small: one logarithm for many images.
SMALL_PRODUCT = 1e-150
# Images that lie on the rim of a support count as a little inside it: each would dominate the information.
RIM = 1e-3


@compiled
def add_log(total: float, product: float, factor: float) -> tuple[float, float]:
    """(total, product) with log ``factor`` added to total + log product."""
    if factor < SMALL_PRODUCT:
        return total + np.log(factor), product
    product *= factor
    if product < SMALL_PRODUCT:
        return total + np.log(product), 1.0
    return total, product


@compiled
def list_edges(lower_kd: Floats, upper_kd: Floats, slot_kd2: Ints, n_free: int) -> tuple[Ints, Ints, Floats, Floats]:
    """Source, feature, sign (−1 for a lower edge, 1 for an upper one) and place of every finite edge, in the order of θ."""
    source_e = np.empty(n_free - 1, dtype=np.int64)
    feature_e = np.empty(n_free - 1, dtype=np.int64)
    sign_e = np.empty(n_free - 1)
    at_e = np.empty(n_free - 1)
    for k in range(lower_kd.shape[0]):
        for d in range(lower_kd.shape[1]):
            for side in range(2):
                e = slot_kd2[k, d, side]
                if e >= 0:
                    source_e[e] = k
                    feature_e[e] = d
                    sign_e[e] = 2.0 * side - 1.0
                    at_e[e] = upper_kd[k, d] if side == 1 else lower_kd[k, d]
    return source_e, feature_e, sign_e, at_e


@compiled
def add_information(
    source_e: Ints,
    sign_e: Floats,
    gap_e: Floats,
    per_width: float,
    slack_k: Floats,
    q_k: Floats,
    weight: float,
    touched_p: Ints,
    mean_p: Floats,
    fisher_pp: Floats,
) -> None:
    """Add ``weight`` times one image's Σ_k q_k g_k g_kᵀ − ḡ ḡᵀ, g_k the derivatives of log(e^{u_k} ω_k) by θ and u.

    ``gap_e``: how far the image lies beyond each edge; ``touched_p`` and ``mean_p`` are room to work in.
    """
    last = source_e.shape[0]  # log γ
    n_free = last + 1
    n_touched = 0
    mean_width = 0.0  # of the derivatives by log γ
    for k in range(slack_k.shape[0]):
        if slack_k[k] <= 0.0:
            continue
        ratio = (1.0 - slack_k[k]) / max(slack_k[k], RIM)
        mean_width += q_k[k] * ratio
        fisher_pp[n_free + k, n_free + k] += weight * q_k[k]
        fisher_pp[last, n_free + k] += weight * q_k[k] * ratio
        fisher_pp[last, last] += weight * q_k[k] * ratio * ratio
        touched_p[n_touched] = n_free + k
        mean_p[n_touched] = q_k[k]
        n_touched += 1
    for e in range(source_e.shape[0]):
        k = source_e[e]
        if gap_e[e] <= 0.0 or slack_k[k] <= 0.0:
            continue
        inner = max(slack_k[k], RIM)
        slope = per_width / inner
        share = q_k[k] * sign_e[e] * slope
        fisher_pp[e, n_free + k] += weight * share
        fisher_pp[e, last] += weight * share * (1.0 - slack_k[k]) / inner
        for f in range(e, source_e.shape[0]):
            if source_e[f] == k and gap_e[f] > 0.0:
                fisher_pp[e, f] += weight * share * sign_e[f] * slope
        touched_p[n_touched] = e
        mean_p[n_touched] = share
        n_touched += 1
    touched_p[n_touched] = last
    mean_p[n_touched] = mean_width
    n_touched += 1
    for a in range(n_touched):
        scaled = weight * mean_p[a]
        for b in range(a, n_touched):
            fisher_pp[touched_p[a], touched_p[b]] -= scaled * mean_p[b]


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
    n, n_sources, n_edges = feature_nd.shape[0], u_k.shape[0], n_free - 1
    has_offset = offset_nk.shape[1] > 0
    source_e, feature_e, sign_e, at_e = list_edges(lower_kd, upper_kd, slot_kd2, n_free)
    gap_e = np.empty(n_edges)
    gradient_e = np.zeros(n_edges)
    beyond_e = np.zeros(n_edges)  # images in the support and beyond the edge
    slack_k = np.empty(n_sources)
    per_slack_k = np.empty(n_sources)
    q_k = np.zeros(n_sources)
    touched_p, mean_p = np.empty(n_free + n_sources, dtype=np.int64), np.empty(n_free + n_sources)
    factor_k = np.exp(u_k - u_k.max())  # without offset the same for all images
    per_width = 1.0 / width
    gradient_width = 0.0
    total = 0.0
    product = 1.0
    for i in range(n):
        own = source_n[i]
        for k in range(n_sources):
            slack_k[k] = 1.0
        for e in range(n_edges):
            gap = sign_e[e] * (feature_nd[i, feature_e[e]] - at_e[e])
            gap_e[e] = gap
            slack_k[source_e[e]] -= per_width * gap if gap > 0.0 else 0.0
        top = -np.inf
        for k in range(n_sources):
            slack_k[k] = slack_k[k] if slack_k[k] > 0.0 and u_k[k] > -np.inf else 0.0
            if has_offset and slack_k[k] > 0.0:
                q_k[k] = u_k[k] + offset_nk[i, k]
                top = max(top, q_k[k])
        if slack_k[own] <= 0.0 or (has_offset and q_k[own] == -np.inf):
            return -np.inf
        norm = 0.0
        for k in range(n_sources):
            if has_offset:
                q_k[k] = np.exp(q_k[k] - top) * slack_k[k] if slack_k[k] > 0.0 else 0.0
            else:
                q_k[k] = factor_k[k] * slack_k[k]
            norm += q_k[k]
            mass_k[k] += slack_k[k]
        per_norm = 1.0 / norm
        total, product = add_log(total, product, q_k[own] * per_norm)
        if order == 0:
            continue
        for k in range(n_sources):
            q_k[k] *= per_norm
            own_less_q = (1.0 if k == own else 0.0) - q_k[k]
            gradient_p[n_free + k] += own_less_q
            is_in = slack_k[k] > 0.0
            per_slack_k[k] = own_less_q / slack_k[k] if is_in else 0.0
            slope_width_k[k] += 1.0 - slack_k[k] if is_in else 0.0
            gradient_width += (1.0 - slack_k[k]) * per_slack_k[k]
        for e in range(n_edges):
            is_beyond = gap_e[e] > 0.0
            gradient_e[e] += per_slack_k[source_e[e]] if is_beyond else 0.0
            beyond_e[e] += 1.0 if is_beyond and slack_k[source_e[e]] > 0.0 else 0.0
        if order == 2 and i % stride == 0:
            add_information(source_e, sign_e, gap_e, per_width, slack_k, q_k, stride, touched_p, mean_p, fisher_pp)
    for e in range(n_edges):
        gradient_p[e] += gradient_e[e] * sign_e[e] * per_width
        slope_p[e] += beyond_e[e] * sign_e[e] * per_width
    gradient_p[n_edges] += gradient_width
    value: float = total + np.log(product)
    return value


@compiled
def farthest_images(feature_nd: Floats, source_n: Ints, lower_kd: Floats, upper_kd: Floats) -> tuple[Ints, Floats]:
    """(K,) the image of each source that lies farthest (ℓ1) from its own box, and how far; row 0 and −1 for a source without images."""
    row_k = np.zeros(lower_kd.shape[0], dtype=np.int64)
    farthest_k = np.full(lower_kd.shape[0], -1.0)
    for i in range(feature_nd.shape[0]):
        k = source_n[i]
        distance = 0.0
        for d in range(feature_nd.shape[1]):
            distance += max(lower_kd[k, d] - feature_nd[i, d], 0.0) + max(feature_nd[i, d] - upper_kd[k, d], 0.0)
        if distance > farthest_k[k]:
            farthest_k[k] = distance
            row_k[k] = i
    return row_k, farthest_k


@compiled
def log_omega_of_boxes(feature_nd: Floats, lower_kd: Floats, upper_kd: Floats, width: float) -> Floats:
    """(n, K) log max(0, 1 − Σ_d dist_d(z_i, box_k)/γ)."""
    n, n_features = feature_nd.shape
    log_nk = np.zeros((n, lower_kd.shape[0]))
    for i in range(n):
        for k in range(lower_kd.shape[0]):
            distance = 0.0
            for d in range(n_features):
                z = feature_nd[i, d]
                distance += max(lower_kd[k, d] - z, 0.0) + max(z - upper_kd[k, d], 0.0)
            if distance > 0.0:
                slack = 1.0 - distance / width
                log_nk[i, k] = np.log(slack) if slack > 0.0 else -np.inf
    return log_nk


@compiled
def soft_box_masses(
    feature_nd: Floats, offset_nk: Floats, cell_n: Ints, lower_kd: Floats, upper_kd: Floats, width: float, u_ck: Floats
) -> tuple[Floats, Floats, Floats]:
    """Each (n, K): e^{u} times the other factors, rows scaled; the ℓ1 distance to each box; the first times ω."""
    n, n_features = feature_nd.shape
    n_sources = u_ck.shape[1]
    has_offset = offset_nk.shape[1] > 0
    factor_nk = np.empty((n, n_sources))
    distance_nk = np.empty((n, n_sources))
    mass_nk = np.empty((n, n_sources))
    scaled_ck = np.empty(u_ck.shape)
    for c in range(u_ck.shape[0]):
        scaled_ck[c] = np.exp(u_ck[c] - u_ck[c].max())
    for i in range(n):
        c = cell_n[i]
        top = -np.inf
        if has_offset:
            for k in range(n_sources):
                top = max(top, u_ck[c, k] + offset_nk[i, k])
        for k in range(n_sources):
            factor = np.exp(u_ck[c, k] + offset_nk[i, k] - top) if has_offset else scaled_ck[c, k]
            distance = 0.0
            for d in range(n_features):
                distance += max(lower_kd[k, d] - feature_nd[i, d], 0.0) + max(feature_nd[i, d] - upper_kd[k, d], 0.0)
            factor_nk[i, k] = factor
            distance_nk[i, k] = distance
            mass_nk[i, k] = factor * max(0.0, 1.0 - distance / width)
    return factor_nk, distance_nk, mass_nk


@compiled
def mass_of_others(mass_nk: Floats, own: int) -> Floats:
    """(n,) Σ_{k ≠ own}: summed, not subtracted, so that nothing cancels."""
    rest_n = np.zeros(mass_nk.shape[0])
    for i in range(mass_nk.shape[0]):
        for k in range(mass_nk.shape[1]):
            if k != own:
                rest_n[i] += mass_nk[i, k]
    return rest_n


@compiled
def gain_of_edges(
    feature_n: Floats,
    distance_n: Floats,
    rest_n: Floats,
    factor_n: Floats,
    source_n: Ints,
    own: int,
    cell_n: Ints,
    n_cells: int,
    low: float,
    high: float,
    lower_m: Floats,
    upper_m: Floats,
    width: float,
    stride: int,
) -> Floats:
    """Σ_i log q_{i,s_i} (up to a constant) with one source's edges along one feature at each of m places, everything else held.

    With p_i = a_i ω_i/(rest_i + a_i ω_i), where a_i holds e^{u} and the other factors of this source, whose edges are ``low`` and ``high``
    now, ``distance`` away from the image in all, and ``rest`` the other sources. Its u moves by one Newton step in each cell:
    gain + (Σ_i 1{own} − p_i)²/(2 Σ_i p_i (1 − p_i)). Of every ``stride``-th image.
    """
    value_m = np.empty(lower_m.shape[0])
    per_width = 1.0 / width
    for m in range(lower_m.shape[0]):
        slope_c = np.zeros(n_cells)
        curvature_c = np.zeros(n_cells)
        value = 0.0
        product = 1.0
        for i in range(0, feature_n.shape[0], stride):
            z = feature_n[i]
            other = max(distance_n[i] - max(low - z, 0.0) - max(z - high, 0.0), 0.0)
            rest = max(rest_n[i], 1e-300)
            distance = other + max(lower_m[m] - z, 0.0) + max(z - upper_m[m], 0.0)
            inside = factor_n[i] * max(0.0, 1.0 - distance * per_width)
            per_sum = 1.0 / (rest + inside)
            share = inside * per_sum
            own_share = share
            c = cell_n[i]
            if source_n[i] == own:
                if inside <= 0.0:
                    value = -np.inf
                    break
                slope_c[c] += 1.0
            else:
                own_share = rest * per_sum
            slope_c[c] -= share
            curvature_c[c] += share * (1.0 - share)
            value, product = add_log(value, product, own_share)
        value += np.log(product)
        for c in range(n_cells):
            if curvature_c[c] > 1e-9:
                value += slope_c[c] * slope_c[c] / (2.0 * curvature_c[c])
        value_m[m] = value
    return value_m
