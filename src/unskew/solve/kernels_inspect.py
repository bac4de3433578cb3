"""Compiled loops that look at ω before it is solved.

Extremes, zeros, links, equal rows, a stratified choice of rows. Importing this file loads Numba:
other files import it inside the functions that need it.
"""

from __future__ import annotations

import numpy as np

from unskew.engine.compilation import TILE_ROWS, compiled

FEW_COLUMNS = 8  # so many columns have few enough patterns of zeros to count images by them


@compiled
def column_extremes(omega_nk, above, low_k, high_k, start, stop):
    """Find the smallest entry above ``above`` and the largest of each column of rows [start, stop).

    Returns the sum of all entries, which is finite if all of them are.

    Four columns at a time are one vector; written with comparisons because these compile to one
    instruction each, unlike min and max.
    """
    n_sources = omega_nk.shape[1]
    check = 0.0
    for first in range(start, stop, TILE_ROWS):
        m = min(TILE_ROWS, stop - first)
        k = 0
        while k + 4 <= n_sources:
            columns = omega_nk[first : first + m, k : k + 4]
            l0, l1, l2, l3 = low_k[k], low_k[k + 1], low_k[k + 2], low_k[k + 3]
            h0, h1, h2, h3 = high_k[k], high_k[k + 1], high_k[k + 2], high_k[k + 3]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for i in range(m):
                x0, x1, x2, x3 = columns[i, 0], columns[i, 1], columns[i, 2], columns[i, 3]
                l0, l1 = (x0 if above < x0 < l0 else l0), (x1 if above < x1 < l1 else l1)
                l2, l3 = (x2 if above < x2 < l2 else l2), (x3 if above < x3 < l3 else l3)
                h0, h1, h2, h3 = (
                    (x0 if x0 > h0 else h0),
                    (x1 if x1 > h1 else h1),
                    (x2 if x2 > h2 else h2),
                    (x3 if x3 > h3 else h3),
                )
                s0 += x0
                s1 += x1
                s2 += x2
                s3 += x3
            low_k[k], low_k[k + 1], low_k[k + 2], low_k[k + 3] = l0, l1, l2, l3
            high_k[k], high_k[k + 1], high_k[k + 2], high_k[k + 3] = h0, h1, h2, h3
            check += (s0 + s1) + (s2 + s3)
            k += 4
        while k < n_sources:
            l0, h0, s0 = low_k[k], high_k[k], 0.0
            for i in range(first, first + m):
                x0 = omega_nk[i, k]
                l0, h0 = (x0 if above < x0 < l0 else l0), (x0 if x0 > h0 else h0)
                s0 += x0
            low_k[k], high_k[k] = l0, h0
            check += s0
            k += 1
    return check


@compiled
def _inspect_few(omega_nk, zero, source_n, count_n, link_kl, common_kk, start, stop):
    """Do what `inspect_zeros` does where there are few columns."""
    n_sources = omega_nk.shape[1]
    weighted = count_n.size > 0
    count_pk = np.zeros((1 << n_sources, n_sources))
    for i in range(start, stop):
        pattern = 0
        for k in range(n_sources):
            pattern |= (omega_nk[i, k] > zero) << k
        own = source_n[i]
        if not (pattern >> own) & 1:
            return i, (1 if pattern == 0 else 2)
        count_pk[pattern, own] += count_n[i] if weighted else 1.0
    for pattern in range(count_pk.shape[0]):
        count = count_pk[pattern].sum()
        for k in range(n_sources):
            if (pattern >> k) & 1:
                link_kl[k] += count_pk[pattern]
                for o in range(k + 1):
                    common_kk[k, o] += count if (pattern >> o) & 1 else 0.0
    return -1, 0


@compiled
def inspect_zeros(omega_nk, zero, source_n, count_n, link_kl, common_kk, start, stop):
    """Count links and common mass of rows that hold zeros (``zero``: 0, or −inf of logarithms).

    Returns (row, code): code 1 = row zero everywhere, 2 = zero in its own source, 0 = fine.
    """
    n_sources = omega_nk.shape[1]
    if common_kk.size > 0 and n_sources <= FEW_COLUMNS:
        return _inspect_few(omega_nk, zero, source_n, count_n, link_kl, common_kk, start, stop)
    weighted = count_n.size > 0
    positive = np.empty(n_sources, np.int64)
    for i in range(start, stop):
        row_k = omega_nk[i]
        m = 0
        for k in range(n_sources):
            if row_k[k] > zero:
                positive[m] = k
                m += 1
        own = source_n[i]
        if not row_k[own] > zero:
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


@compiled
def inspect_sparse(
    data,
    column,
    indptr,
    source_n,
    count_n,
    low_k,
    high_k,
    link_b,
    common_b,
    stride,
    shift,
    start,
    stop,
):
    """Count links and common mass of CSR rows, and find the largest entry.

    Sums are stored as in ``sweep_sparse``. Code 3 = NaN, infinite or negative.
    """
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


