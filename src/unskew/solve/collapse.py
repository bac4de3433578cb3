"""Identical rows collapsed to counts.

Strata, boxes and indicators have few distinct rows, and then the solve no longer depends on n. What
is kept is the distinct (row, source) pairs, so that counts stay apart by source (the overlap graph
and the bootstrap need that).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unskew.engine.row_blocks import ArrayReader, RowBlock, SparseReader, plain_csr
from unskew.records import Codes, Floats, Ints
from unskew.solve.omega_rows import Rows
from unskew.solve.plain_inspect import inspect_loops

_TRIAL_ROWS = 512
# Collapsing pays if it leaves at most one row in eight; a trial with more than half distinct rows
# will not get there.
_PAYS = 8
_MOST_PAIRS = 1 << 16
_WIDEST = 4096


def collapse_rows(rows: Rows) -> tuple[Rows, Ints | None]:
    """Return the distinct rows with counts, and where each was first seen.

    Rows stay unchanged, and the second is None, where that does not pay.
    """
    unchanged = (rows, None)
    if rows.count_n.size or rows.n_stored < 64 or (rows.n_sources > _WIDEST and not rows.is_sparse):
        return unchanged
    on_trial = _distinct_on_trial(rows)
    if on_trial is None:
        return unchanged
    # A small table stays in the first-level cache; what a trial saw 32 times over is hardly ever
    # exceeded.
    limit = min(max(rows.n_stored // _PAYS, 16), _MOST_PAIRS, max(1024, 32 * on_trial))
    numbered = _number_pairs(rows, limit)
    if numbered is None:
        return unchanged
    pairs, pattern_nk = numbered
    collapsed = replace(
        rows,
        reader=SparseReader(pattern_nk) if sp.issparse(pattern_nk) else ArrayReader(pattern_nk),
        source_n=rows.source_n[pairs.first_row],
        count_n=pairs.count_d,
        inverse_n=pairs.inverse_n,
    )
    return collapsed, pairs.first_row


def _distinct_on_trial(rows: Rows) -> int | None:
    """Count the distinct pairs among a few rows of the first block; None if most are distinct."""
    first = next(iter(rows.reader.blocks()), None)
    if first is None:
        return None
    chosen = np.linspace(0, first.shape[0] - 1, min(_TRIAL_ROWS, first.shape[0])).astype(np.int64)
    pairs = _distinct(first[chosen], rows.source_n[chosen], max(chosen.size // 2, 16))
    return None if pairs is None else pairs.count_d.size


@dataclass(frozen=True)
class _Pairs:
    """Distinct (row, source) pairs: where first seen, how often, and the pair of every row."""

    first_row: Ints
    count_d: Floats
    inverse_n: Codes


def _distinct(omega: RowBlock, source_n: Codes, limit: int) -> _Pairs | None:
    """Find the distinct pairs, or return None if there are more than ``limit``."""
    loops = inspect_loops(omega.nnz if sp.issparse(omega) else omega.size)
    factor_k = 1 + (np.arange(1, omega.shape[1] + 1) * 0.6180339887498949) % 1
    slots = np.full(
        1 << max(6, int(2 * limit).bit_length()), -1, dtype=np.int64
    )  # at most half full
    first_row, key_d, count_d = (
        np.empty(limit, dtype=np.int64),
        np.empty(limit, dtype=np.uint64),
        np.zeros(limit),
    )
    inverse_n = np.empty(omega.shape[0], dtype=np.int32)
    table = (factor_k, slots, first_row, key_d, count_d, inverse_n, limit)
    if sp.issparse(omega):
        numbered = loops.collapse_sparse(omega.data, omega.indices, omega.indptr, source_n, *table)
    else:
        numbered = loops.collapse_dense(omega, source_n, *table)
    return None if numbered < 0 else _Pairs(first_row[:numbered], count_d[:numbered], inverse_n)


def _number_pairs(rows: Rows, limit: int) -> tuple[_Pairs, RowBlock] | None:
    """Return (pairs, distinct rows) over all blocks, or None if pairs exceed ``limit``."""
    first_row, count_d = np.empty(0, dtype=np.int64), np.empty(0)
    inverse_n = np.empty(rows.n_stored, dtype=np.int32)
    pattern_nk: RowBlock = None
    for block in rows.blocks():
        # Known pairs come before the block's own rows, so that one numbering serves both.
        known = first_row.size
        omega = block.omega if pattern_nk is None else _stacked(pattern_nk, block.omega)
        source_n = (
            np.concatenate([rows.source_n[first_row], block.source_n]) if known else block.source_n
        )
        numbered = _distinct(omega, source_n, limit)
        if numbered is None:
            return None
        inverse_n[block.start : block.stop] = numbered.inverse_n[known:]
        first_row = np.concatenate([first_row, numbered.first_row[known:] - known + block.start])
        count_d = numbered.count_d + np.pad(
            count_d - 1, (0, numbered.count_d.size - known)
        )  # each known pair stood there once
        pattern_nk = omega[numbered.first_row]
    return None if pattern_nk is None else (_Pairs(first_row, count_d, inverse_n), pattern_nk)


def _stacked(upper: RowBlock, lower: RowBlock) -> RowBlock:
    if sp.issparse(upper) or sp.issparse(lower):
        return plain_csr(sp.vstack([sp.csr_array(upper), sp.csr_array(lower)], format="csr"))
    return np.concatenate([upper, lower])
