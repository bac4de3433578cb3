"""The compiled likelihood of source labels under soft boxes, with gradient and information.
Importing this loads Numba.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.bias.soft_box.kernels_boxes import add_log
from unskew.records import Floats, Ints
from unskew.solve.kernels_compiler import TILE_ROWS, compiled

# Images that lie on the rim of a support count as a little inside it: each would dominate the
# information.
RIM = 1e-3


@compiled
def list_edges(lower_kd: Floats, upper_kd: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Source, feature, sign (−1 for a lower edge, 1 for an upper one) and place of every finite
    edge: lower ones first, by source.
    """
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
    return source_e[:n_edges], feature_e[:n_edges], sign_e[:n_edges], at_e[:n_edges]


@compiled
def measure_tile(
    z_dt: Floats,
    n_tile: int,
    source_e: Ints,
    feature_e: Ints,
    sign_e: Floats,
    at_e: Floats,
    per_width: float,
    gap_et: Floats,
    slack_kt: Floats,
) -> None:
    """How far each image lies beyond each edge (0: not), and 1 − distance/γ of each source, which
    is ω where it is positive.
    """
    for k in range(slack_kt.shape[0]):
        slack_kt[k] = 1.0
    for e in range(source_e.shape[0]):
        sign, at = sign_e[e], at_e[e]
        z_t, gap_t, slack_t = z_dt[feature_e[e]], gap_et[e], slack_kt[source_e[e]]
        for t in range(n_tile):
            gap = max(sign * (z_t[t] - at), 0.0)
            gap_t[t] = gap
            slack_t[t] -= per_width * gap


@compiled
def weigh_tile(u_k: Floats, offset_tk: Floats, slack_kt: Floats, factor_kt: Floats) -> None:
    """e^{u_k} a_ik of an image in the supports, scaled by the largest; 0 outside."""
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
def norm_tile(
    u_k: Floats,
    n_tile: int,
    factor_kt: Floats,
    slack_kt: Floats,
    per_norm_t: Floats,
    mass_k: Floats,
) -> None:
    """ω made of the slack, 1/Σ_k e^{u_k} a_ik ω_ik, and Σ_i ω_ik added to the masses."""
    per_norm_t[:] = 0.0
    for k in range(u_k.shape[0]):
        slack_t, factor_t = slack_kt[k], factor_kt[k]
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
    source_e: Ints,
    feature_e: Ints,
    sign_e: Floats,
    at_e: Floats,
    per_width: float,
    u_k: Floats,
    z_dt: Floats,
    gap_et: Floats,
    slack_kt: Floats,
    factor_kt: Floats,
    per_norm_t: Floats,
    mass_k: Floats,
) -> None:
    """The images from ``start`` on: gaps, ω, factors and norms. ``factor_kt`` holds e^{u_k}, which
    stays where there is no offset.
    """
    for d in range(feature_nd.shape[1]):
        for t in range(n_tile):
            z_dt[d, t] = feature_nd[start + t, d]
    measure_tile(z_dt, n_tile, source_e, feature_e, sign_e, at_e, per_width, gap_et, slack_kt)
    if offset_nk.shape[1] > 0:
        weigh_tile(u_k, offset_nk[start : start + n_tile], slack_kt, factor_kt)
    norm_tile(u_k, n_tile, factor_kt, slack_kt, per_norm_t, mass_k)


