"""The compiled likelihood of source labels under soft boxes, with its gradient.

Importing this loads Numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unskew.bias.soft_box.kernels_boxes import add_log
from unskew.engine.compilation import TILE_ROWS, compiled
from unskew.records import Bools, Floats, Ints


class Edges(NamedTuple):
    """(E,) source, feature, sign (−1 for a lower edge, 1 for an upper one) and place of edges."""

    source: Ints
    feature: Ints
    sign: Floats
    at: Floats


class Tile(NamedTuple):
    """Room for what is computed of some images.

    Features (D, T), how far each is beyond each edge (E, T), slack and factor e^{u_k} a_ik of each
    source (K, T), and 1/Σ_k e^{u_k} a_ik ω_ik (T,).
    """

    z_dt: Floats
    gap_et: Floats
    slack_kt: Floats
    factor_kt: Floats
    per_norm_t: Floats


@compiled
def new_tile(n_features: int, n_edges: int, n_sources: int) -> Tile:
    return Tile(
        np.empty((n_features, TILE_ROWS)),
        np.empty((n_edges, TILE_ROWS)),
        np.empty((n_sources, TILE_ROWS)),
        np.empty((n_sources, TILE_ROWS)),
        np.empty(TILE_ROWS),
    )


@compiled
def list_edges(lower_kd: Floats, upper_kd: Floats) -> Edges:
    """List every finite edge, lower ones first, by source."""
    most = lower_kd.size + upper_kd.size
    source_e, feature_e = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    sign_e, at_e = np.empty(most), np.empty(most)
    n_edges = 0
    for side in range(2):
        edge_kd = upper_kd if side == 1 else lower_kd
        for k in range(edge_kd.shape[0]):
            for d in range(edge_kd.shape[1]):
                if np.isfinite(edge_kd[k, d]):
                    source_e[n_edges], feature_e[n_edges] = k, d
                    sign_e[n_edges], at_e[n_edges] = 2.0 * side - 1.0, edge_kd[k, d]
                    n_edges += 1
    return Edges(source_e[:n_edges], feature_e[:n_edges], sign_e[:n_edges], at_e[:n_edges])


@compiled
def measure_tile(tile: Tile, n_tile: int, edges: Edges, per_width: float) -> None:
    """Measure how far each image is beyond each edge (0: not), and the slack of each source.

    The slack is 1 − distance/γ, which is ω where it is positive.
    """
    for k in range(tile.slack_kt.shape[0]):
        tile.slack_kt[k] = 1.0
    for e in range(edges.source.shape[0]):
        sign, at = edges.sign[e], edges.at[e]
        z_t, gap_t = tile.z_dt[edges.feature[e]], tile.gap_et[e]
        slack_t = tile.slack_kt[edges.source[e]]
        for t in range(n_tile):
            gap = max(sign * (z_t[t] - at), 0.0)
            gap_t[t] = gap
            slack_t[t] -= per_width * gap


@compiled
def weigh_tile(u_k: Floats, offset_tk: Floats, tile: Tile) -> None:
    """Compute e^{u_k} a_ik of an image in the supports, scaled by the largest; 0 outside."""
    slack_kt, factor_kt = tile.slack_kt, tile.factor_kt
    for t in range(offset_tk.shape[0]):
        top = -np.inf
        for k in range(u_k.shape[0]):
            top = max(top, u_k[k] + offset_tk[t, k]) if slack_kt[k, t] > 0.0 else top
        for k in range(u_k.shape[0]):
            factor_kt[k, t] = (
                np.exp(u_k[k] + offset_tk[t, k] - top)
                if slack_kt[k, t] > 0.0 and top > -np.inf
                else 0.0
            )


@compiled
def norm_tile(u_k: Floats, n_tile: int, tile: Tile, mass_k: Floats) -> None:
    """Turn slack into ω, compute 1/Σ_k e^{u_k} a_ik ω_ik, and add Σ_i ω_ik to the masses."""
    per_norm_t = tile.per_norm_t
    per_norm_t[:] = 0.0
    for k in range(u_k.shape[0]):
        slack_t, factor_t = tile.slack_kt[k], tile.factor_kt[k]
        if u_k[k] == -np.inf:
            slack_t[:] = 0.0
        mass = 0.0
        for t in range(n_tile):
            slack = max(slack_t[t], 0.0)
            slack_t[t] = slack
            per_norm_t[t] += factor_t[t] * slack
            mass += slack
        mass_k[k] += mass
    for t in range(n_tile):
        per_norm_t[t] = 1.0 / per_norm_t[t]


@compiled
def fill_tile(
    feature_nd: Floats,
    offset_nk: Floats,
    start: int,
    n_tile: int,
    edges: Edges,
    per_width: float,
    u_k: Floats,
    tile: Tile,
    mass_k: Floats,
) -> None:
    """Fill gaps, ω, factors and norms of the images from ``start`` on.

    The factors are e^{u_k}, which stay where there is no offset.
    """
    for d in range(feature_nd.shape[1]):
        for t in range(n_tile):
            tile.z_dt[d, t] = feature_nd[start + t, d]
    measure_tile(tile, n_tile, edges, per_width)
    if offset_nk.shape[1] > 0:
        weigh_tile(u_k, offset_nk[start : start + n_tile], tile)
    norm_tile(u_k, n_tile, tile, mass_k)


@compiled
def add_gradient(
    source_t: Ints,
    edges: Edges,
    per_width: float,
    tile: Tile,
    rim_prior: float,
    pull_kt: Floats,
    gradient_p: Floats,
    slope_p: Floats,
    slope_width_k: Floats,
) -> None:
    """Add the derivatives of a tile's Σ_i log q_{i,s_i} − ρ/ω_{i,s_i} and of its masses.

    The first by θ and u, those of the masses Σ_i ω_ik by the edges and by log γ.

    ``pull_kt`` is room for minus the first's by ω_ik, (q_ik − 1{k = s_i} (1 + ρ/ω_ik))/ω_ik.
    """
    source_e, slack_kt, per_norm_t = edges.source, tile.slack_kt, tile.per_norm_t
    n_tile, n_edges = source_t.shape[0], source_e.shape[0]
    n_free = n_edges + 1
    for k in range(slack_kt.shape[0]):
        slack_t, factor_t, pull_t = slack_kt[k], tile.factor_kt[k], pull_kt[k]
        expected = 0.0
        beyond = 0.0
        for t in range(n_tile):
            pull_t[t] = factor_t[t] * per_norm_t[t] if slack_t[t] > 0.0 else 0.0
            expected += pull_t[t] * slack_t[t]
            beyond += 1.0 - slack_t[t] if slack_t[t] > 0.0 else 0.0
        gradient_p[n_free + k] -= expected
        slope_width_k[k] += beyond
    for t in range(n_tile):
        own = source_t[t]
        gradient_p[n_free + own] += 1.0
        per_slack = 1.0 / slack_kt[own, t]
        pull_kt[own, t] -= per_slack * (1.0 + rim_prior * per_slack)
    for k in range(slack_kt.shape[0]):
        slack_t, pull_t = slack_kt[k], pull_kt[k]
        pulled = 0.0
        for t in range(n_tile):
            pulled += (1.0 - slack_t[t]) * pull_t[t]
        gradient_p[n_edges] -= pulled
    for e in range(n_edges):
        gap_t, slack_t, pull_t = tile.gap_et[e], slack_kt[source_e[e]], pull_kt[source_e[e]]
        pulled = 0.0
        beyond = 0.0
        for t in range(n_tile):
            pulled += pull_t[t] if gap_t[t] > 0.0 else 0.0
            beyond += 1.0 if gap_t[t] > 0.0 and slack_t[t] > 0.0 else 0.0
        gradient_p[e] -= pulled * edges.sign[e] * per_width
        slope_p[e] += beyond * edges.sign[e] * per_width


@compiled
def sweep_cell(
    feature_nd: Floats,
    source_n: Ints,
    offset_nk: Floats,
    edges: Edges,
    width: float,
    u_k: Floats,
    rim_prior: float,
    with_gradient: bool,
    gradient_p: Floats,
    mass_k: Floats,
    slope_p: Floats,
    slope_width_k: Floats,
) -> tuple[float, float]:
    """Add one cell's images to the sums, a tile at a time.

    Returns Σ_i log q_{i,s_i}, −inf if an image is outside its own source's support, and Σ_i
    1/ω_{i,s_i}.

    Parameters are laid out as θ (edges, then log γ), then u_k.
    """
    n, n_sources = feature_nd.shape[0], u_k.shape[0]
    tile = new_tile(feature_nd.shape[1], edges.source.shape[0], n_sources)
    slack_kt, factor_kt = tile.slack_kt, tile.factor_kt
    pull_kt = np.empty((n_sources, TILE_ROWS))
    per_width = 1.0 / width
    total, product, per_own = 0.0, 1.0, 0.0
    for k in range(n_sources):
        factor_kt[k] = np.exp(u_k[k])  # without offset the same for all images; u is at most 0
    for start in range(0, n, TILE_ROWS):
        m = min(TILE_ROWS, n - start)
        rows = slice(start, start + m)
        fill_tile(feature_nd, offset_nk, start, m, edges, per_width, u_k, tile, mass_k)
        for t in range(m):
            own = source_n[start + t]
            share = factor_kt[own, t] * slack_kt[own, t]
            if share <= 0.0:
                return -np.inf, np.inf
            total, product = add_log(total, product, share * tile.per_norm_t[t])
            per_own += 1.0 / slack_kt[own, t]
        if with_gradient:
            add_gradient(
                source_n[rows],
                edges,
                per_width,
                tile,
                rim_prior,
                pull_kt,
                gradient_p,
                slope_p,
                slope_width_k,
            )
    return total + np.log(product), per_own


@compiled
def evaluate_soft_boxes(
    feature_nd: Floats,
    source_n: Ints,
    offset_nk: Floats,
    bound_c: Ints,
    is_fixed_k: Bools,
    prior: float,
    lower_kd: Floats,
    upper_kd: Floats,
    width: float,
    u_ck: Floats,
    with_gradient: bool,
) -> tuple[float, float, Floats, Floats]:
    """Evaluate L, its first term, and the gradients of L by θ and by each cell's u.

    L = Σ_i log q_{i,s_i} + τ (Σ_k log Ω_k − (1/n) Σ_i 1/ω_{i,s_i}).

    The gradients are 0 where they are not wanted. Rows of a cell are between its bounds.
    """
    n_cells, n_sources = u_ck.shape
    edges = list_edges(lower_kd, upper_kd)
    n_edges = edges.source.shape[0]
    n_free = n_edges + 1
    gradient_cp = np.zeros((n_cells, n_free + n_sources))
    mass_k, slope_width_k, slope_p = np.zeros(n_sources), np.zeros(n_sources), np.zeros(n_free)
    total, per_own = 0.0, 0.0
    rim_prior = prior / source_n.shape[0]
    for c in range(n_cells):
        rows = slice(bound_c[c], bound_c[c + 1])
        value_c, per_own_c = sweep_cell(
            feature_nd[rows],
            source_n[rows],
            offset_nk[rows],
            edges,
            width,
            u_ck[c],
            rim_prior,
            with_gradient,
            gradient_cp[c],
            mass_k,
            slope_p,
            slope_width_k,
        )
        total += value_c
        per_own += per_own_c
        if total == -np.inf:
            break
    gradient_p = np.zeros(n_free)
    for c in range(n_cells):
        for p in range(n_free):
            gradient_p[p] += gradient_cp[c, p]
    value = total
    if total > -np.inf:
        value -= rim_prior * per_own
        for k in range(n_sources):
            if not is_fixed_k[k]:
                value += prior * np.log(mass_k[k] / source_n.shape[0])
                gradient_p[n_edges] += prior * slope_width_k[k] / mass_k[k]
        for e in range(n_edges):
            gradient_p[e] += prior * slope_p[e] / mass_k[edges.source[e]]
    return value, total, gradient_p, gradient_cp[:, n_free:]
