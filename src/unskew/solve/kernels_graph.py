"""Compiled loops over the graph of sources: Laplacian systems, balanced flows.

Importing this file loads Numba.
"""

from __future__ import annotations

import math

import numpy as np

from unskew.engine.compilation import compiled


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
