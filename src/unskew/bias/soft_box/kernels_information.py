"""The compiled Fisher information of soft boxes.

Importing this loads Numba.
"""

from __future__ import annotations

import numpy as np

from unskew.bias.soft_box.kernels_likelihood import Edges, Tile, fill_tile, list_edges, new_tile
from unskew.records import Floats, Ints
from unskew.solve.kernels_compiler import TILE_ROWS, compiled

# Images on the rim of a support count as a little inside it: each would dominate the information.
RIM = 1e-3


@compiled
def fill_derivatives(
    n_tile: int,
    edges: Edges,
    per_width: float,
    tile: Tile,
    ratio_kt: Floats,
    slope_et: Floats,
    mean_pt: Floats,
) -> None:
    """Fill the derivatives g_k of log(e^{u_k} ω_k) by log γ and by each edge of k.

    Also ḡ = Σ_k q_k g_k by all parameters (θ, u) of each image.
    """
    source_e, slack_kt, per_norm_t = edges.source, tile.slack_kt, tile.per_norm_t
    n_edges, n_sources = source_e.shape[0], slack_kt.shape[0]
    mean_pt[n_edges] = 0.0
    for k in range(n_sources):
        slack_t, factor_t, ratio_t, q_t, width_t = (
            slack_kt[k],
            tile.factor_kt[k],
            ratio_kt[k],
            mean_pt[n_edges + 1 + k],
            mean_pt[n_edges],
        )
        for t in range(n_tile):
            q_t[t] = factor_t[t] * slack_t[t] * per_norm_t[t]
            ratio_t[t] = (1.0 - slack_t[t]) / max(slack_t[t], RIM)
            width_t[t] += q_t[t] * ratio_t[t]
    for e in range(n_edges):
        slack_t, gap_t, slope_t, mean_t, q_t = (
            slack_kt[source_e[e]],
            tile.gap_et[e],
            slope_et[e],
            mean_pt[e],
            mean_pt[n_edges + 1 + source_e[e]],
        )
        height = edges.sign[e] * per_width
        for t in range(n_tile):
            slope_t[t] = height / max(slack_t[t], RIM) if gap_t[t] > 0.0 else 0.0
            mean_t[t] = q_t[t] * slope_t[t]


@compiled
def sum_products(first_t: Floats, second_t: Floats, n_tile: int) -> float:
    total = 0.0
    for t in range(n_tile):
        total += first_t[t] * second_t[t]
    return total


@compiled
def add_information(
    n_tile: int,
    source_e: Ints,
    ratio_kt: Floats,
    slope_et: Floats,
    mean_pt: Floats,
    fisher_pp: Floats,
) -> None:
    """Add a tile's Σ_i [Σ_k q_ik g_ik g_ikᵀ − ḡ_i ḡ_iᵀ]. Of F_pr and F_rp only one is added to."""
    n_edges, n_sources = source_e.shape[0], ratio_kt.shape[0]
    one_t = np.ones(n_tile)
    for k in range(n_sources):
        q_t, ratio_t, at = mean_pt[n_edges + 1 + k], ratio_kt[k], n_edges + 1 + k
        fisher_pp[at, at] += sum_products(q_t, one_t, n_tile)
        fisher_pp[n_edges, at] += sum_products(q_t, ratio_t, n_tile)
        total = 0.0
        for t in range(n_tile):
            total += q_t[t] * ratio_t[t] * ratio_t[t]
        fisher_pp[n_edges, n_edges] += total
    for e in range(n_edges):
        k = source_e[e]
        fisher_pp[e, n_edges + 1 + k] += sum_products(mean_pt[e], one_t, n_tile)
        fisher_pp[e, n_edges] += sum_products(mean_pt[e], ratio_kt[k], n_tile)
        for f in range(e, n_edges):
            if source_e[f] == k:
                fisher_pp[e, f] += sum_products(mean_pt[e], slope_et[f], n_tile)
    for p in range(mean_pt.shape[0]):
        for r in range(p, mean_pt.shape[0]):
            fisher_pp[p, r] -= sum_products(mean_pt[p], mean_pt[r], n_tile)


@compiled
def sum_information(
    feature_nd: Floats,
    offset_nk: Floats,
    bound_c: Ints,
    lower_kd: Floats,
    upper_kd: Floats,
    width: float,
    u_ck: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Sum the Fisher information Σ_i [Σ_k q_ik g_ik g_ikᵀ − ḡ_i ḡ_iᵀ].

    That of θ, that of each cell's u, and that across.
    """
    n_cells, n_sources = u_ck.shape
    edges = list_edges(lower_kd, upper_kd)
    n_edges = edges.source.shape[0]
    n_free, n_all = n_edges + 1, n_edges + 1 + n_sources
    tile = new_tile(feature_nd.shape[1], n_edges, n_sources)
    slope_et, ratio_kt = np.empty((n_edges, TILE_ROWS)), np.empty((n_sources, TILE_ROWS))
    mean_pt, mass_k = np.empty((n_all, TILE_ROWS)), np.zeros(n_sources)
    fisher_cpp, information_pp = np.zeros((n_cells, n_all, n_all)), np.zeros((n_free, n_free))
    for c in range(n_cells):
        for k in range(n_sources):
            tile.factor_kt[k] = np.exp(u_ck[c, k])
        for start in range(bound_c[c], bound_c[c + 1], TILE_ROWS):
            m = min(TILE_ROWS, bound_c[c + 1] - start)
            fill_tile(feature_nd, offset_nk, start, m, edges, 1.0 / width, u_ck[c], tile, mass_k)
            fill_derivatives(m, edges, 1.0 / width, tile, ratio_kt, slope_et, mean_pt)
            add_information(m, edges.source, ratio_kt, slope_et, mean_pt, fisher_cpp[c])
        for p in range(n_all):
            for r in range(p):
                fisher_cpp[c, p, r] += fisher_cpp[c, r, p]
                fisher_cpp[c, r, p] = fisher_cpp[c, p, r]
        for p in range(n_free):
            for r in range(n_free):
                information_pp[p, r] += fisher_cpp[c, p, r]
    return information_pp, fisher_cpp[:, n_free:, n_free:], fisher_cpp[:, :n_free, n_free:]
