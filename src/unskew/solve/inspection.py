"""One pass over ω before anything else: which entries are usable, which positive, how large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from unskew import errors
from unskew.engine.threads import row_ranges, run_ranges
from unskew.records import Bools, Floats, Ints
from unskew.solve.objective import DENSE_SUMS, expanded, is_matrix_free
from unskew.solve.omega_rows import Block, Rows
from unskew.solve.plain_graph import mirror
from unskew.solve.plain_inspect import inspect_loops, source_indicator

# Up to here pairs of positive entries are counted in the sweep; beyond, by matrix products of
# indicators.
_COUNT_PAIRS = 64
_PRODUCT_ROWS = 4096
# Of some rows: smallest positive and largest entry of each column, links and common images; None
# where all entries are positive.
_Found = tuple[Floats, Floats, Floats | None, Floats | None]


@dataclass(frozen=True)
class Inspection:
    """What one pass found.

    size_k : n_k.
    log_low_k, log_high_k : logarithms of the smallest positive and the largest ω_k.
    link_kl : ``link_kl[k, l]`` = number of images of source l with ω_k > 0.
    common_kk : number of images with both ω_k > 0 and ω_l > 0; None for thousands of sources that
        overlap almost everywhere.
    """

    size_k: Floats
    log_low_k: Floats
    log_high_k: Floats
    link_kl: Any
    common_kk: Any

    @property
    def epsilon(self) -> float:
        """Smallest positive ω after each ω_k is scaled to maximum 1 (the article's ε)."""
        return float(np.exp(np.min(self.log_low_k - self.log_high_k)))


def inspect_rows(rows: Rows, names: Sequence[str], first_row: Ints | None = None) -> Inspection:
    """Read every row once; raise ``DataError`` for the first entry or row that makes no sense."""
    n_sources = rows.n_sources
    log_low_k, log_high_k = np.full(n_sources, np.inf), np.full(n_sources, -np.inf)
    link_kl: Any = 0
    common_kk: Any = 0
    for block in rows.blocks():
        if rows.log and sp.issparse(block.omega):
            _check_logarithms(block, names, first_row)
        low_k, high_k, link, common = _inspect_block(block, rows, names, first_row)
        log_low_k, log_high_k = np.minimum(log_low_k, low_k), np.maximum(log_high_k, high_k)
        link_kl, common_kk = (
            (link, common) if block.start == 0 else (link_kl + link, common_kk + common)
        )
    return Inspection(rows.size_k, log_low_k, log_high_k, link_kl, common_kk)


def inspect_cells(log_omega_ck: Floats, count_ck: Ints) -> Inspection:
    """Inspect cells of images with the same ω, of which each source has ``count_ck``."""
    seen = np.flatnonzero(count_ck.any(axis=1))
    log_ck, count_ck = log_omega_ck[seen], count_ck[seen].astype(np.float64)
    positive_ck = log_ck > -np.inf
    low_k = np.min(log_ck, axis=0, initial=np.inf, where=positive_ck)
    high_k = np.max(log_ck, axis=0, initial=-np.inf)
    has_ck = positive_ck.astype(np.float64)
    common_kk = (has_ck * count_ck.sum(axis=1)[:, None]).T @ has_ck
    return Inspection(count_ck.sum(axis=0), low_k, high_k, has_ck.T @ count_ck, common_kk)


def common_positive(rows: Rows, weight_n: Floats) -> Any:
    """Compute (K, K) Σ_i weight_i 1{ω_ik > 0} 1{ω_il > 0} over all images."""
    weighted = rows.with_counts(weight_n).unscaled
    return sum(_inspect_block(block, weighted, (), None)[3] for block in weighted.blocks())


def link_counts(rows: Rows) -> Any:
    """Count (K, K) links of ``rows``: ``[k, l]`` = number of images of source l with ω_k > 0."""
    unscaled = rows.unscaled
    return sum(_inspect_block(block, unscaled, (), None)[2] for block in unscaled.blocks())


def _inspect_block(
    block: Block, rows: Rows, names: Sequence[str], first_row: Any
) -> tuple[Floats, Floats, Any, Any]:
    """Return (log smallest positive, log largest, links, common) of a block."""
    if sp.issparse(block.omega):
        return _inspect_sparse(block, rows, names, first_row)
    jobs = rows.jobs if rows.is_large else 1
    ranges = row_ranges(block.omega.shape[0], rows.n_sources, jobs)
    is_log = rows.log and rows.reference_k is None
    look = _inspect_logarithms if is_log else _inspect_range
    parts = run_ranges(lambda start, stop: look(block, names, first_row, start, stop), ranges, jobs)
    link_kl, common_kk = _add_links(
        block,
        rows,
        [(*bounds, part[2], part[3]) for bounds, part in zip(ranges, parts, strict=True)],
    )
    low_k, high_k = (
        np.min([part[0] for part in parts], axis=0),
        np.max([part[1] for part in parts], axis=0),
    )
    if not is_log:
        with np.errstate(divide="ignore"):
            low_k, high_k = np.log(low_k), np.log(np.maximum(high_k, 0.0))
    return low_k, high_k, link_kl, common_kk


def _add_links(
    block: Block, rows: Rows, parts: Sequence[tuple[int, int, Floats | None, Floats | None]]
) -> tuple[Floats, Floats]:
    """Add up links and common images of all ranges."""
    n_sources = rows.n_sources
    link_kl, common_kk = np.zeros((n_sources, n_sources)), np.zeros((n_sources, n_sources))
    if all(link is None for _, _, link, _ in parts) and len(block.source_n) == rows.n_stored:
        parts = []
        size_k = rows.size_k
        link_kl, common_kk = (
            np.tile(size_k, (n_sources, 1)),
            np.full((n_sources, n_sources), size_k.sum()),
        )
    for start, stop, link, common in parts:
        if link is None or common is None:
            count_n = block.count_n[start:stop] if block.count_n.size else None
            size_k = np.bincount(
                block.source_n[start:stop], weights=count_n, minlength=n_sources
            ).astype(np.float64)
            link, common = (
                np.tile(size_k, (n_sources, 1)),
                np.full((n_sources, n_sources), size_k.sum()),
            )
        link_kl += link
        common_kk += common
    return link_kl, common_kk


def _inspect_range(
    block: Block, names: Sequence[str], first_row: Any, start: int, stop: int
) -> _Found:
    """Inspect rows [start, stop) of a dense block."""
    loops = inspect_loops(block.omega.size)
    low_k, high_k = _no_extremes(block)
    check = loops.column_extremes(block.omega, -np.inf, low_k, high_k, start, stop)
    if not np.isfinite(check) or low_k.min() < 0:
        _raise_for_entry(block, names, first_row)  # returns if it was only the sum that overflowed
    if low_k.min() > 0:
        return low_k, high_k, None, None
    low_k[:] = np.inf
    loops.column_extremes(block.omega, 0.0, low_k, high_k, start, stop)
    return low_k, high_k, *_links_beside_zeros(block, 0.0, names, first_row, start, stop)


def _inspect_logarithms(
    block: Block, names: Sequence[str], first_row: Any, start: int, stop: int
) -> _Found:
    """Inspect rows of logarithms, where −inf is a zero."""
    loops = inspect_loops(block.omega.size)
    low_k, high_k = _no_extremes(block)
    check = loops.column_extremes(block.omega, -np.inf, low_k, high_k, start, stop)
    if np.isfinite(check):
        return low_k, high_k, None, None
    if not np.isneginf(check):
        _check_logarithms(block, names, first_row)  # returns if it was only the sum that overflowed
    return low_k, high_k, *_links_beside_zeros(block, -np.inf, names, first_row, start, stop)


def _no_extremes(block: Block) -> tuple[Floats, Floats]:
    n_sources = block.omega.shape[1]
    return np.full(n_sources, np.inf), np.full(n_sources, -np.inf)


def _links_beside_zeros(
    block: Block, zero: float, names: Sequence[str], first_row: Any, start: int, stop: int
) -> tuple[Floats, Floats]:
    """Count links and common images of rows [start, stop); entries above ``zero`` are positive."""
    omega_nk, n_sources = block.omega, block.omega.shape[1]
    link_kl = np.zeros((n_sources, n_sources))
    common_kk = np.zeros((n_sources, n_sources) if n_sources <= _COUNT_PAIRS else (0, 0))
    row, code = inspect_loops(omega_nk.size).inspect_zeros(
        omega_nk, zero, block.source_n, block.count_n, link_kl, common_kk, start, stop
    )
    if code:
        _raise_for_row(block, row, code, names, first_row)
    if n_sources > _COUNT_PAIRS:
        count_n = block.count_n[start:stop] if block.count_n.size else None
        return link_kl, _common_by_products(omega_nk[start:stop] > zero, count_n)
    return link_kl, common_kk + np.tril(common_kk, -1).T


def _common_by_products(positive_nk: Bools, count_n: Floats | None) -> Floats:
    total = np.zeros((positive_nk.shape[1], positive_nk.shape[1]))
    for start in range(0, positive_nk.shape[0], _PRODUCT_ROWS):
        positive = positive_nk[start : start + _PRODUCT_ROWS]
        if count_n is None:
            indicator = positive.astype(np.float32)  # sums of at most 4096 ones are exact
            total += indicator.T @ indicator
        else:
            indicator64 = positive.astype(np.float64)
            total += (indicator64 * count_n[start : start + _PRODUCT_ROWS, None]).T @ indicator64
    return total


def _inspect_sparse(
    block: Block, rows: Rows, names: Sequence[str], first_row: Any
) -> tuple[Floats, Floats, Any, Any]:
    omega, n_sources = block.omega, rows.n_sources
    low_k, high_k = np.full(n_sources, np.inf), np.full(n_sources, -np.inf)
    if rows.log and rows.reference_k is None:
        finite = np.isfinite(omega.data)
        np.minimum.at(low_k, omega.indices[finite], omega.data[finite])
        np.maximum.at(high_k, omega.indices[finite], omega.data[finite])
        omega = sp.csr_array(
            (finite.astype(np.float64), omega.indices, omega.indptr), shape=omega.shape
        )
    if n_sources > DENSE_SUMS or not rows.is_large:
        links = _sparse_links(omega, block, n_sources, is_matrix_free(rows), names, first_row)
        extremes = _sparse_extremes(omega, low_k, high_k, rows.log)
        if n_sources <= DENSE_SUMS:
            return *extremes, links[0].toarray(), links[1].toarray()
        return *extremes, *links
    from unskew.solve import kernels_inspect

    size, stride, shift = rows.band_storage
    link_b, common_b = np.zeros(size), np.zeros(size)
    minimum_k, maximum_k = np.full(n_sources, np.inf), np.zeros(n_sources)
    row, code = kernels_inspect.inspect_sparse(
        omega.data,
        omega.indices,
        omega.indptr,
        block.source_n,
        block.count_n,
        minimum_k,
        maximum_k,
        link_b,
        common_b,
        stride,
        shift,
        0,
        omega.shape[0],
    )
    if code == 3:
        _raise_for_entry(block, names, first_row)
    if code:
        _raise_for_row(block, row, code, names, first_row)
    if not (rows.log and rows.reference_k is None):
        with np.errstate(divide="ignore"):
            low_k, high_k = np.log(minimum_k), np.log(maximum_k)
    link_kl, common_kk = expanded(link_b, rows), expanded(common_b, rows)
    mirror(common_kk, rows.band)
    return low_k, high_k, link_kl, common_kk


def _sparse_extremes(
    omega: sp.csr_array, low_k: Floats, high_k: Floats, log: bool
) -> tuple[Floats, Floats]:
    if log:
        return low_k, high_k
    positive = omega.data > 0
    np.minimum.at(low_k, omega.indices[positive], omega.data[positive])
    np.maximum.at(high_k, omega.indices[positive], omega.data[positive])
    with np.errstate(divide="ignore"):
        return np.log(low_k), np.log(np.maximum(high_k, 0.0))


def _sparse_links(
    omega: sp.csr_array,
    block: Block,
    n_sources: int,
    matrix_free: bool,
    names: Sequence[str],
    first_row: Any,
) -> tuple[Any, Any]:
    """Count links and common mass of thousands of sources, as sparse matrices."""
    if not np.all(np.isfinite(omega.data)) or np.any(omega.data < 0):
        _raise_for_entry(block, names, first_row)
    positive = sp.csr_array(
        ((omega.data > 0).astype(np.float64), omega.indices, omega.indptr), shape=omega.shape
    )
    source = source_indicator(block.source_n, n_sources)
    own = np.asarray(positive.multiply(source).sum(axis=1)).ravel()
    if np.any(own == 0):
        row = int(np.argmin(own))
        _raise_for_row(block, row, 1 if positive[[row]].sum() == 0 else 2, names, first_row)
    weighted = sp.diags_array(block.count_n) @ positive if block.count_n.size else positive
    link = sp.csr_array(weighted.T @ source)
    link.eliminate_zeros()
    if matrix_free:
        return link, None
    common = sp.csr_array(positive.T @ weighted)
    common.eliminate_zeros()
    return link, common


def _image(block: Block, row: int, first_row: Ints | None) -> int:
    return block.start + row if first_row is None else int(first_row[block.start + row])


def _raise_for_entry(block: Block, names: Sequence[str], first_row: Any) -> None:
    """Raise for the first entry that is NaN, infinite or negative, if there is one."""
    data = block.omega.data if sp.issparse(block.omega) else block.omega
    wrong = ~(np.isfinite(data) & (data >= 0))
    if wrong.any():
        row, column, value = _first(block.omega, wrong)
        raise errors.not_finite(value, _image(block, row, first_row), names[column])


def _first(omega: Any, wrong: Bools) -> tuple[int, int, float]:
    """Return (row, column, value) of the first stored entry that is marked ``wrong``."""
    if sp.issparse(omega):
        entry = int(np.flatnonzero(wrong)[0])
        return (
            int(np.searchsorted(omega.indptr, entry, side="right")) - 1,
            int(omega.indices[entry]),
            float(omega.data[entry]),
        )
    row, column = (int(index) for index in np.argwhere(wrong)[0])
    return row, column, float(omega[row, column])


def _raise_for_row(block: Block, row: int, code: int, names: Sequence[str], first_row: Any) -> None:
    image = _image(block, int(row), first_row)
    raise (
        errors.impossible_image(image)
        if code == 1
        else errors.impossible_origin(image, names[int(block.source_n[row])])
    )


def _check_logarithms(block: Block, names: Sequence[str], first_row: Any) -> None:
    data = block.omega.data if sp.issparse(block.omega) else block.omega
    wrong = np.isnan(data) | np.isposinf(data)
    if wrong.any():
        row, column, value = _first(block.omega, wrong)
        raise errors.not_a_logarithm(value, _image(block, row, first_row), names[column])
