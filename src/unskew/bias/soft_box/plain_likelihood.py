"""The likelihood of source labels under soft boxes, in plain NumPy, and its Fisher information.

`evaluate_soft_boxes` is the twin of the compiled one (``kernels_likelihood``), for small problems.
The information is of a few thousand images, and matrix products are as fast as a compiled loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from unskew.engine.compilation import pays_to_compile
from unskew.records import Bools, Floats, Ints

# Images on the rim of a support count as a little inside it: each would dominate the information.
RIM = 1e-3
_LARGEST = float(np.finfo(np.float64).max)
_TILE_ENTRIES = 1 << 16  # half a megabyte for each array of a tile


def likelihood_loops(numbers: float) -> Any:
    """Return the module whose loops to take for so many numbers."""
    if pays_to_compile(numbers):
        from unskew.bias.soft_box import kernels_likelihood

        return kernels_likelihood
    from unskew.bias.soft_box import plain_likelihood

    return plain_likelihood


class _Edges(NamedTuple):
    """(E,) source, feature, sign (−1 for a lower edge, 1 for an upper one) and place of edges."""

    source: Ints
    feature: Ints
    sign: Floats
    at: Floats
    own: Floats


class _Tile(NamedTuple):
    """Of some images: 1 where each is beyond each edge, ω, and q_ik/ω_ik."""

    rows: slice
    beyond_et: Floats
    omega_kt: Floats
    ratio_kt: Floats


def _list_edges(lower_kd: Floats, upper_kd: Floats) -> _Edges:
    (low_k, low_d), (high_k, high_d) = (
        np.nonzero(np.isfinite(edge_kd)) for edge_kd in (lower_kd, upper_kd)
    )
    source_e = np.concatenate([low_k, high_k])
    at_e = np.concatenate([lower_kd[low_k, low_d], upper_kd[high_k, high_d]])
    sign_e = np.repeat([-1.0, 1.0], [low_k.size, high_k.size])
    own_ke = (source_e == np.arange(lower_kd.shape[0])[:, None]).astype(np.float64)
    return _Edges(source_e, np.concatenate([low_d, high_d]), sign_e, at_e, own_ke)


def _tiles(
    feature_nd: Floats, offset_nk: Floats, bounds: Any, edges: _Edges, width: float, u_k: Floats
) -> Iterator[_Tile]:
    """Yield the images between the bounds, all of one cell."""
    step = max(64, _TILE_ENTRIES // max(edges.source.size, u_k.size))
    n_lower, at_e1 = np.count_nonzero(edges.sign < 0), edges.at[:, None]
    own = csr_array(edges.own)  # adds rows of its factor: a dense product would multiply by zeros
    has_images, all_have = u_k > -np.inf, bool(np.all(u_k > -np.inf))
    for start in range(bounds[0], bounds[1], step):
        rows = slice(start, min(start + step, bounds[1]))
        gap_et = np.ascontiguousarray(feature_nd[rows].T).take(edges.feature, axis=0, mode="clip")
        np.subtract(at_e1[:n_lower], gap_et[:n_lower], out=gap_et[:n_lower])
        np.subtract(gap_et[n_lower:], at_e1[n_lower:], out=gap_et[n_lower:])
        beyond_et = (gap_et > 0.0).astype(np.float64)
        omega_kt = own @ np.multiply(gap_et, beyond_et, out=gap_et)
        np.divide(omega_kt, -width, out=omega_kt)
        omega_kt += 1.0
        np.maximum(omega_kt, 0.0, out=omega_kt)
        if not all_have:
            omega_kt[~has_images] = 0.0
        if offset_nk.shape[1]:
            log_kt = np.where(omega_kt > 0, u_k[:, None] + offset_nk[rows].T, -np.inf)
            ratio_kt = np.exp(log_kt - np.maximum(log_kt.max(axis=0), -_LARGEST))
            ratio_kt *= 1.0 / np.einsum("kt,kt->t", ratio_kt, omega_kt)
        else:
            factor_k = np.exp(u_k)  # u is at most 0
            ratio_kt = factor_k[:, None] * (1.0 / (factor_k @ omega_kt))
        yield _Tile(rows, beyond_et, omega_kt, ratio_kt)


def _row_products(value_at: Floats, other_at: Floats) -> Floats:
    """Return (A,) the product of each row with the same row of another array."""
    product_a11: Floats = value_at[:, None, :] @ other_at[:, :, None]
    return product_a11[:, 0, 0]


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

    See `kernels_likelihood.evaluate_soft_boxes`.
    """
    n_sources, edges = u_ck.shape[1], _list_edges(lower_kd, upper_kd)
    edge, rim_prior = np.arange(edges.source.size), prior / source_n.size
    gradient_p, gradient_ck = np.zeros(edge.size + 1), np.zeros(u_ck.shape)
    mass_k, inside_k, beyond_e = np.zeros(n_sources), np.zeros(n_sources), np.zeros(edge.size)
    total, per_own = 0.0, 0.0
    with np.errstate(all="ignore"):
        for c, u_k in enumerate(u_ck):
            images = (feature_nd, offset_nk, bound_c[c : c + 2].tolist(), edges, width, u_k)
            for rows, beyond_et, omega_kt, ratio_kt in _tiles(*images):
                own_t = source_n[rows] * omega_kt.shape[1] + np.arange(omega_kt.shape[1])
                own_omega_t = omega_kt.take(own_t)
                own_q_t = ratio_kt.take(own_t) * own_omega_t
                if not np.all(own_q_t > 0.0):
                    return -np.inf, -np.inf, np.zeros(edge.size + 1), np.zeros(u_ck.shape)
                per_omega_t = 1.0 / own_omega_t
                total += float(np.log(own_q_t).sum())
                per_own += float(per_omega_t.sum())
                mass_k += omega_kt @ np.ones(omega_kt.shape[1])
                if not with_gradient:
                    continue
                pull_kt = ratio_kt
                if omega_kt.min() > 0.0:
                    inside_k += omega_kt.shape[1]
                    beyond_e += beyond_et @ np.ones(omega_kt.shape[1])
                else:
                    is_inside_kt = (omega_kt > 0.0).astype(np.float64)
                    pull_kt *= is_inside_kt
                    inside_k += is_inside_kt.sum(axis=1)
                    beyond_e += _row_products(is_inside_kt[edges.source], beyond_et)
                q_k = _row_products(pull_kt, omega_kt)
                gradient_ck[c] += np.bincount(source_n[rows], minlength=n_sources) - q_k
                # Minus the derivative by ω_ik; by log γ it is Σ_ik (1 − ω_ik) times that.
                own_pull_t = per_omega_t * (1.0 + rim_prior * per_omega_t)
                pull_kt.reshape(-1)[own_t] -= own_pull_t
                gradient_p[-1] -= float(pull_kt.sum() - q_k.sum() + own_pull_t @ own_omega_t)
                gradient_p[:-1] -= _row_products(
                    pull_kt.take(edges.source, axis=0, mode="clip"), beyond_et
                )
        free_k = ~is_fixed_k
        value = total - rim_prior * per_own
        value += prior * float(np.log(mass_k[free_k] / source_n.size).sum())
        gradient_p[-1] += prior * float(((inside_k - mass_k) / mass_k)[free_k].sum())
        gradient_p[:-1] += prior * beyond_e / mass_k[edges.source]
        gradient_p[:-1] *= edges.sign / width
    return value, total, gradient_p, gradient_ck


