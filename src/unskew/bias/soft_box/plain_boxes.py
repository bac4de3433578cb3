"""Images and soft boxes: distances, ω, and what the likelihood gains where one edge moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.engine.compilation import pays_to_compile
from unskew.records import Floats, Ints
from unskew.records.arrays import count_pairs


def box_loops(numbers: float) -> Any:
    """Return the module whose `soft_box_masses` and `gains_of_edge` to take for so many numbers."""
    if pays_to_compile(numbers):
        from unskew.bias.soft_box import kernels_boxes

        return kernels_boxes
    from unskew.bias.soft_box import plain_boxes

    return plain_boxes


def own_distances(
    feature_nd: Floats, source_n: Ints, lower_kd: Floats, upper_kd: Floats
) -> tuple[Floats, Floats, Floats]:
    """(D, n) how far an image is below and above its own source's box, and (n,) the sum of all."""
    below_dn, above_dn = np.empty((2, feature_nd.shape[1], source_n.size))
    for d, z_n in enumerate(feature_nd.T):
        np.subtract(lower_kd[:, d].take(source_n), z_n, out=below_dn[d])
        np.subtract(z_n, upper_kd[:, d].take(source_n), out=above_dn[d])
    for beyond_dn in (below_dn, above_dn):
        np.maximum(beyond_dn, 0.0, out=beyond_dn)
    return below_dn, above_dn, below_dn.sum(axis=0) + above_dn.sum(axis=0)


def farthest_images(
    feature_nd: Floats, source_n: Ints, lower_kd: Floats, upper_kd: Floats
) -> tuple[Ints, Floats]:
    """(K,) the image of each source farthest (ℓ1) from its own box, and how far.

    Row 0 and −1 for a source without images.
    """
    _, _, distance_n = own_distances(feature_nd, source_n, lower_kd, upper_kd)
    row_k, farthest_k = np.zeros(lower_kd.shape[0], dtype=np.int64), np.full(len(lower_kd), -1.0)
    np.maximum.at(farthest_k, source_n, distance_n)
    last_first = np.flatnonzero(distance_n == farthest_k[source_n])[::-1]
    row_k[source_n[last_first]] = last_first
    return row_k, farthest_k


def innermost_places(
    feature_nd: Floats, source_n: Ints, lower_kd: Floats, upper_kd: Floats, reach: float
) -> tuple[Floats, Floats]:
    """(K, D) lower and upper: how far in an edge may be, the others held.

    All images of its source must be at most ``reach`` (ℓ1) from the box. Of a lower edge the
    largest place, of an upper one the smallest; infinite for a source without images.
    """
    below_dn, above_dn, distance_n = own_distances(feature_nd, source_n, lower_kd, upper_kd)
    lowest_kd, highest_kd = np.full(lower_kd.shape, np.inf), np.full(lower_kd.shape, -np.inf)
    for d, z_n in enumerate(feature_nd.T):
        np.minimum.at(lowest_kd[:, d], source_n, z_n + reach - (distance_n - below_dn[d]))
        np.maximum.at(highest_kd[:, d], source_n, z_n - reach + (distance_n - above_dn[d]))
    return lowest_kd, highest_kd


def box_distances(feature_nd: Floats, lower_kd: Floats, upper_kd: Floats) -> Floats:
    """(n, K) the ℓ1 distance of each image to each box."""
    distance_kn = np.zeros((lower_kd.shape[0], feature_nd.shape[0]))
    column_dn = np.ascontiguousarray(feature_nd.T)
    for k, d in np.argwhere(np.isfinite(lower_kd)):
        distance_kn[k] += np.maximum(lower_kd[k, d] - column_dn[d], 0.0)
    for k, d in np.argwhere(np.isfinite(upper_kd)):
        distance_kn[k] += np.maximum(column_dn[d] - upper_kd[k, d], 0.0)
    return np.ascontiguousarray(distance_kn.T)


def omega_of_boxes(feature_nd: Floats, lower_kd: Floats, upper_kd: Floats, width: float) -> Floats:
    """(n, K) max(0, 1 − Σ_d dist_d(z_i, box_k)/γ)."""
    omega_nk = 1.0 - box_distances(feature_nd, lower_kd, upper_kd) / width
    return np.maximum(omega_nk, 0.0, out=omega_nk)


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
    distance_nk = box_distances(feature_nd, lower_kd, upper_kd)
    if offset_nk.shape[1]:
        log_nk = u_ck[cell_n] + offset_nk
        factor_nk = np.exp(log_nk - log_nk.max(axis=1, keepdims=True))
    else:
        factor_ck = np.exp(u_ck)
        one = len(u_ck) == 1
        factor_nk = np.broadcast_to(factor_ck, distance_nk.shape) if one else factor_ck[cell_n]
    mass_nk = distance_nk / -width
    mass_nk += 1.0
    np.maximum(mass_nk, 0.0, out=mass_nk)
    mass_nk *= factor_nk
    share_nk = mass_nk / (mass_nk @ np.ones(u_ck.shape[1]) + 1e-300)[:, None]
    slope_ck = count_pairs(cell_n, source_n, u_ck.shape) - _sum_cells(share_nk, cell_n, len(u_ck))
    bend_nk = 1.0 - share_nk
    bend_nk *= share_nk
    return factor_nk, distance_nk, mass_nk, slope_ck, _sum_cells(bend_nk, cell_n, len(u_ck))


