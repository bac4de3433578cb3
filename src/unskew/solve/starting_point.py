"""Where to start: flows balanced in logarithms, on a stratified subsample.

Both work whatever the scale of ω's rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unskew.engine.compilation import PLAIN_NUMBERS
from unskew.engine.row_blocks import ArrayReader, Reader, SparseReader
from unskew.records import Floats, Ints
from unskew.solve.omega_rows import Rows
from unskew.solve.plain_graph import balance_groups, graph_loops
from unskew.solve.plain_inspect import inspect_loops

_BALANCE_ROWS = 2048
_BALANCE_SWEEPS = 20
_BALANCE_STEPS = 100
_BALANCED = 0.2
_FEW_ENOUGH = 64
# Up to here the cells of a K x K table are cheaper than sorting the pairs that occur.
_DENSE_CELLS = 1000
_FEW_ROWS_PER_SOURCE = 16


def subsample(rows: Rows, wanted: int, seed: int = 0) -> Rows:
    """Take about ``wanted`` stored rows, systematically from every source.

    They are counted so that the shares λ_k do not change. Each source gives at least a few rows, so
    that no source drops out of the equations.
    """
    stored_k = (
        np.bincount(rows.source_n, minlength=rows.n_sources) if rows.count_n.size else rows.size_k
    )
    wanted_k = np.minimum(
        stored_k, np.maximum(np.round(wanted * stored_k / rows.n_stored), _FEW_ROWS_PER_SOURCE)
    ).astype(np.int64)
    chosen = np.empty(int(wanted_k.sum()) + rows.n_sources, dtype=np.int64)
    stride_k = stored_k / wanted_k
    first_k = np.floor(stride_k * np.random.default_rng(seed).uniform(size=rows.n_sources))
    loops = inspect_loops(rows.n_stored)
    chosen = chosen[: loops.choose_stratified(rows.source_n, stride_k, first_k, chosen)]
    source_n = rows.source_n[chosen]
    count_n = rows.count_n[chosen] if rows.count_n.size else np.ones(chosen.size)
    taken_k = np.bincount(source_n, weights=count_n, minlength=rows.n_sources)
    return Rows(
        reader=_gather(rows, chosen),
        source_n=source_n,
        n_sources=rows.n_sources,
        count_n=count_n * (rows.size_k / taken_k)[source_n],
        log=rows.log,
        jobs=rows.jobs,
        numbers=PLAIN_NUMBERS + 1.0 if rows.is_large else 0.0,
    )


def _gather(rows: Rows, chosen: Ints) -> Reader:
    """Gather the chosen rows as they are stored, before any scaling."""
    pieces = []
    start = 0
    for omega in rows.reader.blocks():
        stop = start + int(omega.shape[0])
        inside = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, stop)]
        pieces.append(omega[inside - start])
        start = stop
    if any(sp.issparse(piece) for piece in pieces):
        return SparseReader(
            sp.csr_array(sp.vstack([sp.csr_array(piece) for piece in pieces], format="csr"))
        )
    return ArrayReader(
        np.ascontiguousarray(np.concatenate(pieces) if len(pieces) > 1 else pieces[0])
    )


def balanced_start(rows: Rows, *, typical: bool = False) -> Floats:
    """Find (K,) u that balances the flows between sources to first order, from a few thousand rows.

    An image of source l looks like one of source k by R_ik = log ω_ik − log ω_il. With F_kl = Σ_{i
    in l} e^{R_ik}, the flows F_kl e^{u_k − u_l} are balanced by Osborne's iteration. Scaling a row
    of ω changes nothing, scaling a column shifts its u_k. ``typical``: F_kl is what the median of
    those images gives instead, on which a single one has no influence, however large its R.
    """
    few = subsample(rows, _BALANCE_ROWS) if rows.n_stored > 2 * _BALANCE_ROWS else rows
    flows = _log_flows(few, typical)
    if rows.n_sources <= _FEW_ENOUGH:
        # Links that the few rows miss get a floor far below all others: the graph stays connected,
        # the start stays finite.
        log_flow_kl = np.full(rows.n_sources**2, flows.log_flow.min(initial=0.0) - 30.0)
        log_flow_kl[flows.cell] = flows.log_flow
        return balance_flows(log_flow_kl.reshape(rows.n_sources, rows.n_sources))
    return _balance(flows)


def balance_flows(log_flow_kl: Floats) -> Floats:
    """Find (K,) shifts δ, centred, that nearly balance the flows e^{log_flow_kl + δ_k − δ_l}.

    Balanced is: as much into every source as out of it. Osborne's iteration moves one source at a
    time; where groups of sources have to move together, Newton steps on this small convex problem
    (minimise Σ_kl e^{log_flow_kl + δ_k − δ_l}) follow.
    """
    n_sources = log_flow_kl.shape[0]
    log_flow_kl = np.array(log_flow_kl, order="C")
    np.fill_diagonal(log_flow_kl, -np.inf)
    if n_sources > _FEW_ENOUGH:
        cell = np.flatnonzero(log_flow_kl > -np.inf)
        return _balance(_Flows(n_sources, cell, log_flow_kl.ravel()[cell]))
    shift_k = np.zeros(n_sources)
    column = np.tile(np.arange(n_sources), n_sources)
    indptr = np.arange(0, n_sources * n_sources + 1, n_sources)
    graph_loops(n_sources).balance(
        log_flow_kl.ravel(),
        log_flow_kl.T.ravel(),
        column,
        indptr,
        shift_k,
        _BALANCE_SWEEPS,
        _BALANCED,
    )
    balance_groups(log_flow_kl, shift_k, _BALANCE_STEPS, _BALANCED)
    return np.asarray(shift_k - shift_k.mean())


@dataclass(frozen=True)
class _Flows:
    """Logarithms of the positive flows between different sources.

    ``log_flow[p]`` goes from l to k at ``cell[p]`` = k K + l, sorted.
    """

    n_sources: int
    cell: Ints
    log_flow: Floats

    def at(self, cell: Ints) -> Floats:
        """Return the log flows at ``cell``, −inf where there is none."""
        position = np.minimum(np.searchsorted(self.cell, cell), max(self.cell.size - 1, 0))
        return np.where(self.cell[position] == cell, self.log_flow[position], -np.inf)


def _balance(flows: _Flows) -> Floats:
    """Find (K,) shifts by Osborne's iteration over the pairs with a flow in either direction."""
    n_sources, shift_k = flows.n_sources, np.zeros(flows.n_sources)
    if flows.cell.size == 0:
        return shift_k
    row, column = np.divmod(flows.cell, n_sources)
    pair = np.union1d(flows.cell, column * n_sources + row)
    row, column = np.divmod(pair, n_sources)
    indptr = np.searchsorted(row, np.arange(n_sources + 1))
    log_in, log_out = flows.at(pair), flows.at(column * n_sources + row)
    pairs = (log_in, log_out, column, indptr)
    graph_loops(n_sources).balance(*pairs, shift_k, _BALANCE_SWEEPS, _BALANCED)
    return np.asarray(shift_k - shift_k.mean())


