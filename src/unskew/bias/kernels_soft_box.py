"""Compiled loops over images behind soft boxes: ω, distances, and what one edge more or less gains. Importing this loads Numba."""

from __future__ import annotations

import numpy as np

from unskew.records import Floats, Ints
from unskew.solve.kernels_compiler import compiled

# A sum of logarithms is the logarithm of a product, taken where that becomes so small: one logarithm for many images.
SMALL_PRODUCT = 1e-150


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
def holds_images(feature_nd: Floats, source_n: Ints, k: int, lower_d: Floats, upper_d: Floats, width: float) -> bool:
    """Are all images of source k less than the width away (ℓ1) from this box?"""
    for i in range(feature_nd.shape[0]):
        if source_n[i] == k:
            distance = 0.0
            for d in range(feature_nd.shape[1]):
                distance += max(lower_d[d] - feature_nd[i, d], 0.0) + max(feature_nd[i, d] - upper_d[d], 0.0)
            if distance >= width:
                return False
    return True


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
    for i in range(n):
        c = cell_n[i]
        top = -np.inf
        if has_offset:
            for k in range(n_sources):
                top = max(top, u_ck[c, k] + offset_nk[i, k])
        for k in range(n_sources):
            factor = np.exp(u_ck[c, k] + (offset_nk[i, k] - top if has_offset else 0.0))
            distance = 0.0
            for d in range(n_features):
                distance += max(lower_kd[k, d] - feature_nd[i, d], 0.0) + max(feature_nd[i, d] - upper_kd[k, d], 0.0)
            factor_nk[i, k] = factor
            distance_nk[i, k] = distance
            mass_nk[i, k] = factor * max(0.0, 1.0 - distance / width)
    return factor_nk, distance_nk, mass_nk


@compiled
def value_of_edges(
    feature_nd: Floats,
    distance_nk: Floats,
    mass_nk: Floats,
    factor_nk: Floats,
    source_n: Ints,
    cell_n: Ints,
    n_cells: int,
    k: int,
    d: int,
    sign: float,
    place_a: Floats,
    width: float,
) -> Floats:
    """Σ_i log q_{i,s_i}, up to a constant, with one edge of source k along feature d at each of these places; at the first it is now.

    Everything else is held, but for u_k, which makes one Newton step in each cell: with p_i the membership of k it adds
    (Σ_i 1{s_i = k} − p_i)²/(2 Σ_i p_i (1 − p_i)).
    """
    n, n_sources = mass_nk.shape
    value_a, product_a = np.zeros(place_a.shape[0]), np.ones(place_a.shape[0])
    slope_ca, curvature_ca = np.zeros((n_cells, place_a.shape[0])), np.zeros((n_cells, place_a.shape[0]))
    for i in range(n):
        rest = 1e-300
        for other in range(n_sources):
            rest += mass_nk[i, other] if other != k else 0.0
        z, c, is_own, factor = feature_nd[i, d], cell_n[i], source_n[i] == k, factor_nk[i, k]
        without = max(distance_nk[i, k] - max(sign * (z - place_a[0]), 0.0), 0.0)
        for a in range(place_a.shape[0]):
            mass = factor * max(0.0, 1.0 - (without + max(sign * (z - place_a[a]), 0.0)) / width)
            per_sum = 1.0 / (rest + mass)
            share = mass * per_sum
            slope_ca[c, a] += (1.0 if is_own else 0.0) - share
            curvature_ca[c, a] += share * rest * per_sum
            value_a[a], product_a[a] = add_log(value_a[a], product_a[a], share if is_own else rest * per_sum)
    for a in range(place_a.shape[0]):
        value_a[a] += np.log(product_a[a])
        for c in range(n_cells):
            if curvature_ca[c, a] > 1e-9:
                value_a[a] += slope_ca[c, a] * slope_ca[c, a] / (2.0 * curvature_ca[c, a])
    return value_a


@compiled
def spread_of_gain(
    feature_nd: Floats,
    distance_nk: Floats,
    mass_nk: Floats,
    factor_nk: Floats,
    source_n: Ints,
    k: int,
    d: int,
    sign: float,
    at: float,
    place: float,
    width: float,
) -> float:
    """√(n Var) of the images' gains, log of the ratio of q_{i,s_i}, with the edge at another place where all stay inside."""
    n, n_sources = mass_nk.shape
    total, square = 0.0, 0.0
    for i in range(n):
        z, now = feature_nd[i, d], mass_nk[i, k]
        without = max(distance_nk[i, k] - max(sign * (z - at), 0.0), 0.0)
        then = factor_nk[i, k] * max(0.0, 1.0 - (without + max(sign * (z - place), 0.0)) / width)
        if then != now:
            rest = 1e-300
            for other in range(n_sources):
                rest += mass_nk[i, other] if other != k else 0.0
            gain = np.log((rest + now) / (rest + then) * (then / now if source_n[i] == k else 1.0))
            total += gain
            square += gain * gain
    spread: float = np.sqrt(max(square - total * total / n, 0.0))
    return spread
