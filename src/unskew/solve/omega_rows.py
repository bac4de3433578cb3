"""The rows of ω as the solver reads them: their sources, their counts, and how they are scaled.

Scaling. Multiplying a row of ω by a constant changes no membership, and multiplying a column by
e^{r_k} only shifts u_k. Rows whose sums leave the comfortable range of double precision, and
logarithms, are therefore stored as ω'_ik = exp(log ω_ik + r_k − m_i) with a reference r near the
solution and m_i the row's maximum; r and m_i are kept and undone wherever they matter (π, Ω, the
objective).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unskew import errors
from unskew.engine.compilation import pays_to_compile
from unskew.engine.row_blocks import ArrayReader, Reader, RowBlock, SparseReader
from unskew.engine.threads import available_jobs, row_ranges, run_ranges
from unskew.records import Codes, Floats
from unskew.records.arrays import row_maxima

_NONE = np.empty(0)
# Entries of a tile that stays in the second-level cache.
_TILE_ENTRIES = 1 << 16
# e to this power is far from overflow, also when multiplied by a row sum.
_SAFE_CONSTANT = 200.0


@dataclass(frozen=True)
class Block:
    """Consecutive rows: ω (already scaled), their sources, counts and the log of their row scale.

    No counts: one each; no scale (None): 0.
    """

    start: int
    omega: RowBlock
    source_n: Codes
    count_n: Floats
    row_scale_n: Floats | None

    @property
    def stop(self) -> int:
        return self.start + int(self.omega.shape[0])


@dataclass(frozen=True, eq=False)
class Rows:
    """ω with the source and the count of every row.

    reader : yields the stored row blocks.
    source_n : (rows,) codes 0…K−1.
    count_n : (rows,) how often each row counts, or empty for once each.
    log : the stored values are logarithms, to be scaled while reading.
    reference_k : the r_k of the scaling, None if ω is stored as it is.
    row_scale_n : the m_i of rows that were scaled once and stored; None if they are scaled while
        reading, or not at all.
    inverse_n : (images,) the row of each image after collapsing, None if every row is
        an image.
    origin : the rows as they were before being scaled and stored.
    jobs : threads.
    numbers : how many numbers are read in all where that is more than these rows hold: of the
        problem that they are a sample of, or of many solves.
    """

    reader: Reader
    source_n: Codes
    n_sources: int
    count_n: Floats = field(default_factory=lambda: _NONE)
    log: bool = False
    reference_k: Floats | None = None
    row_scale_n: Floats | None = None
    inverse_n: Codes | None = None
    origin: Rows | None = None
    jobs: int = field(default_factory=available_jobs)
    numbers: float = 0.0

    @cached_property
    def is_large(self) -> bool:
        """Whether the loops over these rows are worth compiling."""
        stored = self.n_stored * self.n_sources
        if isinstance(self.reader, SparseReader):
            stored = self.reader.matrix.nnz
        return pays_to_compile(max(self.numbers, stored))

    @property
    def n_stored(self) -> int:
        """Number of stored rows (fewer than images if identical rows were collapsed)."""
        return int(self.source_n.size)

    @property
    def n_rows(self) -> int:
        """Number of images."""
        return self.n_stored if self.inverse_n is None else int(self.inverse_n.size)

    @cached_property
    def size_k(self) -> Floats:
        """(K,) n_k, counts included."""
        weights = self.count_n if self.count_n.size else None
        return np.bincount(self.source_n, weights=weights, minlength=self.n_sources).astype(
            np.float64
        )

    @property
    def is_sparse(self) -> bool:
        return self.reader.is_sparse

    @cached_property
    def band(self) -> int:
        """Largest distance of the columns of two sources that share an image (K where unknown)."""
        if not isinstance(self.reader, SparseReader):
            return self.n_sources
        column, indptr = self.reader.matrix.indices, self.reader.matrix.indptr
        filled = np.flatnonzero(np.diff(indptr))
        # Columns are sorted, so no two sources of a row are further apart than first and last.
        band = int(np.max(column[indptr[filled + 1] - 1] - column[indptr[filled]], initial=0))
        return band if 4 * band < self.n_sources else self.n_sources

    @cached_property
    def n_pairs(self) -> float:
        """Σ_i (non-zeros of row i)² of sparse ω: what its cross products cost."""
        length_n = (
            np.diff(self.reader.matrix.indptr)
            if isinstance(self.reader, SparseReader)
            else np.empty(0)
        )
        return float(np.dot(length_n.astype(np.float64), length_n))

    @property
    def band_storage(self) -> tuple[int, int, int]:
        """(size, stride, shift) of K x K sums stored flat: (k, l) at k * stride + shift + l."""
        n_sources, band = self.n_sources, self.band
        if band == n_sources:
            return (n_sources * n_sources, n_sources, 0)
        return (n_sources * (2 * band + 1), 2 * band, band)

    def blocks(self) -> Iterator[Block]:
        """Make one pass over the stored rows."""
        start = 0
        for omega in self.reader.blocks():
            if omega.shape[0] == 0:
                continue
            stop = start + int(omega.shape[0])
            if stop > self.n_stored:
                raise errors.changed_length(self.n_stored, stop)
            rows = slice(start, stop)
            scale_n = None if self.row_scale_n is None else self.row_scale_n[rows]
            if self.reference_k is not None and self.row_scale_n is None:
                omega, scale_n = scaled_block(omega, self.reference_k, log=self.log)
            yield Block(
                start,
                omega,
                self.source_n[rows],
                self.count_n[rows] if self.count_n.size else _NONE,
                scale_n,
            )
            start = stop
        if start != self.n_stored:
            raise errors.changed_length(self.n_stored, start)

    def coefficients(self, u_k: Floats) -> Floats:
        """Return (K,) a_k such that Σ_k a_k ω'_ik is the row sum up to the row's scale."""
        shifted = u_k if self.reference_k is None else u_k - self.reference_k
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.exp(shifted)

    def centred(self, u_k: Floats) -> Floats:
        """Choose the free constant of ``u_k`` so that the largest coefficient is 1."""
        return np.asarray(u_k - np.max(u_k if self.reference_k is None else u_k - self.reference_k))

    def scaled_coefficients(self, u_k: Floats) -> tuple[Floats, float]:
        """Return (a_k e^{−c}, c) with the largest coefficient 1.

        A constant in u, however large, cannot overflow.
        """
        shifted = u_k if self.reference_k is None else u_k - self.reference_k
        top = float(np.max(shifted))
        with np.errstate(under="ignore", invalid="ignore"):
            return np.exp(shifted - top), top

    def rescaled(self, reference_k: Floats) -> Rows:
        """Scale the rows around ``reference_k``."""
        origin = self.origin or self
        rows = replace(origin, reference_k=np.array(reference_k, dtype=np.float64))
        if not origin.reader.in_memory:
            return rows
        pieces = [(block.omega, block.row_scale_n) for block in rows.blocks()]
        scale_n = np.concatenate([scale for _, scale in pieces if scale is not None])
        reader: Reader
        if self.is_sparse:
            reader = SparseReader(
                sp.csr_array(sp.vstack([omega for omega, _ in pieces], format="csr"))
            )
        else:
            reader = ArrayReader(
                np.concatenate([np.asarray(omega) for omega, _ in pieces])
                if len(pieces) > 1
                else np.asarray(pieces[0][0])
            )
        return replace(rows, reader=reader, row_scale_n=scale_n, origin=origin)

    @property
    def unscaled(self) -> Rows:
        """The rows as the user gave them (zeros are exactly where the user put them)."""
        return self.origin or replace(self, reference_k=None)

    def with_counts(self, count_n: npt.NDArray[np.floating] | npt.NDArray[np.integer]) -> Rows:
        """Return the same images, image i counted ``count_n[i]`` times."""
        if self.inverse_n is None:
            counts = np.asarray(count_n, dtype=np.float64)
        else:
            counts = np.bincount(self.inverse_n, weights=count_n, minlength=self.n_stored).astype(
                np.float64
            )
        origin = None if self.origin is None else replace(self.origin, count_n=counts)
        return replace(self, count_n=counts, origin=origin)

    def link_count(self) -> Any:
        """Count (K, K) ``[k, l]`` = images of source l with ω_k > 0, counts included."""
        from unskew.solve.inspection import link_counts

        return link_counts(self)

    def row_sums(self, u_k: Floats) -> tuple[Floats, Floats | None]:
        """Compute (stored rows,) Σ_k e^{u_k} ω_ik as (s_i, m_i): the row sum is s_i e^{m_i}."""
        a_k, constant = self.scaled_coefficients(u_k)
        sum_n = np.empty(self.n_stored)
        scales = []
        for block in self.blocks():
            out_n = sum_n[block.start : block.stop]
            if sp.issparse(block.omega):
                out_n[:] = block.omega @ a_k
            else:
                omega_nk, sums = block.omega, out_n
                run_ranges(
                    lambda start, stop, omega_nk=omega_nk, sums=sums: _sum_rows(  # type: ignore[misc]
                        omega_nk, a_k, sums, start, stop
                    ),
                    row_ranges(omega_nk.shape[0], self.n_sources, self.jobs),
                    self.jobs,
                )
            scales.append(block.row_scale_n)
        scaled = [scale for scale in scales if scale is not None]
        if scaled:
            return sum_n, np.concatenate(scaled) + constant
        if abs(constant) < _SAFE_CONSTANT:
            sum_n *= np.exp(constant)
            return sum_n, None
        return sum_n, np.full(self.n_stored, constant)

    def memberships(self, u_k: Floats) -> Iterator[tuple[slice, RowBlock]]:
        """Yield blocks of q_ik = e^{u_k} ω_ik / Σ_l e^{u_l} ω_il over all images, in order.

        They are dense, or CSR where ω is sparse.
        """
        if self.inverse_n is None:
            yield from self.stored_memberships(u_k)
            return
        parts = [q for _, q in self.stored_memberships(u_k)]
        join = sp.vstack if sp.issparse(parts[0]) else np.concatenate
        stored = parts[0] if len(parts) == 1 else join(parts)
        rows = max(1, _TILE_ENTRIES // self.n_sources)
        for start in range(0, self.n_rows, rows):
            stop = min(start + rows, self.n_rows)
            yield slice(start, stop), stored[self.inverse_n[start:stop]]

    def stored_memberships(self, u_k: Floats, step: int = 1) -> Iterator[tuple[slice, RowBlock]]:
        """Yield blocks of q over the stored rows 0, ``step``, 2 ``step``, …, with their numbers."""
        a_k, _ = self.scaled_coefficients(u_k)  # memberships do not depend on the constant
        rows = max(1, _TILE_ENTRIES // self.n_sources)
        for block in self.blocks():
            for start in range(-block.start % step, block.omega.shape[0], rows * step):
                stop = min(start + rows * step, block.omega.shape[0])
                at = slice(block.start + start, block.start + stop, step)
                yield at, _membership(block.omega[start:stop:step], a_k)

    def inverse_sums(self, u_k: Floats) -> Floats:
        """Compute (stored rows,) 1/Σ_k e^{u_k} ω_ik up to a common factor; NaN of a failed u."""
        sum_n, scale_n = self.row_sums(u_k)
        with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
            if scale_n is None:
                return np.divide(1.0, sum_n, out=sum_n)
            log_n = -np.log(sum_n) - scale_n
            return np.asarray(np.exp(log_n - log_n.max()))


def _sum_rows(omega_nk: Any, a_k: Floats, sum_n: Floats, start: int, stop: int) -> None:
    """Write sum_n[i] = Σ_k a_k ω_ik, by tiles that stay in the cache as double precision."""
    tile = max(1, _TILE_ENTRIES // a_k.size)
    for first in range(start, stop, tile):
        rows = slice(first, min(first + tile, stop))
        np.matmul(omega_nk[rows].astype(np.float64, copy=False), a_k, out=sum_n[rows])


def _membership(omega: RowBlock, a_k: Floats) -> RowBlock:
    if sp.issparse(omega):
        q = sp.csr_array(
            (omega.data * a_k[omega.indices], omega.indices, omega.indptr), shape=omega.shape
        )
        q.data /= np.repeat(omega @ a_k, np.diff(omega.indptr))
        return q
    q_nk = omega * a_k
    q_nk /= (q_nk @ np.ones(a_k.size))[:, None]
    return q_nk


def scaled_block(omega: RowBlock, reference_k: Floats, log: bool) -> tuple[RowBlock, Floats]:
    """Return (ω', m): exp(log ω_ik + r_k − m_i), so that every row's maximum is 1.

    m_i is the row's maximum of log ω_ik + r_k.
    """
    if sp.issparse(omega):
        values = omega.data.astype(np.float64) if log else _log(omega.data)
        values = values + reference_k[omega.indices]
        length = np.diff(omega.indptr)
        scale_n = np.full(omega.shape[0], -np.inf)
        filled = length > 0
        scale_n[filled] = (
            np.maximum.reduceat(values, omega.indptr[:-1][filled]) if values.size else -np.inf
        )
        with np.errstate(under="ignore", invalid="ignore"):
            data = np.exp(values - np.repeat(scale_n, length))
        return sp.csr_array((data, omega.indices, omega.indptr), shape=omega.shape), scale_n
    values_nk = omega.astype(np.float64) if log else _log(omega)
    values_nk += reference_k
    scale_n = row_maxima(values_nk)
    with np.errstate(under="ignore", invalid="ignore"):
        values_nk -= scale_n[:, None]
        return np.exp(values_nk, out=values_nk), scale_n


def _log(values: npt.NDArray[np.floating]) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values, dtype=np.float64))
