"""Compiled loops over the rows of ω.

One sweep reads each row once and never writes anything of the size of ω. Everything here releases
the GIL and works on the row range ``[start, stop)``, so that ranges run on threads. Importing this
file loads Numba: other files import it inside the functions that need it. Shapes are in the names:
``omega_nk``, ``flow_lk``.

Conventions of all sweeps, with s_i = Σ_k a_k ω_ik, a_k = e^{u_k} and the membership q_ik = a_k ω_ik
/ s_i:

``flow_lk[l, k] += Σ_{i in source l} c_i q_ik / a_k``
    how much of source l's images the model ascribes to source k (callers multiply by a_k once).
    Sums of positive terms: each entry has a small *relative* error, which is what makes weak
    overlap solvable. With ``by_source=False`` all goes to row 0.
``cross_kk[k, l] += Σ_i c_i q_ik q_il / (a_k a_l)`` for l < k only
    the off-diagonal part of QᵀQ; the Hessian's diagonal follows from it because its rows sum to
    zero.
"""

from __future__ import annotations

import math

import numpy as np

from unskew.engine.compilation import TILE_ROWS, compiled

_FLUSH = 2048  # rows summed before adding to the total, so that rounding errors do not grow with n


@compiled
def sweep_few(
    omega_nk,
    source_n,
    count_n,
    a_k,
    flow_lk,
    cross_kk,
    inverse_k,
    with_cross,
    by_source,
    start,
    stop,
):
    """Compute objective, flow and cross products for few sources.

    Tiles of rows are transposed so that loops run over rows. Unless it is empty, ``inverse_k`` (K +
    1) receives Σ_i q_ik/(a_k s_i), and last Σ_i 1/s_i (rows without counts only). Returns (Σ c log
    s, min s, max s).
    """
    n_sources = a_k.size
    weighted = count_n.size > 0
    tile_kn = np.empty((n_sources, TILE_ROWS))
    sum_n = np.empty(TILE_ROWS)
    part_k = np.empty(n_sources)
    value, low, high = 0.0, np.inf, 0.0
    for first in range(start, stop, TILE_ROWS):
        m = min(TILE_ROWS, stop - first)
        _load_tile(omega_nk, a_k, first, m, tile_kn, sum_n)
        for i in range(m):
            low = sum_n[i] if sum_n[i] < low else low
            high = sum_n[i] if sum_n[i] > high else high
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
        _multiply_tile(tile_kn, sum_n, m, part_k)
        if inverse_k.size > 0:
            _add_inverse(tile_kn, sum_n, m, inverse_k)
        if with_cross:
            _add_cross_products(tile_kn, count_n[first : first + m], m, cross_kk)
        if weighted:
            _multiply_tile(tile_kn, count_n[first : first + m], m, part_k)
        _add_flow(tile_kn, part_k, source_n[first : first + m], m, flow_lk, by_source)
    return value, low, high


@compiled
def _load_tile(omega_nk, a_k, first, m, tile_kn, sum_n):
    """Transpose m rows of ω into the tile, four columns at a time, and sum a_k ω_ik on the way."""
    n_sources = a_k.size
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


@compiled
def _multiply_tile(tile_kn, factor_n, m, part_k):
    """Multiply every column of the tile by ``factor_n``; ``part_k`` becomes the column sums."""
    for k in range(part_k.size):
        tile_n = tile_kn[k]
        part = 0.0
        for i in range(m):
            x = tile_n[i] * factor_n[i]
            tile_n[i] = x
            part += x
        part_k[k] = part


@compiled
def _add_inverse(tile_kn, inverse_n, m, inverse_k):
    n_sources = tile_kn.shape[0]
    for k in range(n_sources):
        tile_n = tile_kn[k]
        part = 0.0
        for i in range(m):
            part += tile_n[i] * inverse_n[i]
        inverse_k[k] += part
    part = 0.0
    for i in range(m):
        part += inverse_n[i]
    inverse_k[n_sources] += part


@compiled
def _log_product(value_n, m):
    """Compute Σ_i log value_n[i] with one logarithm for eight factors."""
    h = m // 8
    total = 0.0
    for i in range(h):
        low = (value_n[i] * value_n[i + h]) * (value_n[i + 2 * h] * value_n[i + 3 * h])
        high = (value_n[i + 4 * h] * value_n[i + 5 * h]) * (value_n[i + 6 * h] * value_n[i + 7 * h])
        total += math.log(low * high)
    for i in range(8 * h, m):
        total += math.log(value_n[i])
    return total


@compiled
def _add_flow(tile_kn, part_k, source_n, m, flow_lk, by_source):
    """Add a tile to the flows."""
    n_sources = tile_kn.shape[0]
    one_source = True
    if by_source:
        for i in range(m):
            one_source &= source_n[i] == source_n[0]
    if one_source:
        row = source_n[0] if by_source else 0
        for k in range(n_sources):
            flow_lk[row, k] += part_k[k]
    else:
        for i in range(m):
            flow_k = flow_lk[source_n[i]]
            for k in range(n_sources):
                flow_k[k] += tile_kn[k, i]


@compiled
def _add_cross_products(tile_kn, count_n, m, cross_kk):
    n_sources = tile_kn.shape[0]
    left_n = np.empty(TILE_ROWS)
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


@compiled
def sweep_many(omega_nk, source_n, count_n, a_k, flow_lk, scaled_nk, start, stop):
    """Compute objective and flow for many sources, row by row.

    ``scaled_nk[i - start]`` becomes sqrt(c_i) ω_i / s_i for the caller's product. Returns (Σ c log
    s, min s, max s). An empty ``scaled_nk`` is not written.
    """
    n_sources = a_k.size
    weighted = count_n.size > 0
    in_parts = stop - start > _FLUSH
    part_lk = np.zeros_like(flow_lk) if in_parts else flow_lk
    value, low, high = 0.0, np.inf, 0.0
    for first in range(start, stop, _FLUSH):
        for i in range(first, min(first + _FLUSH, stop)):
            row_k = omega_nk[i]
            s = 0.0
            for k in range(n_sources):
                s += a_k[k] * row_k[k]
            low = min(low, s)
            high = max(high, s)
            count = count_n[i] if weighted else 1.0
            value += count * math.log(s)
            if scaled_nk.size > 0:
                root = math.sqrt(count) / s
                scaled_k = scaled_nk[i - start]
                for k in range(n_sources):
                    scaled_k[k] = root * row_k[k]
            r = count / s
            flow_k = part_lk[source_n[i]]
            for k in range(n_sources):
                flow_k[k] += r * row_k[k]
        if in_parts:
            for j in range(flow_lk.shape[0]):
                for k in range(n_sources):
                    flow_lk[j, k] += part_lk[j, k]
                    part_lk[j, k] = 0.0
    return value, low, high


@compiled
def sweep_sparse(
    data,
    column,
    indptr,
    source_n,
    count_n,
    a_k,
    flow_b,
    cross_b,
    stride,
    shift,
    with_cross,
    start,
    stop,
):
    """Compute objective, flow and cross products for CSR rows with sorted columns.

    Cross products cost the square of the non-zeros of a row, not of K. The K x K sums are stored
    flat, entry (k, l) at ``k * stride + shift + l``: a band around the diagonal stays in cache.
    """
    weighted = count_n.size > 0
    value, low, high = 0.0, np.inf, 0.0
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
    return value + math.log(product), low, high
