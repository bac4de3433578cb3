"""Compiled loops over images behind soft boxes: masses, and the gain of one edge.

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
    """Compute as `plain_boxes.soft_box_masses`."""
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
    """Compute as `plain_boxes.gains_of_edge`."""
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
