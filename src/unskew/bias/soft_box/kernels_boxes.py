"""Compiled loops over images behind soft boxes: ω, distances, and the gain of one edge.

Importing this loads Numba.
"""

from __future__ import annotations

import numpy as np

from unskew.engine.compilation import compiled
from unskew.records import Floats, Ints

# A sum of logarithms is the logarithm of a product, taken where that becomes so small: one
# logarithm for many images.
SMALL_PRODUCT = 1e-150


@compiled
def add_log(total: float, product: float, factor: float) -> tuple[float, float]:
    """Add log ``factor`` to total + log product, and return both."""
    if factor < SMALL_PRODUCT:
        return total + np.log(factor), product
    product *= factor
    if product < SMALL_PRODUCT:
        return total + np.log(product), 1.0
    return total, product


@compiled
def farthest_images(
    feature_nd: Floats, source_n: Ints, lower_kd: Floats, upper_kd: Floats
) -> tuple[Ints, Floats]:
    """(K,) the image of each source farthest (ℓ1) from its own box, and how far.

    Row 0 and −1 for a source without images.
    """
    row_k = np.zeros(lower_kd.shape[0], dtype=np.int64)
    farthest_k = np.full(lower_kd.shape[0], -1.0)
    for i in range(feature_nd.shape[0]):
        k = source_n[i]
        distance = 0.0
        for d in range(feature_nd.shape[1]):
            distance += max(lower_kd[k, d] - feature_nd[i, d], 0.0) + max(
                feature_nd[i, d] - upper_kd[k, d], 0.0
            )
        if distance > farthest_k[k]:
            farthest_k[k] = distance
            row_k[k] = i
    return row_k, farthest_k


@compiled
def innermost_places(
    feature_nd: Floats, source_n: Ints, lower_kd: Floats, upper_kd: Floats, reach: float
) -> tuple[Floats, Floats]:
    """(K, D) lower and upper: how far in an edge may be, the others held.

    All images of its source must be at most ``reach`` (ℓ1) from the box.

    Of a lower edge the largest place, of an upper one the smallest; infinite for a source without
    images.
    """
    n_features = feature_nd.shape[1]
    lowest_kd, highest_kd = np.full(lower_kd.shape, np.inf), np.full(lower_kd.shape, -np.inf)
    for i in range(feature_nd.shape[0]):
        k = source_n[i]
        distance = 0.0
        for d in range(n_features):
            distance += max(lower_kd[k, d] - feature_nd[i, d], 0.0) + max(
                feature_nd[i, d] - upper_kd[k, d], 0.0
            )
        for d in range(n_features):
            z = feature_nd[i, d]
            below, above = max(lower_kd[k, d] - z, 0.0), max(z - upper_kd[k, d], 0.0)
            lowest_kd[k, d] = min(lowest_kd[k, d], z + reach - (distance - below))
            highest_kd[k, d] = max(highest_kd[k, d], z - reach + (distance - above))
    return lowest_kd, highest_kd


@compiled
def omega_of_boxes(feature_nd: Floats, lower_kd: Floats, upper_kd: Floats, width: float) -> Floats:
    """(n, K) max(0, 1 − Σ_d dist_d(z_i, box_k)/γ)."""
    n, n_features = feature_nd.shape
    omega_nk = np.empty((n, lower_kd.shape[0]))
    for i in range(n):
        for k in range(lower_kd.shape[0]):
            distance = 0.0
            for d in range(n_features):
                z = feature_nd[i, d]
                distance += max(lower_kd[k, d] - z, 0.0) + max(z - upper_kd[k, d], 0.0)
            omega_nk[i, k] = max(1.0 - distance / width, 0.0)
    return omega_nk


