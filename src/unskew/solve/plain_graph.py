"""Loops over the graph of sources in plain NumPy: Laplacian systems, balanced flows.

`eliminate` and `balance` are the twins of the compiled ones (``kernels_graph``), for up to about a
hundred sources. The sums over pairs of sources look at a narrow band around the diagonal only,
where ω is sparse in that way: entries outside it are zero, on pages that were never touched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from unskew.engine.compilation import pays_to_compile
from unskew.records import Floats, Ints


def graph_loops(n_sources: int) -> Any:
    """Return the module whose loops to take: the work grows with the cube of the sources."""
    if pays_to_compile(float(n_sources) ** 3):
        from unskew.solve import kernels_graph

        return kernels_graph
    from unskew.solve import plain_graph

    return plain_graph


def eliminate(
    weight_kk: Floats, flow_kk: Floats, band: int, order: Ints, pivot_k: Floats, step_k: Floats
) -> bool:
    """Solve the Laplacian system L x = b without a single cancellation between sources, in place.

    See `kernels_graph.eliminate`.
    """
    n_sources = step_k.size
    in_order = 4 * band < n_sources
    alive = np.ones(n_sources, dtype=np.bool_)
    # Nodes that are gone are never the ones of smallest degree.
    degree = np.count_nonzero(weight_kk, axis=1) - (weight_kk.diagonal() != 0)
    degree = degree.astype(np.float64)
    for position in range(n_sources - 1):
        node = position if in_order else int(degree.argmin())
        alive[node], degree[node], order[position] = False, np.inf, node
        linked = alive & ((weight_kk[node] > 0) | (flow_kk[node] != 0))
        neighbour = np.flatnonzero(linked)
        weight_m = weight_kk[node, neighbour]
        pivot = weight_m.sum()
        if not pivot > 0:
            return False
        pivot_k[node] = pivot
        share_m, flow_m = weight_m / pivot, flow_kk[neighbour, node]
        square = np.ix_(neighbour, neighbour)
        joined = weight_kk[square]
        if not in_order:
            degree[neighbour] += np.count_nonzero(joined == 0, axis=1) - (joined.diagonal() == 0)
            degree[neighbour] -= 1
        weight_kk[square] = joined + share_m[:, None] * weight_m
        carried = flow_m[:, None] * share_m
        flow_kk[square] += carried - carried.T
    order[-1] = int(np.flatnonzero(alive)[0])
    step_k[order[-1]] = 0.0
    for position in range(n_sources - 2, -1, -1):
        node, later = order[position], order[position + 1 :]
        step_k[node] = (flow_kk[node, later] + weight_kk[node, later] * step_k[later]).sum()
        step_k[node] /= pivot_k[node]
    mean = step_k.mean()
    step_k -= mean
    return bool(np.isfinite(mean))


def balance(
    log_in: Floats,
    log_out: Floats,
    neighbour: Ints,
    indptr: Ints,
    shift_k: Floats,
    sweeps: int,
    enough: float,
) -> None:
    """Balance the flows e^{log_flow_kl + δ_k − δ_l} at every node by Osborne's iteration.

    See `kernels_graph.balance`.
    """
    bounds = indptr.tolist()
    for _ in range(sweeps):
        moved = 0.0
        for k in range(shift_k.size):
            pairs = slice(bounds[k], bounds[k + 1])
            shift_p = shift_k[neighbour[pairs]]
            in_p, out_p = log_in[pairs] - shift_p, log_out[pairs] + shift_p
            top_in, top_out = in_p.max(initial=-np.inf), out_p.max(initial=-np.inf)
            if top_in == -np.inf or top_out == -np.inf:
                continue
            ratio = np.exp(out_p - top_out).sum() / np.exp(in_p - top_in).sum()
            new = 0.5 * (top_out - top_in + np.log(ratio))
            moved = max(moved, abs(new - shift_k[k]))
            shift_k[k] = new
        if moved <= enough:
            break


def balance_groups(log_flow_kl: Floats, shift_k: Floats, steps: int, enough: float) -> None:
    """Balance flows by Newton's method, for sources that have to move together.

    It minimises Σ_kl e^{log_flow_kl + δ_k − δ_l}, as `balance` does. ``log_flow_kl`` is −inf on the
    diagonal.
    """
    n_sources = shift_k.size
    order, pivot_k, step_k = np.zeros(n_sources, np.int64), np.ones(n_sources), np.zeros(n_sources)
    with np.errstate(over="ignore", invalid="ignore"):  # a step of ∞ or NaN ends it
        for _ in range(steps):
            into_kl = np.exp(log_flow_kl + (shift_k[:, None] - shift_k))
            weight_kk, flow_kk = into_kl + into_kl.T, into_kl.T - into_kl
            if not eliminate(weight_kk, flow_kk, n_sources, order, pivot_k, step_k):
                return
            size = float(np.ptp(step_k))
            if not size < np.inf:
                return
            shift_k += (min(1.0, 2.0 / size) if size > 0 else 0.0) * step_k
            if size < enough:
                return


@lru_cache(maxsize=4)
def _pairs(n_sources: int, band: int) -> tuple[Ints, Ints]:
    """List the pairs k > l at most ``band`` apart."""
    distance, low = np.divmod(np.arange(band * n_sources), n_sources)
    high = low + distance + 1
    inside = high < n_sources
    return high[inside], low[inside]


def antisymmetric(flow_lk: Floats, band: int) -> Floats:
    """Return F − Fᵀ."""
    if band >= flow_lk.shape[0]:
        return flow_lk - flow_lk.T
    k, j = _pairs(flow_lk.shape[0], band)
    out_kk = np.zeros(flow_lk.shape)
    out_kk[k, j] = flow_lk[k, j] - flow_lk[j, k]
    out_kk[j, k] = -out_kk[k, j]
    return out_kk


def divergence(flow_lk: Floats, band: int) -> Floats:
    """Compute Σ_l (F_kl − F_lk) for every k, where F_kl = flow_lk[l, k]."""
    n_sources = flow_lk.shape[0]
    if band >= n_sources:
        return np.asarray((flow_lk.T - flow_lk).sum(axis=1))
    k, j = _pairs(n_sources, band)
    x = flow_lk[j, k] - flow_lk[k, j]
    out_k = np.bincount(k, x, n_sources) - np.bincount(j, x, n_sources)
    return np.asarray(out_k, dtype=np.float64)


def slope(flow_lk: Floats, step_k: Floats, band: int) -> float:
    """Compute Σ_{k<l} (F_kl − F_lk)(step_k − step_l), where F_kl = flow_lk[l, k].

    That is n times the derivative of the objective along the step.
    """
    if band >= step_k.size:
        return 0.5 * float(((flow_lk.T - flow_lk) * (step_k[:, None] - step_k)).sum())
    k, j = _pairs(step_k.size, band)
    return float((flow_lk[j, k] - flow_lk[k, j]) @ (step_k[k] - step_k[j]))


def longest_local_step(cross_kk: Floats, step_k: Floats, band: int) -> float:
    """Return the largest |step_k − step_l| over the pairs of sources that share images."""
    if band >= step_k.size:
        k, j = np.nonzero(cross_kk > 0)
    else:
        k, j = _pairs(step_k.size, band)
        linked = cross_kk[k, j] > 0
        k, j = k[linked], j[linked]
    return float(np.max(np.abs(step_k[k] - step_k[j]), initial=0.0))


def mirror(matrix_kk: Floats, band: int) -> None:
    """Copy the lower triangle to the upper one."""
    k, j = _pairs(matrix_kk.shape[0], min(band, matrix_kk.shape[0] - 1))
    matrix_kk[j, k] = matrix_kk[k, j]


def scale_band(matrix_lk: Floats, a_k: Floats, band: int) -> None:
    """Multiply column k by a_k, in place."""
    if band >= a_k.size:
        matrix_lk *= a_k
        return
    k, j = _pairs(a_k.size, band)
    matrix_lk[k, j] *= a_k[j]
    matrix_lk[j, k] *= a_k[k]
    matrix_lk.reshape(-1)[:: a_k.size + 1] *= a_k


def expand_band(flat_b: Floats, n_sources: int, band: int) -> Floats:
    """Return (K, K) of sums stored flat: row k has the columns k − band … k + band."""
    out_kk, row_kb = np.zeros((n_sources, n_sources)), flat_b.reshape(n_sources, 2 * band + 1)
    k, j = _pairs(n_sources, band)
    out_kk[k, j] = row_kb[k, j - k + band]
    out_kk[j, k] = row_kb[j, k - j + band]
    out_kk.reshape(-1)[:: n_sources + 1] = row_kb[:, band]
    return out_kk