@compiled
def add_gradient(
    source_t: Ints,
    source_e: Ints,
    sign_e: Floats,
    per_width: float,
    gap_et: Floats,
    slack_kt: Floats,
    factor_kt: Floats,
    per_norm_t: Floats,
    rim_prior: float,
    pull_kt: Floats,
    gradient_p: Floats,
    slope_p: Floats,
    slope_width_k: Floats,
) -> None:
    """Add the derivatives of a tile's Σ_i log q_{i,s_i} − ρ/ω_{i,s_i} by θ and u, and of its masses
    Σ_i ω_ik by the edges and by log γ.

    ``pull_kt`` is room for minus the first's by ω_ik, (q_ik − 1{k = s_i} (1 + ρ/ω_ik))/ω_ik.
    """
    n_tile, n_edges = source_t.shape[0], source_e.shape[0]
    n_free = n_edges + 1
    for k in range(slack_kt.shape[0]):
        slack_t, factor_t, pull_t = slack_kt[k], factor_kt[k], pull_kt[k]
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
        gap_t, slack_t, pull_t = gap_et[e], slack_kt[source_e[e]], pull_kt[source_e[e]]
        pulled = 0.0
        beyond = 0.0
        for t in range(n_tile):
            pulled += pull_t[t] if gap_t[t] > 0.0 else 0.0
            beyond += 1.0 if gap_t[t] > 0.0 and slack_t[t] > 0.0 else 0.0
        gradient_p[e] -= pulled * sign_e[e] * per_width
        slope_p[e] += beyond * sign_e[e] * per_width


@compiled
def sweep_cell(
    feature_nd: Floats,
    source_n: Ints,
    offset_nk: Floats,
    source_e: Ints,
    feature_e: Ints,
    sign_e: Floats,
    at_e: Floats,
    width: float,
    u_k: Floats,
    rim_prior: float,
    with_gradient: bool,
    gradient_p: Floats,
    mass_k: Floats,
    slope_p: Floats,
    slope_width_k: Floats,
) -> tuple[float, float]:
    """Add one cell's images to the sums, a tile at a time; returns Σ_i log q_{i,s_i}, −inf if an
    image is outside its own source's support, and Σ_i 1/ω_{i,s_i}.

    Parameters are laid out as θ (edges, then log γ), then u_k.
    """
    n, n_sources, n_edges = feature_nd.shape[0], u_k.shape[0], source_e.shape[0]
    gap_et, z_dt = np.empty((n_edges, TILE_ROWS)), np.empty((feature_nd.shape[1], TILE_ROWS))
    slack_kt, factor_kt = np.empty((n_sources, TILE_ROWS)), np.empty((n_sources, TILE_ROWS))
    pull_kt, per_norm_t = np.empty((n_sources, TILE_ROWS)), np.empty(TILE_ROWS)
    per_width = 1.0 / width
    total, product, per_own = 0.0, 1.0, 0.0
    for k in range(n_sources):
        factor_kt[k] = np.exp(u_k[k])  # without offset the same for all images; u is at most 0
    for start in range(0, n, TILE_ROWS):
        m = min(TILE_ROWS, n - start)
        rows = slice(start, start + m)
        edges = (source_e, feature_e, sign_e, at_e)
        fill_tile(
            feature_nd,
            offset_nk,
            start,
            m,
            *edges,
            per_width,
            u_k,
            z_dt,
            gap_et,
            slack_kt,
            factor_kt,
            per_norm_t,
            mass_k,
        )
        for t in range(m):
            own = source_n[start + t]
            share = factor_kt[own, t] * slack_kt[own, t]
            if share <= 0.0:
                return -np.inf, np.inf
            total, product = add_log(total, product, share * per_norm_t[t])
            per_own += 1.0 / slack_kt[own, t]
        if with_gradient:
            add_gradient(
                source_n[rows],
                source_e,
                sign_e,
                per_width,
                gap_et,
                slack_kt,
                factor_kt,
                per_norm_t,
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
    is_fixed_k: npt.NDArray[np.bool_],
    prior: float,
    lower_kd: Floats,
    upper_kd: Floats,
    width: float,
    u_ck: Floats,
    with_gradient: bool,
) -> tuple[float, float, Floats, Floats]:
    """L = Σ_i log q_{i,s_i} + τ (Σ_k log Ω_k − (1/n) Σ_i 1/ω_{i,s_i}), its first term, and the
    gradients of L by θ and by each cell's u.

    The gradients are 0 where they are not wanted. Rows of a cell lie between its bounds.
    """
    n_cells, n_sources = u_ck.shape
    source_e, feature_e, sign_e, at_e = list_edges(lower_kd, upper_kd)
    n_edges = source_e.shape[0]
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
            source_e,
            feature_e,
            sign_e,
            at_e,
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
            gradient_p[e] += prior * slope_p[e] / mass_k[source_e[e]]
    return value, total, gradient_p, gradient_cp[:, n_free:]