def sum_information(
    feature_nd: Floats,
    offset_nk: Floats,
    bound_c: Ints,
    lower_kd: Floats,
    upper_kd: Floats,
    width: float,
    u_ck: Floats,
    rim_below: float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Sum the Fisher information Σ_i [Σ_k q_ik g_ik g_ikᵀ − ḡ_i ḡ_iᵀ].

    That of θ, that of each cell's u, and that across. g_ik is the derivative of log(e^{u_k} ω_ik)
    by the edges of k, by log γ and by u, and ḡ_i = Σ_k q_ik g_ik. In that of θ the first sum is
    over ω_ik ≥ ``rim_below``.
    """
    (n_cells, n_sources), edges = u_ck.shape, _list_edges(lower_kd, upper_kd)
    n_edges = edges.source.size
    n_free, n_all = n_edges + 1, n_edges + 1 + n_sources
    fisher_cpp = np.zeros((n_cells, n_all, n_all))
    together_ee = edges.own.T @ edges.own
    at_u = n_free + np.arange(n_sources)
    with np.errstate(all="ignore"):
        for c, u_k in enumerate(u_ck):
            images = (feature_nd, offset_nk, bound_c[c : c + 2].tolist(), edges, width, u_k)
            for _, beyond_et, omega_kt, ratio_kt in _tiles(*images):
                per_omega_kt = 1.0 / np.maximum(omega_kt, RIM)
                q_kt = ratio_kt * omega_kt
                by_width_kt = (1.0 - omega_kt) * per_omega_kt
                by_edge_et = per_omega_kt[edges.source] * beyond_et
                by_edge_et *= (edges.sign / width)[:, None]
                moved_kt = q_kt * by_width_kt
                mean_pt = np.concatenate(
                    [q_kt[edges.source] * by_edge_et, moved_kt.sum(axis=0)[None], q_kt]
                )
                fisher_pp = fisher_cpp[c]
                fisher_pp -= mean_pt @ mean_pt.T
                edge_et = mean_pt[:n_edges]
                is_far_kt = omega_kt >= rim_below
                by_edge_et *= is_far_kt[edges.source]
                by_width_kt *= is_far_kt
                fisher_pp[:n_edges, :n_edges] += together_ee * (edge_et @ by_edge_et.T)
                across_e = np.einsum("et,et->e", edge_et, by_width_kt[edges.source])
                fisher_pp[:n_edges, n_edges] += across_e
                fisher_pp[n_edges, :n_edges] += across_e
                fisher_pp[n_edges, n_edges] += np.vdot(moved_kt, by_width_kt)
                by_edge_ke = edges.own * edge_et.sum(axis=1)
                fisher_pp[n_free:, :n_edges] += by_edge_ke
                fisher_pp[:n_edges, n_free:] += by_edge_ke.T
                fisher_pp[n_free:, n_edges] += moved_kt.sum(axis=1)
                fisher_pp[n_edges, n_free:] += moved_kt.sum(axis=1)
                fisher_pp[at_u, at_u] += q_kt.sum(axis=1)
    information_pp = fisher_cpp[:, :n_free, :n_free].sum(axis=0)
    return information_pp, fisher_cpp[:, n_free:, n_free:], fisher_cpp[:, :n_free, n_free:]
