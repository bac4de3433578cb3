"""Compiled loops over the rows of ω: one sweep reads each row once and never writes anything of the size of ω.

Everything here releases the GIL and works on the row range ``[start, stop)``, so that ranges run on threads. Importing this file loads
Numba: other files import it inside the functions that need it. Shapes are in the names: ``omega_nk``, ``flow_lk``.

Conventions of all sweeps, with s_i = Σ_k a_k ω_ik, a_k = e^{u_k} and the membership q_ik = a_k ω_ik / s_i:

``flow_lk[l, k] += Σ_{i in source l} c_i q_ik / a_k``
    how much of source l's images the model ascribes to source k (callers multiply by a_k once). Sums of positive terms:
    each entry has a small *relative* error, which is what makes weak overlap solvable. With ``by_source=False`` all goes to row 0.
``cross_kk[k, l] += Σ_i c_i q_ik q_il / (a_k a_l)`` for l < k only
    the off-diagonal part of QᵀQ; the Hessian's diagonal follows from it because its rows sum to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered and fused (that is what vectorises them), but NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_ROWS = 256  # rows per tile: 256 x 24 doubles stay in a 64 KB first- and second-level cache
_FLUSH = 2048  # rows summed before adding to the total, so that rounding errors do not grow with n


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return njit(nogil=True, cache=True, fastmath=_FAST)(function)  # type: ignore[no-any-return]


@_compiled
def _log_product(value_n, m):
    """Σ_i log value_n[i] with one logarithm for eight factors; the caller guarantees 1e-38 < value < 1e38."""
    h = m // 8
    total = 0.0
    for i in range(h):
        low = (value_n[i] * value_n[i + h]) * (value_n[i + 2 * h] * value_n[i + 3 * h])
        high = (value_n[i + 4 * h] * value_n[i + 5 * h]) * (value_n[i + 6 * h] * value_n[i + 7 * h])
        total += math.log(low * high)
    for i in range(8 * h, m):
        total += math.log(value_n[i])
    return total


@_compiled
def sweep_few(omega_nk, source_n, count_n, a_k, flow_lk, cross_kk, with_cross, by_source, start, stop):
    """Objective, flow and cross products for few sources: tiles of rows are transposed so that loops run over rows.

    Returns (Σ c log s, Σ c / s, min s, max s).
    """
    n_sources = a_k.size
    weighted = count_n.size > 0
    tile_kn = np.empty((n_sources, _ROWS))
    sum_n = np.empty(_ROWS)
    value, total, low, high = 0.0, 0.0, np.inf, 0.0
    for first in range(start, stop, _ROWS):
        m = min(_ROWS, stop - first)
        for i in range(m):
            sum_n[i] = 0.0
        k = 0
        while k + 4 <= n_sources:
            a0, a1, a2, a3 = a_k[k], a_k[k + 1], a_k[k + 2], a_k[k + 3]
            t0, t1, t2, t3 = tile_kn[k], tile_kn[k + 1], tile_kn[k + 2], tile_kn[k + 3]
            columns = omega_nk[first : first + m, k : k + 4]
            for i in range(m):
                x0, x1, x2, x3 = columns[i, 0], columns[i, 1], columns[i, 2], columns[i, 3]
                t0[i], t1[i], t2[i], t3[i] = x0, x1, x2, x3
                sum_n[i] += (a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3)
            k += 4
        while k < n_sources:
            tile_n = tile_kn[k]
            for i in range(m):
                x = omega_nk[first + i, k]
                tile_n[i] = x
                sum_n[i] += a_k[k] * x
            k += 1
        for i in range(m):
            low = min(low, sum_n[i])
            high = max(high, sum_n[i])
        if weighted:
            for i in range(m):
                value += count_n[first + i] * math.log(sum_n[i])
        elif low > 1e-38 and high < 1e38:
            value += _log_product(sum_n, m)
        else:
            for i in range(m):
                value += math.log(sum_n[i])
        for i in range(m):
            sum_n[i] = 1.0 / sum_n[i]
        for k in range(n_sources):
            tile_n = tile_kn[k]
            for i in range(m):
                tile_n[i] *= sum_n[i]
        if with_cross:
            _add_cross_products(tile_kn, count_n[first : first + m], m, cross_kk)
        if weighted:
            for k in range(n_sources):
                tile_n = tile_kn[k]
                for i in range(m):
                    tile_n[i] *= count_n[first + i]
            for i in range(m):
                sum_n[i] *= count_n[first + i]
        part = 0.0
        for i in range(m):
            part += sum_n[i]
        total += part
        _add_flow(tile_kn, source_n[first : first + m], m, flow_lk, by_source)
    return value, total, low, high


@_compiled
def _add_flow(tile_kn, source_n, m, flow_lk, by_source):
    n_sources = tile_kn.shape[0]
    one_source = True
    if by_source:
        for i in range(m):
            one_source &= source_n[i] == source_n[0]
    if one_source:
        row = source_n[0] if by_source else 0
        for k in range(n_sources):
            tile_n = tile_kn[k]
            part = 0.0
            for i in range(m):
                part += tile_n[i]
            flow_lk[row, k] += part
    else:
        for i in range(m):
            flow_k = flow_lk[source_n[i]]
            for k in range(n_sources):
                flow_k[k] += tile_kn[k, i]


@_compiled
def _add_cross_products(tile_kn, count_n, m, cross_kk):
    n_sources = tile_kn.shape[0]
    left_n = np.empty(_ROWS)
    for k in range(1, n_sources):
        for i in range(m):
            left_n[i] = tile_kn[k, i]
        if count_n.size > 0:
            for i in range(m):
                left_n[i] *= count_n[i]
        j = 0
        while j + 4 <= k:
            t0, t1, t2, t3 = tile_kn[j], tile_kn[j + 1], tile_kn[j + 2], tile_kn[j + 3]
            p0, p1, p2, p3 = 0.0, 0.0, 0.0, 0.0
            for i in range(m):
                x = left_n[i]
                p0 += x * t0[i]
                p1 += x * t1[i]
                p2 += x * t2[i]
                p3 += x * t3[i]
            cross_kk[k, j] += p0
            cross_kk[k, j + 1] += p1
            cross_kk[k, j + 2] += p2
            cross_kk[k, j + 3] += p3
            j += 4
        while j < k:
            t0 = tile_kn[j]
            p0 = 0.0
            for i in range(m):
                p0 += left_n[i] * t0[i]
            cross_kk[k, j] += p0
            j += 1


@_compiled
def sweep_many(omega_nk, source_n, count_n, a_k, flow_lk, scale_n, start, stop):
    """Objective and flow for many sources, row by row; ``scale_n[i - start]`` becomes sqrt(c_i)/s_i for the caller's matrix product.

    Returns (Σ c log s, Σ c / s, min s, max s). An empty ``scale_n`` is not written.
    """
    n_sources = a_k.size
    weighted = count_n.size > 0
    part_lk = np.zeros_like(flow_lk)
    value, total, low, high = 0.0, 0.0, np.inf, 0.0
    for first in range(start, stop, _FLUSH):
        part = 0.0
        for i in range(first, min(first + _FLUSH, stop)):
            row_k = omega_nk[i]
            s = 0.0
            for k in range(n_sources):
                s += a_k[k] * row_k[k]
            low = min(low, s)
            high = max(high, s)
            count = count_n[i] if weighted else 1.0
            value += count * math.log(s)
            if scale_n.size > 0:
                scale_n[i - start] = math.sqrt(count) / s
            r = count / s
            part += r
            flow_k = part_lk[source_n[i]]
            for k in range(n_sources):
                flow_k[k] += r * row_k[k]
        total += part
        for j in range(flow_lk.shape[0]):
            for k in range(n_sources):
                flow_lk[j, k] += part_lk[j, k]
                part_lk[j, k] = 0.0
    return value, total, low, high


@_compiled
def sweep_sparse(data, column, indptr, source_n, count_n, a_k, flow_b, cross_b, stride, shift, with_cross, start, stop):
    """The same for CSR rows with sorted columns; cross products cost the square of the non-zeros of a row, not of K.

    The K x K sums are stored flat, entry (k, l) at ``k * stride + shift + l``: a band around the diagonal stays in cache.
    """
    weighted = count_n.size > 0
    value, total, low, high = 0.0, 0.0, np.inf, 0.0
    product, factors = 1.0, 0
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        s = 0.0
        for p in range(begin, end):
            s += a_k[column[p]] * data[p]
        low = min(low, s)
        high = max(high, s)
        count = count_n[i] if weighted else 1.0
        if weighted or s < 1e-70 or s > 1e70:
            value += count * math.log(s)
        else:
            product *= s
            factors += 1
            if factors == 4:
                value += math.log(product)
                product, factors = 1.0, 0
        r = count / s
        total += r
        at = source_n[i] * stride + shift
        for p in range(begin, end):
            flow_b[at + column[p]] += r * data[p]
        if with_cross:
            r /= s
            for p in range(begin, end):
                x = r * data[p]
                at = column[p] * stride + shift
                for o in range(begin, p):
                    cross_b[at + column[o]] += x * data[o]
    return value + math.log(product), total, low, high


@_compiled
def row_sums(omega_nk, a_k, sum_n, start, stop):
    """sum_n[i] = Σ_k a_k ω_ik."""
    n_sources = a_k.size
    for i in range(start, stop):
        row_k = omega_nk[i]
        s = 0.0
        for k in range(n_sources):
            s += a_k[k] * row_k[k]
        sum_n[i] = s


@_compiled
def total_inverse(omega_nk, count_n, a_k, start, stop):
    """Σ_i c_i / Σ_k a_k ω_ik."""
    n_sources = a_k.size
    weighted = count_n.size > 0
    total = 0.0
    for first in range(start, stop, _FLUSH):
        part = 0.0
        for i in range(first, min(first + _FLUSH, stop)):
            row_k = omega_nk[i]
            s = 0.0
            for k in range(n_sources):
                s += a_k[k] * row_k[k]
            part += (count_n[i] if weighted else 1.0) / s
        total += part
    return total


@_compiled
def column_extremes(flat, n_sources, low_k, high_k, start, stop):
    """Smallest and largest entry of each column of the rows [start, stop), and whether one is NaN.

    Eight rows are read as one long row: the loop then vectorises whatever K is.
    """
    width = 8 * n_sources
    low_j = np.full(width, np.inf)
    high_j = np.full(width, -np.inf)
    check_j = np.zeros(width)
    position, end = start * n_sources, stop * n_sources
    while position + width <= end:
        row_j = flat[position : position + width]
        for j in range(width):
            x = row_j[j]
            low_j[j] = min(low_j[j], x)
            high_j[j] = max(high_j[j], x)
            check_j[j] += x - x  # stays 0 unless x is NaN or infinite
        position += width
    bad = 0.0
    for j in range(width):
        k = j % n_sources
        low_k[k] = min(low_k[k], low_j[j])
        high_k[k] = max(high_k[k], high_j[j])
        bad += check_j[j]
    for p in range(position, end):
        x = flat[p]
        k = p % n_sources
        low_k[k] = min(low_k[k], x)
        high_k[k] = max(high_k[k], x)
        bad += x - x
    return bad != 0.0


@_compiled
def inspect_zeros(omega_nk, source_n, count_n, low_k, link_kl, common_kk, start, stop):
    """Links and common mass of rows that hold zeros, and the smallest positive ω of each column.

    Returns (row, code): code 1 = row zero everywhere, 2 = zero in its own source, 0 = fine.
    """
    n_sources = omega_nk.shape[1]
    weighted = count_n.size > 0
    positive = np.empty(n_sources, np.int64)
    for i in range(start, stop):
        row_k = omega_nk[i]
        m = 0
        for k in range(n_sources):
            x = row_k[k]
            if x > 0.0:
                low_k[k] = min(low_k[k], x)
                positive[m] = k
                m += 1
        own = source_n[i]
        if not row_k[own] > 0.0:
            return i, (1 if m == 0 else 2)
        count = count_n[i] if weighted else 1.0
        if common_kk.size > 0:
            for p in range(m):
                k = positive[p]
                link_kl[k, own] += count
                for o in range(p + 1):
                    common_kk[k, positive[o]] += count
        else:
            for p in range(m):
                link_kl[positive[p], own] += count
    return -1, 0


@_compiled
def inspect_sparse(data, column, indptr, source_n, count_n, low_k, high_k, link_b, common_b, stride, shift, start, stop):
    """The same for CSR rows, sums stored as in ``sweep_sparse``; also the largest entry. Code 3 = NaN, infinite or negative."""
    weighted = count_n.size > 0
    for i in range(start, stop):
        own_positive = False
        begin, end = indptr[i], indptr[i + 1]
        own = source_n[i]
        count = count_n[i] if weighted else 1.0
        m = 0
        for p in range(begin, end):
            x = data[p]
            k = column[p]
            if not (x >= 0.0 and x < np.inf):
                return i, 3
            if x > 0.0:
                m += 1
                own_positive |= k == own
                low_k[k] = min(low_k[k], x)
                high_k[k] = max(high_k[k], x)
                at = k * stride + shift
                link_b[at + own] += count
                for o in range(begin, p + 1):
                    common_b[at + column[o]] += count if data[o] > 0.0 else 0.0
        if not own_positive:
            return i, (1 if m == 0 else 2)
    return -1, 0


@_compiled
def collapse_dense(bits_nk, source_n, factor_k, slot_table, first_row, key_d, inverse_n, limit):
    """Number the distinct (row, source) pairs in order of appearance; returns how many, or -1 if collapsing is no use.

    ``slot_table`` is an open-addressing hash table of pair numbers (power-of-two size, -1 = free), ``first_row[d]`` the row where
    pair d was first seen, ``key_d[d]`` its 64-bit key. Every row is compared with its pair in full at the end of its tile: if two
    different rows ever share a key, the answer is -1, never a wrong number. -1 too if there are more than ``limit`` pairs.
    """
    n_rows, n_sources = bits_nk.shape
    mask = np.uint64(slot_table.size - 1)
    key_n = np.empty(_ROWS, np.uint64)
    found = 0
    for first in range(0, n_rows, _ROWS):
        m = min(_ROWS, n_rows - first)
        for i in range(m):
            # Independent products add up (multilinear hashing); the high bits are the good ones.
            key = np.uint64(source_n[first + i]) * np.uint64(0x9E3779B97F4A7C15)
            row_k = bits_nk[first + i]
            for k in range(n_sources):
                key += np.uint64(row_k[k]) * factor_k[k]
            key_n[i] = (key ^ (key >> np.uint64(32))) * np.uint64(0x9FB21C651E98DF25)
        for i in range(m):
            slot = (key_n[i] >> np.uint64(20)) & mask
            while True:
                pair = slot_table[slot]
                if pair < 0:
                    if found >= limit:
                        return -1
                    slot_table[slot] = found
                    first_row[found] = first + i
                    key_d[found] = key_n[i]
                    inverse_n[first + i] = found
                    found += 1
                    break
                if key_d[pair] == key_n[i]:
                    inverse_n[first + i] = pair
                    break
                slot = (slot + np.uint64(1)) & mask
        differs = False
        for i in range(first, first + m):
            other = first_row[inverse_n[i]]
            differs |= source_n[other] != source_n[i]
            for k in range(n_sources):
                differs |= bits_nk[other, k] != bits_nk[i, k]
        if differs:
            return -1
    return found


@_compiled
def widest_row(column, indptr):
    """Largest distance between the first and the last column of a row: no two sources further apart share an image."""
    widest = 0
    for i in range(indptr.size - 1):
        if indptr[i + 1] > indptr[i]:
            widest = max(widest, column[indptr[i + 1] - 1] - column[indptr[i]])
    return widest


@_compiled
def expand_band(flat_b, stride, shift, band, n_sources):
    """(K, K) from the flat storage of ``sweep_sparse``; entries further than ``band`` from the diagonal are zero."""
    out = np.zeros((n_sources, n_sources))
    for k in range(n_sources):
        for j in range(max(0, k - band), min(n_sources, k + band + 1)):
            out[k, j] = flat_b[k * stride + shift + j]
    return out


@_compiled
def mirror(matrix_kk, band):
    """Copy the lower triangle to the upper one."""
    for k in range(matrix_kk.shape[0]):
        for j in range(max(0, k - band), k):
            matrix_kk[j, k] = matrix_kk[k, j]


@_compiled
def finish_sums(flow_lk, cross_kk, a_k, band):
    """Multiply in the factors a_k that the sweeps left out, mirror the lower triangle of ``cross_kk`` and clear its diagonal."""
    for j in range(flow_lk.shape[0]):
        for k in range(max(0, j - band), min(a_k.size, j + band + 1)):
            flow_lk[j, k] *= a_k[k]
    if cross_kk.size > 0:
        for k in range(a_k.size):
            cross_kk[k, k] = 0.0
            for j in range(max(0, k - band), k):
                cross_kk[k, j] *= a_k[k] * a_k[j]
                cross_kk[j, k] = cross_kk[k, j]


@_compiled
def widest_paths(capacity_kl):
    """(width, from, to): the widest path from node 0 to the node that is hardest to reach, and its narrowest edge.

    Dijkstra's algorithm with the minimum along a path in place of the sum; the width is 0 if some node cannot be reached.
    """
    n_nodes = capacity_kl.shape[0]
    width = np.zeros(n_nodes)
    done = np.zeros(n_nodes, np.bool_)
    narrow_from = np.zeros(n_nodes, np.int64)
    narrow_to = np.zeros(n_nodes, np.int64)
    width[0] = np.inf
    least, worst = np.inf, 0
    for _ in range(n_nodes):
        node = -1
        for k in range(n_nodes):
            if not done[k] and (node < 0 or width[k] > width[node]):
                node = k
        done[node] = True
        if width[node] < least:
            least, worst = width[node], node
        for k in range(n_nodes):
            edge = capacity_kl[node, k]
            if not done[k] and min(width[node], edge) > width[k]:
                if edge < width[node]:
                    width[k], narrow_from[k], narrow_to[k] = edge, node, k
                else:
                    width[k], narrow_from[k], narrow_to[k] = width[node], narrow_from[node], narrow_to[node]
    return least, narrow_from[worst], narrow_to[worst]


@_compiled
def choose_stratified(source_n, stride_k, next_k, chosen):
    """Row numbers of a systematic sample, every ``stride_k[l]``-th row of source l from its ``next_k[l]``-th on; returns how many."""
    seen_k = np.zeros(stride_k.size)
    taken = 0
    for i in range(source_n.size):
        k = source_n[i]
        if seen_k[k] >= next_k[k] and taken < chosen.size:
            chosen[taken] = i
            taken += 1
            next_k[k] += stride_k[k]
        seen_k[k] += 1.0
    return taken


@_compiled
def eliminate(weight_kk, flow_kk, band, order, pivot_k, step_k):
    """Solve the Laplacian system L x = b without a single cancellation between sources, in place.

    L_kl = −weight_kl (k ≠ l), rows summing to zero; b_k = Σ_l flow_kl with flow antisymmetric. Eliminating node k joins its
    neighbours: weight_ij += w_ik w_kj / w_k and flow_ij += (w_jk f_ik − w_ik f_jk) / w_k, where w_k = Σ_j w_kj is a sum of positive
    terms (Grassmann, Taksar & Heyman 1985). So a link of 1e-12 beside others of size 1 is solved to full relative precision.
    Nodes are taken in order where a narrow ``band`` bounds the work, else by smallest degree. Returns False if a pivot vanishes.
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
    return True