@compiled
def soft_box_masses(
    feature_nd: Floats,
    source_n: Ints,
    offset_nk: Floats,
    cell_n: Ints,
    lower_kd: Floats,
    upper_kd: Floats,
    width: float,
    u_ck: Floats,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(n, K) three times: e^{u} times the other factors, the ℓ1 distance to each box, masses.

    Rows of the first are scaled; masses are the first times ω.

    Then each (C, K): how the log-likelihood climbs and bends with u, Σ_i 1{s_i = k} − q_ik and Σ_i
    q_ik (1 − q_ik).
    """
    n, n_features = feature_nd.shape
    n_sources = u_ck.shape[1]
    has_offset = offset_nk.shape[1] > 0
    factor_nk = np.empty((n, n_sources))
    distance_nk = np.empty((n, n_sources))
    mass_nk = np.empty((n, n_sources))
    slope_ck, curvature_ck = np.zeros(u_ck.shape), np.zeros(u_ck.shape)
    plain_ck = np.exp(u_ck)
    for i in range(n):
        c = cell_n[i]
        top = -np.inf
        if has_offset:
            for k in range(n_sources):
                top = max(top, u_ck[c, k] + offset_nk[i, k])
        total = 1e-300
        for k in range(n_sources):
            factor = np.exp(u_ck[c, k] + offset_nk[i, k] - top) if has_offset else plain_ck[c, k]
            distance = 0.0
            for d in range(n_features):
                distance += max(lower_kd[k, d] - feature_nd[i, d], 0.0) + max(
                    feature_nd[i, d] - upper_kd[k, d], 0.0
                )
            mass = factor * max(0.0, 1.0 - distance / width)
            factor_nk[i, k] = factor
            distance_nk[i, k] = distance
            mass_nk[i, k] = mass
            total += mass
        slope_ck[c, source_n[i]] += 1.0
        for k in range(n_sources):
            share = mass_nk[i, k] / total
            slope_ck[c, k] -= share
            curvature_ck[c, k] += share * (1.0 - share)
    return factor_nk, distance_nk, mass_nk, slope_ck, curvature_ck


@compiled
def newton_gain(slope: float, curvature: float) -> float:
    """Predict the gain of one Newton step."""
    return slope * slope / (2.0 * curvature) if curvature > 1e-9 else 0.0


@compiled
def gains_of_edge(
    feature_nd: Floats,
    source_n: Ints,
    cell_n: Ints,
    factor_nk: Floats,
    distance_nk: Floats,
    mass_nk: Floats,
    slope_ck: Floats,
    curvature_ck: Floats,
    k: int,
    d: int,
    sign: float,
    at: float,
    place_a: Floats,
    width: float,
) -> Floats:
    """Compute what Σ_i log q_{i,s_i} gains with an edge at each of these places.

    The edge is that of source k along feature d.

    Everything else is held, but for u_k, which makes one Newton step in each cell, here and there:
    with p_i the membership of k it adds (Σ_i 1{s_i = k} − p_i)²/(2 Σ_i p_i (1 − p_i)). Only images
    beyond the innermost of the places are looked at: nothing changes for others.
    """
    n_places, n_cells, n_sources = place_a.shape[0], slope_ck.shape[0], mass_nk.shape[1]
    now, product_now = 0.0, 1.0
    then_a, product_a = np.zeros(n_places), np.ones(n_places)
    slope_ca, curvature_ca = np.zeros((n_cells, n_places)), np.zeros((n_cells, n_places))
    innermost = sign * at
    for a in range(n_places):
        innermost = min(innermost, sign * place_a[a])
    for i in range(feature_nd.shape[0]):
        z = sign * feature_nd[i, d]
        if z <= innermost:
            continue
        rest = 1e-300
        for other in range(n_sources):
            rest += mass_nk[i, other] if other != k else 0.0
        c, is_own, factor = cell_n[i], source_n[i] == k, factor_nk[i, k]
        without = max(distance_nk[i, k] - max(z - sign * at, 0.0), 0.0)
        per_sum = 1.0 / (rest + mass_nk[i, k])
        share_now = mass_nk[i, k] * per_sum
        bend_now = share_now * rest * per_sum
        now, product_now = add_log(now, product_now, share_now if is_own else rest * per_sum)
        for a in range(n_places):
            mass = factor * max(0.0, 1.0 - (without + max(z - sign * place_a[a], 0.0)) / width)
            per_sum = 1.0 / (rest + mass)
            share = mass * per_sum
            slope_ca[c, a] += share_now - share
            curvature_ca[c, a] += share * rest * per_sum - bend_now
            then_a[a], product_a[a] = add_log(
                then_a[a], product_a[a], share if is_own else rest * per_sum
            )
    for a in range(n_places):
        then_a[a] += np.log(product_a[a]) - (now + np.log(product_now))
        for c in range(n_cells):
            then_a[a] += newton_gain(
                slope_ck[c, k] + slope_ca[c, a], curvature_ck[c, k] + curvature_ca[c, a]
            )
            then_a[a] -= newton_gain(slope_ck[c, k], curvature_ck[c, k])
    return then_a
