"""Loops that look at ω before it is solved, in plain NumPy: twins of those in ``kernels_inspect``.

They have the same arguments and write the same results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unskew.engine.compilation import pays_to_compile
from unskew.records import Codes, Floats, Ints


def inspect_loops(numbers: float) -> Any:
    """Return the module whose loops to take for an ω of so many numbers."""
    if pays_to_compile(numbers):
        from unskew.solve import kernels_inspect

        return kernels_inspect
    from unskew.solve import plain_inspect

    return plain_inspect


def source_indicator(
    source_n: Codes, n_sources: int, value_n: Floats | None = None
) -> sp.csr_array:
    """(n, K) 1 where an image is of the source, or its value."""
    n = source_n.size
    data = np.ones(n) if value_n is None else value_n
    return sp.csr_array((data, source_n, np.arange(n + 1)), shape=(n, n_sources))


def column_extremes(
    omega_nk: npt.NDArray[np.floating],
    above: float,
    low_k: Floats,
    high_k: Floats,
    start: int,
    stop: int,
) -> float:
    """Find the smallest entry above ``above`` and the largest of each column of rows [start, stop).

    Returns the sum of all entries, which is finite if all of them are.
    """
    rows_nk = omega_nk[start:stop]
    with np.errstate(all="ignore"):
        check = float(rows_nk.sum(dtype=np.float64))
        is_plain = above == -np.inf and np.isfinite(check)
        # Column by column: many times as fast as along the axis of a long narrow array.
        for k, column_n in enumerate(rows_nk.T):
            kept_n = column_n if is_plain else column_n[column_n > above]
            low_k[k] = min(low_k[k], kept_n.min(initial=np.inf))
            high_k[k] = np.fmax(high_k[k], np.fmax.reduce(column_n, initial=-np.inf))
    return check


def inspect_zeros(
    omega_nk: npt.NDArray[np.floating],
    zero: float,
    source_n: Codes,
    count_n: Floats,
    link_kl: Floats,
    common_kk: Floats,
    start: int,
    stop: int,
) -> tuple[int, int]:
    """Count links and common mass of rows that hold zeros (``zero``: 0, or −inf of logarithms).

    Returns (row, code): code 1 = row zero everywhere, 2 = zero in its own source, 0 = fine.
    """
    positive_nk, own_n = omega_nk[start:stop] > zero, source_n[start:stop]
    wrong = np.flatnonzero(~positive_nk[np.arange(own_n.size), own_n])
    if wrong.size:
        return start + int(wrong[0]), 2 if positive_nk[wrong[0]].any() else 1
    has_nk = positive_nk.astype(np.float64)
    counted_nk = has_nk * count_n[start:stop, None] if count_n.size else has_nk
    link_kl += (source_indicator(own_n, link_kl.shape[1]).T @ counted_nk).T
    if common_kk.size:
        common_kk += np.tril(counted_nk.T @ has_nk)
    return -1, 0


def collapse_dense(
    omega_nk: npt.NDArray[np.floating],
    source_n: Codes,
    factor_k: Floats,
    slot_table: Ints,
    first_row: Ints,
    key_d: npt.NDArray[np.uint64],
    count_d: Floats,
    inverse_n: Codes,
    limit: int,
) -> int:
    """Give the distinct (row, source) pairs numbers in order of appearance.

    Returns how many there are, or −1 if collapsing is no use. See `kernels_inspect`.
    """
    # Column by column: a matrix product may round equal rows differently.
    key_n = source_n.astype(np.float64)
    with np.errstate(all="ignore"):
        for factor, column_n in zip(factor_k, omega_nk.T, strict=True):
            key_n += factor * column_n
    n_pairs = _number_keys(key_n, first_row, count_d, inverse_n, limit)
    if n_pairs < 0:
        return -1
    other_n = first_row[inverse_n]
    same = np.array_equal(source_n[other_n], source_n)
    return n_pairs if same and np.array_equal(omega_nk[other_n], omega_nk) else -1


def collapse_sparse(
    data: npt.NDArray[np.floating],
    column: Codes,
    indptr: Codes,
    source_n: Codes,
    factor_k: Floats,
    slot_table: Ints,
    first_row: Ints,
    key_d: npt.NDArray[np.uint64],
    count_d: Floats,
    inverse_n: Codes,
    limit: int,
) -> int:
    """Give the distinct pairs of CSR rows with sorted columns numbers."""
    length_n = np.diff(indptr)
    row_p = np.repeat(np.arange(source_n.size), length_n)
    key_n = np.asarray(
        np.bincount(row_p, factor_k[column] * data, source_n.size) + source_n, dtype=np.float64
    )
    n_pairs = _number_keys(key_n, first_row, count_d, inverse_n, limit)
    if n_pairs < 0:
        return -1
    other_n = first_row[inverse_n]
    if np.any(source_n[other_n] != source_n) or np.any(length_n[other_n] != length_n):
        return -1
    other_p = np.arange(row_p.size) + (indptr[other_n] - indptr[:-1])[row_p]
    same = np.array_equal(column[other_p], column) and np.array_equal(data[other_p], data)
    return n_pairs if same else -1


def _number_keys(
    key_n: Floats, first_row: Ints, count_d: Floats, inverse_n: Codes, limit: int
) -> int:
    _, first, inverse, count = np.unique(
        key_n, return_index=True, return_inverse=True, return_counts=True
    )
    if first.size > limit:
        return -1
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    first_row[: first.size], count_d[: first.size] = first[order], count[order]
    inverse_n[:] = number[inverse]
    return first.size


def choose_stratified(source_n: Codes, stride_k: Floats, next_k: Floats, chosen: Ints) -> int:
    """Choose a systematic sample of rows; returns how many."""
    # Of 16 bits, so that it is sorted by radix; most pools have few sources.
    narrow = source_n.astype(np.uint16) if stride_k.size <= 1 << 16 else source_n
    order = np.argsort(narrow, kind="stable")
    bounds = np.searchsorted(source_n[order], np.arange(stride_k.size + 1))
    taken = []
    for k, stride in enumerate(stride_k):
        own = order[bounds[k] : bounds[k + 1]]
        # Added up one by one, as the compiled loop does, so that both round alike.
        place = np.full(int((own.size - next_k[k]) / stride) + 2, stride)
        place[0] = next_k[k]
        place = np.ceil(np.cumsum(place)).astype(np.int64)
        taken.append(own[place[place < own.size]])
    rows = np.sort(np.concatenate(taken))[: chosen.size]
    chosen[: rows.size] = rows
    return rows.size