@compiled
def collapse_dense(
    omega_nk, source_n, factor_k, slot_table, first_row, key_d, count_d, inverse_n, limit
):
    """Give the distinct (row, source) pairs numbers in order of appearance.

    Returns how many there are, or −1 if collapsing is no use. ``slot_table`` is an open-addressing
    hash table of pair numbers (power-of-two size, -1 = free); ``first_row[d]`` is the row where
    pair d was first seen, ``key_d[d]`` its key (a random combination of its entries, bit by bit),
    ``count_d[d]`` how often it was seen. Every row is compared with its pair in full at the end of
    its tile: if two different rows ever share a key, the answer is -1, never a wrong number. -1 too
    if there are more than ``limit`` pairs.
    """
    n_rows, n_sources = omega_nk.shape
    mix_n = np.empty(TILE_ROWS)
    key_n = mix_n.view(np.uint64)
    n_pairs = 0
    for first in range(0, n_rows, TILE_ROWS):
        m = min(TILE_ROWS, n_rows - first)
        for i in range(m):
            mix_n[i] = source_n[first + i]
        k = 0
        while k + 4 <= n_sources:
            f0, f1, f2, f3 = factor_k[k], factor_k[k + 1], factor_k[k + 2], factor_k[k + 3]
            columns = omega_nk[first : first + m, k : k + 4]
            for i in range(m):
                mix_n[i] += (f0 * columns[i, 0] + f1 * columns[i, 1]) + (
                    f2 * columns[i, 2] + f3 * columns[i, 3]
                )
            k += 4
        while k < n_sources:
            for i in range(m):
                mix_n[i] += factor_k[k] * omega_nk[first + i, k]
            k += 1
        for i in range(m):
            key_n[i] *= np.uint64(0x9FB21C651E98DF25)
        for i in range(first, first + m):
            pair = _pair_of(key_n[i - first], slot_table, key_d, n_pairs, limit)
            if pair < 0:
                return -1
            if pair == n_pairs:
                first_row[n_pairs] = i
                n_pairs += 1
            inverse_n[i] = pair
            count_d[pair] += 1.0
        differs = False
        for i in range(first, first + m):
            other = first_row[inverse_n[i]]
            differs |= source_n[other] != source_n[i]
            own_k, other_k = omega_nk[i], omega_nk[other]
            for k in range(n_sources):
                differs |= own_k[k] != other_k[k]
        if differs:
            return -1
    return n_pairs


@compiled
def _pair_of(key, slot_table, key_d, n_pairs, limit):
    """Find the pair that has this key, or add it as number ``n_pairs``."""
    mask = np.uint64(slot_table.size - 1)
    slot = (key >> np.uint64(44)) & mask
    pair = slot_table[slot]
    while pair >= 0 and key_d[pair] != key:
        slot = (slot + np.uint64(1)) & mask
        pair = slot_table[slot]
    if pair >= 0:
        return pair
    if n_pairs >= limit:
        return -1
    slot_table[slot] = n_pairs
    key_d[n_pairs] = key
    return n_pairs


@compiled
def collapse_sparse(
    data,
    column,
    indptr,
    source_n,
    factor_k,
    slot_table,
    first_row,
    key_d,
    count_d,
    inverse_n,
    limit,
):
    """Give the distinct pairs of CSR rows with sorted columns numbers."""
    mix = np.empty(1)
    key_of_mix = mix.view(np.uint64)
    n_pairs = 0
    for i in range(source_n.size):
        mix[0] = source_n[i]
        for p in range(indptr[i], indptr[i + 1]):
            mix[0] += factor_k[column[p]] * data[p]
        pair = _pair_of(
            key_of_mix[0] * np.uint64(0x9FB21C651E98DF25), slot_table, key_d, n_pairs, limit
        )
        if pair < 0:
            return -1
        if pair == n_pairs:
            first_row[n_pairs] = i
            n_pairs += 1
        other = first_row[pair]
        shift = indptr[other] - indptr[i]
        same = (
            source_n[other] == source_n[i]
            and indptr[other + 1] - indptr[other] == indptr[i + 1] - indptr[i]
        )
        if same:
            for p in range(indptr[i], indptr[i + 1]):
                same &= column[p] == column[p + shift] and data[p] == data[p + shift]
        if not same:
            return -1
        inverse_n[i] = pair
        count_d[pair] += 1.0
    return n_pairs


@compiled
def choose_stratified(source_n, stride_k, next_k, chosen):
    """Choose a systematic sample of rows; returns how many.

    It is every ``stride_k[l]``-th row of source l from its ``next_k[l]``-th on.
    """
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
