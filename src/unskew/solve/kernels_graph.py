"""Compiled loops over the graph of sources: Laplacian systems, balanced flows.

Importing this file loads Numba.
"""

from __future__ import annotations

import math

import numpy as np

from unskew.solve.kernels_compiler import compiled


@compiled
def eliminate(weight_kk, flow_kk, band, order, pivot_k, step_k):
    """Solve the Laplacian system L x = b without a single cancellation between sources, in place.

    L_kl = −weight_kl (k ≠ l), rows summing to zero; b_k = Σ_l flow_kl with flow antisymmetric.
    Eliminating node k joins its neighbours: weight_ij += w_ik w_kj / w_k and flow_ij += (w_jk f_ik
    − w_ik f_jk) / w_k, where w_k = Σ_j w_kj is a sum of positive terms (Grassmann, Taksar & Heyman
    1985). So a link of 1e-12 among others of size 1 is solved to full relative precision. Nodes
    are taken in order where a narrow ``band`` bounds the work, else by smallest degree. The
    solution is centred. Returns False if a pivot vanishes or the solution is not finite.
    """
    n_sources = step_k.size
    in_order = 4 * band < n_sources
    alive = np.ones(n_sources, np.bool_)
    degree = np.zeros(n_sources, np.int64)
    if not in_order:
        for k in range(n_sources):
            for j in range(n_sources):
                if j != k and weight_kk[k, j] > 0.0:
                    degree[k] += 1
    neighbour = np.empty(n_sources, np.int64)
    for position in range(n_sources - 1):
        node = position
        if not in_order:
            node = -1
            for k in range(n_sources):
                if alive[k] and (node < 0 or degree[k] < degree[node]):
                    node = k
        alive[node] = False
        order[position] = node
        m = 0
        pivot = 0.0
        for j in range(max(0, node - band), min(n_sources, node + band + 1)):
            if alive[j] and (weight_kk[node, j] > 0.0 or flow_kk[node, j] != 0.0):
                neighbour[m] = j
                m += 1
                pivot += weight_kk[node, j]
        if not pivot > 0.0:
            return False
        pivot_k[node] = pivot
        for p in range(m):
            i = neighbour[p]
            share_i = weight_kk[i, node] / pivot
            degree[i] -= 1
            for o in range(p):
                j = neighbour[o]
                share_j = weight_kk[j, node] / pivot
                if weight_kk[i, j] == 0.0:
                    degree[i] += 1
                    degree[j] += 1
                joined = weight_kk[i, j] + share_i * weight_kk[node, j]
                weight_kk[i, j] = joined
                weight_kk[j, i] = joined
                carried = flow_kk[i, j] + (share_j * flow_kk[i, node] - share_i * flow_kk[j, node])
                flow_kk[i, j] = carried
                flow_kk[j, i] = -carried
    for k in range(n_sources):
        if alive[k]:
            order[n_sources - 1] = k
            step_k[k] = 0.0
    for position in range(n_sources - 2, -1, -1):
        node = order[position]
        last = min(n_sources, position + band + 1) if in_order else n_sources
        x = 0.0
        for later in range(position + 1, last):
            j = order[later]
            x += flow_kk[node, j] + weight_kk[node, j] * step_k[j]
        step_k[node] = x / pivot_k[node]
    mean = 0.0
    for k in range(n_sources):
        mean += step_k[k] / n_sources
    for k in range(n_sources):
        step_k[k] -= mean
    return abs(mean) < np.inf