@_compiled
def balance(log_in, log_out, neighbour, indptr, shift_k, sweeps, enough):
    """Osborne's iteration: shifts δ that balance the flows e^{log_flow_kl + δ_k − δ_l} at every node, in logarithms.

    The pairs of node k are ``indptr[k]:indptr[k + 1]``, with ``log_in`` = log_flow[k, l] and ``log_out`` = log_flow[l, k] for
    l = ``neighbour``. δ_k ← ½ log(Σ_l e^{out_l + δ_l} / Σ_l e^{in_l − δ_l}); stops when no shift moves by more than ``enough``.
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


@_compiled
def longest_local_step(cross_kk, step_k, band):
    """Largest |step_k − step_l| over the pairs of sources that share images."""
    longest = 0.0
    for k in range(step_k.size):
        for j in range(max(0, k - band), k):
            if cross_kk[k, j] > 0.0:
                longest = max(longest, abs(step_k[k] - step_k[j]))
    return longest


@_compiled
def antisymmetric(flow_lk, band):
    """F − Fᵀ."""
    out = np.zeros_like(flow_lk)
    for k in range(flow_lk.shape[0]):
        for j in range(max(0, k - band), k):
            x = flow_lk[k, j] - flow_lk[j, k]
            out[k, j] = x
            out[j, k] = -x
    return out


@_compiled
def divergence(flow_lk, band):
    """Σ_l (F_kl − F_lk) for every k, where F_kl = flow_lk[l, k]."""
    n_sources = flow_lk.shape[0]
    out = np.zeros(n_sources)
    for k in range(n_sources):
        for j in range(max(0, k - band), k):
            x = flow_lk[j, k] - flow_lk[k, j]
            out[k] += x
            out[j] -= x
    return out