def _sum_cells(value_na: Floats, cell_n: Ints, n_cells: int) -> Floats:
    """(C, A) sums of the columns in each cell."""
    if n_cells == 1:
        return np.ones((1, cell_n.size)) @ value_na
    return np.stack([np.bincount(cell_n, column, n_cells) for column in value_na.T], axis=1)


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
    z_n = sign * feature_nd[:, d]
    row_m = np.flatnonzero(z_n > min(sign * at, np.min(sign * place_a)))
    z_m, cell_m, is_own_m = z_n[row_m], cell_n[row_m], source_n[row_m] == k
    rest_m, without_m = _without_edge(row_m, distance_nk, mass_nk, k, z_m - sign * at)
    mass_am = z_m - sign * place_a[:, None]
    np.maximum(mass_am, 0.0, out=mass_am)
    mass_am += without_m
    mass_am /= -width
    mass_am += 1.0
    np.maximum(mass_am, 0.0, out=mass_am)
    mass_am *= factor_nk[row_m, k]
    mass_am = np.concatenate([mass_nk[row_m, k][None], mass_am])
    with np.errstate(divide="ignore"):
        others_am = rest_m / (rest_m + mass_am)
        share_am = np.multiply(mass_am, others_am, out=mass_am)
        share_am /= rest_m
        log_a = np.log(np.where(is_own_m, share_am, others_am)).sum(axis=1)
    bend_am = np.multiply(others_am, share_am, out=others_am)
    slope_ca, curvature_ca = (
        held_ck[:, k, None] + sign_of * (sums_ca - sums_ca[:, :1])
        for held_ck, sign_of, sums_ca in (
            (slope_ck, -1.0, _sum_cells(share_am.T, cell_m, slope_ck.shape[0])),
            (curvature_ck, 1.0, _sum_cells(bend_am.T, cell_m, slope_ck.shape[0])),
        )
    )
    is_bent_ca = curvature_ca > 1e-9
    newton_ca = np.where(is_bent_ca, slope_ca**2 / np.where(is_bent_ca, 2.0 * curvature_ca, 1.0), 0)
    log_a += newton_ca.sum(axis=0)
    return np.asarray(log_a[1:] - log_a[0])


def _without_edge(
    row_m: Any, distance_nk: Floats, mass_nk: Floats, k: int, beyond_m: Floats
) -> tuple[Floats, Floats]:
    """(m,) the masses of the other sources, and the distance to box k without one edge."""
    other_k = (np.arange(mass_nk.shape[1]) != k).astype(np.float64)
    without_m = np.maximum(distance_nk[row_m, k] - np.maximum(beyond_m, 0.0), 0.0)
    return (mass_nk @ other_k)[row_m] + 1e-300, without_m


def spread_of_gain(
    feature_nd: Floats,
    source_n: Ints,
    factor_nk: Floats,
    distance_nk: Floats,
    mass_nk: Floats,
    k: int,
    d: int,
    sign: float,
    at: float,
    place: float,
    width: float,
) -> float:
    """√(n Var) of the images' gains with the edge at another place where all stay inside.

    A gain is the log of the ratio of q_{i,s_i}.
    """
    z_n, now_n = sign * feature_nd[:, d], mass_nk[:, k]
    rest_n, without_n = _without_edge(slice(None), distance_nk, mass_nk, k, z_n - sign * at)
    beyond_n = np.maximum(z_n - sign * place, 0.0)
    then_n = factor_nk[:, k] * np.maximum(1.0 - (without_n + beyond_n) / width, 0.0)
    row_m = np.flatnonzero(then_n != now_n)
    rest_m, now_m, then_m = rest_n[row_m], now_n[row_m], then_n[row_m]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain_m = np.log((rest_m + now_m) / (rest_m + then_m))
        own = source_n[row_m] == k
        gain_m[own] += np.log(then_m[own] / now_m[own])
        return float(np.sqrt(max(gain_m @ gain_m - gain_m.sum() ** 2 / source_n.size, 0.0)))