@compiled
def balance(log_in, log_out, neighbour, indptr, shift_k, sweeps, enough):
    """Balance the flows e^{log_flow_kl + δ_k − δ_l} at every node by Osborne's iteration.

    The shifts δ are found in logarithms. The pairs of node k are ``indptr[k]:indptr[k + 1]``, with
    ``log_in`` = log_flow[k, l] and ``log_out`` = log_flow[l, k] for l = ``neighbour``. δ_k ← ½
    log(Σ_l e^{out_l + δ_l} / Σ_l e^{in_l − δ_l}); stops when no shift moves by more than
    ``enough``.
    """
    for _ in range(sweeps):
        moved = 0.0
        for k in range(shift_k.size):
            top_in, top_out = -np.inf, -np.inf
            for p in range(indptr[k], indptr[k + 1]):
                shift = shift_k[neighbour[p]]
                top_in = max(top_in, log_in[p] - shift)
                top_out = max(top_out, log_out[p] + shift)
            if top_in == -np.inf or top_out == -np.inf:
                continue
            sum_in, sum_out = 0.0, 0.0
            for p in range(indptr[k], indptr[k + 1]):
                shift = shift_k[neighbour[p]]
                sum_in += math.exp(log_in[p] - shift - top_in)
                sum_out += math.exp(log_out[p] + shift - top_out)
            new = 0.5 * ((top_out + math.log(sum_out)) - (top_in + math.log(sum_in)))
            moved = max(moved, abs(new - shift_k[k]))
            shift_k[k] = new
        if moved <= enough:
            break


@compiled
def balance_groups(log_flow_kl, shift_k, steps, enough):
    """Balance flows by Newton's method, for sources that have to move together.

    It minimises Σ_kl e^{log_flow_kl + δ_k − δ_l}, as `balance` does. ``log_flow_kl`` is −inf on the
    diagonal.
    """
    n_sources = shift_k.size
    order, pivot_k, step_k = np.zeros(n_sources, np.int64), np.ones(n_sources), np.zeros(n_sources)
    weight_kk, flow_kk = np.zeros((n_sources, n_sources)), np.zeros((n_sources, n_sources))
    for _ in range(steps):
        for k in range(n_sources):
            for j in range(k):
                into = math.exp(log_flow_kl[k, j] + shift_k[k] - shift_k[j])
                out = math.exp(log_flow_kl[j, k] + shift_k[j] - shift_k[k])
                weight_kk[k, j] = weight_kk[j, k] = into + out
                flow_kk[k, j] = out - into
                flow_kk[j, k] = into - out
        if not eliminate(weight_kk, flow_kk, n_sources, order, pivot_k, step_k):
            return
        low, high = np.min(step_k), np.max(step_k)
        if not high - low < np.inf:
            return
        cut = min(1.0, 2.0 / (high - low)) if high > low else 0.0
        for k in range(n_sources):
            shift_k[k] += cut * step_k[k]
        if high - low < enough:
            return


@compiled
def longest_local_step(cross_kk, step_k, band):
    """Return the largest |step_k − step_l| over the pairs of sources that share images."""
    longest = 0.0
    for k in range(step_k.size):
        for j in range(max(0, k - band), k):
            if cross_kk[k, j] > 0.0:
                longest = max(longest, abs(step_k[k] - step_k[j]))
    return longest


@compiled
def antisymmetric(flow_lk, band, out_kk):
    """Write F − Fᵀ into the band of ``out_kk``, which is zero elsewhere."""
    for k in range(flow_lk.shape[0]):
        for j in range(max(0, k - band), k):
            x = flow_lk[k, j] - flow_lk[j, k]
            out_kk[k, j] = x
            out_kk[j, k] = -x


@compiled
def divergence(flow_lk, band):
    """Compute Σ_l (F_kl − F_lk) for every k, where F_kl = flow_lk[l, k]."""
    n_sources = flow_lk.shape[0]
    out = np.zeros(n_sources)
    for k in range(n_sources):
        for j in range(max(0, k - band), k):
            x = flow_lk[j, k] - flow_lk[k, j]
            out[k] += x
            out[j] -= x
    return out


@compiled
def slope(flow_lk, step_k, band):
    """Compute Σ_{k<l} (F_kl − F_lk)(step_k − step_l), where F_kl = flow_lk[l, k].

    That is n times the derivative of the objective along the step.
    """
    total = 0.0
    for k in range(step_k.size):
        for j in range(max(0, k - band), k):
            total += (flow_lk[j, k] - flow_lk[k, j]) * (step_k[k] - step_k[j])
    return total