@compiled
def fill_derivatives(
    n_tile: int,
    source_e: Ints,
    sign_e: Floats,
    per_width: float,
    gap_et: Floats,
    slack_kt: Floats,
    factor_kt: Floats,
    per_norm_t: Floats,
    ratio_kt: Floats,
    slope_et: Floats,
    mean_pt: Floats,
) -> None:
    """Derivatives g_k of log(e^{u_k} ω_k) by log γ and by each edge of k, and ḡ = Σ_k q_k g_k by
    all parameters (θ, u) of each image.
    """
    n_edges, n_sources = source_e.shape[0], slack_kt.shape[0]
    mean_pt[n_edges] = 0.0
    for k in range(n_sources):
        slack_t, factor_t, ratio_t, q_t, width_t = (
            slack_kt[k],
            factor_kt[k],
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
            gap_et[e],
            slope_et[e],
            mean_pt[e],
            mean_pt[n_edges + 1 + source_e[e]],
        )
        height = sign_e[e] * per_width
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
    """The Fisher information Σ_i [Σ_k q_ik g_ik g_ikᵀ − ḡ_i ḡ_iᵀ] of θ, of each cell's u, and
    across.
    """
    n_cells, n_sources = u_ck.shape
    source_e, feature_e, sign_e, at_e = list_edges(lower_kd, upper_kd)
    n_edges = source_e.shape[0]
    n_free, n_all = n_edges + 1, n_edges + 1 + n_sources
    gap_et, slope_et, z_dt = (
        np.empty((n_edges, TILE_ROWS)),
        np.empty((n_edges, TILE_ROWS)),
        np.empty((feature_nd.shape[1], TILE_ROWS)),
    )
    slack_kt, factor_kt, ratio_kt = (
        np.empty((n_sources, TILE_ROWS)),
        np.empty((n_sources, TILE_ROWS)),
        np.empty((n_sources, TILE_ROWS)),
    )
    mean_pt, per_norm_t, mass_k = (
        np.empty((n_all, TILE_ROWS)),
        np.empty(TILE_ROWS),
        np.zeros(n_sources),
    )
    fisher_cpp, information_pp = np.zeros((n_cells, n_all, n_all)), np.zeros((n_free, n_free))
    for c in range(n_cells):
        for k in range(n_sources):
            factor_kt[k] = np.exp(u_ck[c, k])
        for start in range(bound_c[c], bound_c[c + 1], TILE_ROWS):
            m = min(TILE_ROWS, bound_c[c + 1] - start)
            edges = (source_e, feature_e, sign_e, at_e)
            fill_tile(
                feature_nd,
                offset_nk,
                start,
                m,
                *edges,
                1.0 / width,
                u_ck[c],
                z_dt,
                gap_et,
                slack_kt,
                factor_kt,
                per_norm_t,
                mass_k,
            )
            fill_derivatives(
                m,
                source_e,
                sign_e,
                1.0 / width,
                gap_et,
                slack_kt,
                factor_kt,
                per_norm_t,
                ratio_kt,
                slope_et,
                mean_pt,
            )
            add_information(m, source_e, ratio_kt, slope_et, mean_pt, fisher_cpp[c])
        for p in range(n_all):
            for r in range(p):
                fisher_cpp[c, p, r] += fisher_cpp[c, r, p]
                fisher_cpp[c, r, p] = fisher_cpp[c, p, r]
        for p in range(n_free):
            for r in range(n_free):
                information_pp[p, r] += fisher_cpp[c, p, r]
    return information_pp, fisher_cpp[:, n_free:, n_free:], fisher_cpp[:, :n_free, n_free:]