def _log_flows(rows: Rows, typical: bool) -> _Flows:
    """Compute log Σ_{i in source l} c_i ω_ik/ω_il for every pair k ≠ l that has such an image."""
    n_sources = rows.n_sources
    cells, ratios, counts = [], [], []
    for block in rows.blocks():
        omega = block.omega
        if sp.issparse(omega):
            row = np.repeat(np.arange(omega.shape[0]), np.diff(omega.indptr))
            column, value = omega.indices.astype(np.int64), omega.data
        else:
            row, column = np.divmod(np.arange(omega.size), n_sources)
            value = omega.ravel()
        with np.errstate(divide="ignore"):
            log_value = (
                value.astype(np.float64)
                if rows.log and rows.reference_k is None
                else np.log(value, dtype=np.float64)
            )
            log_count = np.log(block.count_n) if block.count_n.size else np.zeros(omega.shape[0])
        own_n = np.full(omega.shape[0], -np.inf)
        is_own = column == block.source_n[row]
        own_n[row[is_own]] = log_value[is_own]
        keep = (
            np.isfinite(log_value) & np.isfinite(own_n[row]) & np.isfinite(log_count[row]) & ~is_own
        )
        row, column = row[keep], column[keep]
        cells.append(column * n_sources + block.source_n[row])
        ratios.append(log_value[keep] - own_n[row])
        counts.append(log_count[row])
    at, ratio, log_count = (np.concatenate(parts) for parts in (cells, ratios, counts))
    if n_sources <= _DENSE_CELLS:
        cell, position = np.arange(n_sources * n_sources), at
    else:
        cell, position = np.unique(at, return_inverse=True)
    if typical:
        ratio = _medians(ratio, np.exp(log_count), position, cell.size)[position]
    ratio = ratio + log_count
    top = np.full(cell.size, -np.inf)
    np.maximum.at(top, position, ratio)
    total = np.bincount(position, weights=np.exp(ratio - top[position]), minlength=cell.size)
    seen = total > 0
    return _Flows(n_sources, cell[seen], top[seen] + np.log(total[seen]))


def _medians(value_p: Floats, weight_p: Floats, cell_p: Ints, n_cells: int) -> Floats:
    """Compute (cells,) the weighted median of the values in each cell; 0 where there is none."""
    order_p = np.lexsort((value_p, cell_p))
    value_p, weight_p, cell_p = value_p[order_p], weight_p[order_p], cell_p[order_p]
    total_c = np.bincount(cell_p, weights=weight_p, minlength=n_cells)
    below_p = np.cumsum(weight_p) - (np.cumsum(total_c) - total_c)[cell_p]
    # The first of its cell that has, with those below it, half the weight.
    reached = np.flatnonzero(below_p >= 0.5 * total_c[cell_p])
    median_c = np.zeros(n_cells)
    median_c[cell_p[reached[::-1]]] = value_p[reached[::-1]]
    return median_c
