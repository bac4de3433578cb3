"""The objective of the biased-sampling equations and its derivatives.

They are summed over the rows of ω in one sweep. D(u) = (1/n) Σ_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k
is convex and invariant along the all-ones direction. With memberships q_ik,

- gradient_k = mean_i q_ik − λ_k, which is a balance of flows: with F_kl = Σ_{i in source l} q_ik
  (what the model ascribes to source k among the images of source l), n · gradient_k = Σ_l (F_kl −
  F_lk);
- Hessian = diag(mean q) − QᵀQ/n, which is the Laplacian of a graph with weights (QᵀQ)_kl/n.

Both forms are sums of positive numbers, each known to a small relative error, however weak the link
between two sources is.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from unskew.engine.threads import one_blas_thread, row_ranges, run_ranges
from unskew.records import Floats
from unskew.solve.omega_rows import Block, Rows
from unskew.solve.plain_graph import (
    antisymmetric,
    divergence,
    expand_band,
    longest_local_step,
    mirror,
    scale_band,
    slope,
)
from unskew.solve.plain_inspect import source_indicator
from unskew.solve.plain_sweep import sweep_loops

# Up to here tiles are transposed and cross products formed in the sweep; beyond, row by row and by
# matrix products (measured).
FEW_SOURCES = 24
# Beyond this many sources of sparse ω the K x K sums are sparse matrices too.
DENSE_SUMS = 2000
# Beyond this many pairs of non-zeros in the rows of sparse ω, products with QᵀQ are taken without
# forming it.
MOST_PAIRS = 1e9
# Scaled rows for the matrix product: a quarter of a megabyte stays in the second-level cache.
_PRODUCT_ENTRIES = 1 << 15
_SQUARE_ROWS = 1 << 17


@dataclass(frozen=True)
class ObjectiveValue:
    """D and its derivatives at u.

    u_k : where.
    size_k : n_k.
    value : D(u).
    flow_lk : (K, K) with ``flow_lk[l, k]`` = F_kl, or (1, K) with the sums over l.
    cross_kk : (K, K) QᵀQ off the diagonal, symmetric, zero on the diagonal; None if it was not
        asked for.
    low, high : range of the stored row sums s_i.
    spread : range of the logarithms of the coefficients a_k.
    band : entries of ``flow_lk`` and ``cross_kk`` further than this from the diagonal are zero.
    inverse_k : (K + 1,) Σ_i q_ik/s_i and, last, Σ_i 1/s_i, from which the constant of u follows;
        None if not asked for or not at hand.
    """

    u_k: Floats
    size_k: Floats
    value: float
    flow_lk: Any
    cross_kk: Any
    low: float
    high: float
    spread: float
    band: int
    inverse_k: Floats | None = None

    @property
    def by_source(self) -> bool:
        """Are the flows kept apart by source?"""
        return bool(self.flow_lk.shape[0] == self.u_k.size)

    @cached_property
    def n(self) -> float:
        return float(self.size_k.sum())

    @property
    def imbalance_kk(self) -> Any:
        """Antisymmetric (K, K) matrix F_lk − F_kl; None if flows were pooled."""
        if not self.by_source:
            return None
        if sp.issparse(self.flow_lk):
            return self.flow_lk - self.flow_lk.T
        return antisymmetric(self.flow_lk, self.band)

    @cached_property
    def gradient_k(self) -> Floats:
        """(K,) gradient of D."""
        if sp.issparse(self.flow_lk):
            return np.asarray(-self.imbalance_kk.sum(axis=1)).ravel() / self.n
        if self.by_source:
            return divergence(self.flow_lk, self.band) / self.n
        return np.asarray((self.flow_lk[0] - self.size_k) / self.n)

    def local_size(self, step_k: Floats) -> float:
        """Return the largest difference of ``step_k`` between two sources that share images."""
        if self.cross_kk is None or isinstance(self.cross_kk, CrossProducts):
            return float(np.ptp(step_k))
        if sp.issparse(self.cross_kk):
            pairs = self.cross_kk.tocoo()
            return float(np.max(np.abs(step_k[pairs.row] - step_k[pairs.col]), initial=0.0))
        return longest_local_step(self.cross_kk, step_k, self.band)

    def slope(self, step_k: Floats) -> float:
        """Compute the derivative of D along ``step_k``.

        Summed as flows times differences of the step it is accurate where the objective is flat.
        """
        if self.by_source and not sp.issparse(self.flow_lk):
            return slope(self.flow_lk, step_k, self.band) / self.n
        return float(self.gradient_k @ step_k)

    @property
    def is_comfortable(self) -> bool:
        """Whether all row sums and products of two memberships are far from over- and underflow."""
        return bool(
            self.low > 1e-60 and self.high < 1e60 and np.isfinite(self.value) and self.spread < 150
        )


def evaluate(
    rows: Rows, u_k: Floats, *, hessian: bool = True, by_source: bool = True, inverse: bool = False
) -> ObjectiveValue:
    """Compute D and its flows in one pass over ``rows``.

    On request also the cross products and, for few sources, the sums of 1/s.
    """
    a_k = rows.coefficients(u_k)
    spread = float(np.ptp(u_k if rows.reference_k is None else u_k - rows.reference_k))
    sums = _Sums(rows, hessian=hessian, by_source=by_source, inverse=inverse)
    offset = 0.0
    with np.errstate(
        all="ignore"
    ):  # an uncomfortable range shows in low and high, and the caller rescales
        for block in rows.blocks():
            sums.add(block, a_k, rows.jobs)
            if block.row_scale_n is not None:
                offset += float(
                    np.dot(block.row_scale_n, block.count_n)
                    if block.count_n.size
                    else block.row_scale_n.sum()
                )
        size_k = rows.size_k
        n = float(size_k.sum())
        value = (sums.value + offset) / n - float(size_k @ u_k) / n
        flow_lk, cross_kk = sums.finished(a_k)
    return ObjectiveValue(
        u_k,
        size_k,
        value,
        flow_lk,
        cross_kk,
        sums.low,
        sums.high,
        spread,
        rows.band,
        sums.finished_inverse(a_k),
    )


class CrossProducts:
    """QᵀQ as an operator.

    It is for thousands of sources that overlap so much that the matrix itself would be too large. Q
    = diag(1/s) Ω diag(a), so a product costs two sparse products with Ω and no memory beyond the
    row sums s.
    """

    def __init__(self, rows: Rows, a_k: Floats, mass_k: Floats) -> None:
        self.rows, self.a_k, self.mass_k = rows, a_k, mass_k
        self.diagonal_k = mass_k - sum(self._squares(block) for block in rows.blocks())

    def laplacian(self, v_k: Floats) -> Floats:
        """Compute (diag(Σ_i q_ik) − QᵀQ) v."""
        out_k = self.mass_k * v_k
        for block in self.rows.blocks():
            sum_n = block.omega @ self.a_k
            count_n = block.count_n if block.count_n.size else 1.0
            out_k -= self.a_k * (
                block.omega.T @ (count_n * (block.omega @ (self.a_k * v_k)) / sum_n**2)
            )
        return out_k

    def _squares(self, block: Block) -> Floats:
        """Compute Σ_i c_i q_ik² over a block."""
        omega, sum_n = block.omega, block.omega @ self.a_k
        count_n = block.count_n if block.count_n.size else 1.0
        squares_k = np.zeros(self.a_k.size)
        weight_n = count_n / sum_n**2
        for start in range(0, omega.shape[0], _SQUARE_ROWS):
            rows = slice(start, start + _SQUARE_ROWS)
            part = omega[rows]
            part = sp.csr_array((part.data**2, part.indices, part.indptr), shape=part.shape)
            squares_k += part.T @ weight_n[rows]
        return squares_k * self.a_k**2


class _Sums:
    """Running sums of a pass over row blocks."""

    def __init__(self, rows: Rows, *, hessian: bool, by_source: bool, inverse: bool) -> None:
        n_sources = rows.n_sources
        self.rows, self.n_sources, self.hessian, self.by_source = (
            rows,
            n_sources,
            hessian,
            by_source,
        )
        self.sparse = rows.is_sparse and n_sources > DENSE_SUMS
        self.matrix_free = is_matrix_free(rows)
        self.by_products = self.sparse or (rows.is_sparse and not rows.is_large)
        if self.matrix_free:
            self.by_source = by_source = False
        self.value, self.low, self.high = 0.0, np.inf, 0.0
        self.flow_shape = (n_sources if by_source else 1, n_sources)
        self.cross_shape = (n_sources, n_sources) if hessian else (0, 0)
        self.flow_lk: Any = None
        self.cross_kk: Any = None
        self.filled = False
        self.flat = False
        # Only where it is cheap: few sources, dense rows as the user gave them.
        plain = (
            rows.n_sources <= FEW_SOURCES
            and rows.reference_k is None
            and not rows.count_n.size
            and not rows.is_sparse
        )
        self.inverse_parts: list[Floats] | None = [] if inverse and plain else None

    def add(self, block: Block, a_k: Floats, jobs: int) -> None:
        """Add the rows of ``block``."""
        if self.by_products and not sp.issparse(
            block.omega
        ):  # a dense block in a stream of sparse ones
            block = replace(block, omega=sp.csr_array(block.omega))
        if sp.issparse(block.omega):
            work = self._sparse_products if self.by_products else self._sparse_sweep
        elif self.n_sources <= FEW_SOURCES or not self.rows.is_large:
            work = self._few_sweep
        else:
            work = self._many_sweep
        n_rows = block.omega.shape[0]
        jobs = jobs if self.rows.is_large else 1
        ranges = row_ranges(n_rows, max(1, block.omega.size // max(1, n_rows)), jobs)
        products = self.n_sources > FEW_SOURCES or not self.rows.is_large
        with one_blas_thread() if products else nullcontext():
            parts = run_ranges(lambda start, stop: work(block, a_k, start, stop), ranges, jobs)
        for flow, cross, (value, low, high) in parts:
            self.flow_lk, self.cross_kk = (
                (self.flow_lk + flow, self.cross_kk + cross) if self.filled else (flow, cross)
            )
            self.filled = True
            self.value += value
            self.low, self.high = min(self.low, low), max(self.high, high)

    def finished(self, a_k: Floats) -> tuple[Any, Any]:
        """Return the flow and cross matrices with the factors a_k that the sweeps left out."""
        if self.matrix_free:
            return self.flow_lk, CrossProducts(
                self.rows, a_k, self.flow_lk[0]
            ) if self.hessian else None
        if self.by_products:
            if self.hessian and not self.sparse:
                np.fill_diagonal(self.cross_kk, 0.0)
            return self.flow_lk, self.cross_kk if self.hessian else None
        band = self.rows.band if self.by_source else self.n_sources
        if self.flat:
            self.flow_lk = expanded(self.flow_lk, self.rows)
            self.cross_kk = expanded(self.cross_kk, self.rows) if self.hessian else None
        scale_band(self.flow_lk, a_k, band)
        if not self.hessian:
            return self.flow_lk, None
        # The sweeps add up the lower triangle, without the factors a_k.
        scale_band(self.cross_kk, a_k, self.rows.band)
        scale_band(self.cross_kk.T, a_k, self.rows.band)
        mirror(self.cross_kk, self.rows.band)
        np.fill_diagonal(self.cross_kk, 0.0)
        return self.flow_lk, self.cross_kk

    def finished_inverse(self, a_k: Floats) -> Floats | None:
        """Return the sums of 1/s with the factors a_k that the sweeps left out."""
        return (
            np.sum(self.inverse_parts, axis=0) * np.append(a_k, 1.0) if self.inverse_parts else None
        )

    def _few_sweep(self, block: Block, a_k: Floats, start: int, stop: int) -> tuple[Any, Any, Any]:
        flow, cross = np.zeros(self.flow_shape), np.zeros(self.cross_shape)
        inverse_k = np.zeros(0 if self.inverse_parts is None else self.n_sources + 1)
        scalars = sweep_loops(self.rows.is_large).sweep_few(
            block.omega,
            block.source_n,
            block.count_n,
            a_k,
            flow,
            cross,
            inverse_k,
            self.hessian,
            self.by_source,
            start,
            stop,
        )
        if self.inverse_parts is not None:
            self.inverse_parts.append(inverse_k)
        return flow, cross, scalars

    def _many_sweep(self, block: Block, a_k: Floats, start: int, stop: int) -> tuple[Any, Any, Any]:
        from scipy.linalg.blas import dsyrk

        from unskew.solve import kernels_sweep

        n_sources = self.n_sources
        flow_ll, cross = np.zeros((n_sources, n_sources)), np.zeros(self.cross_shape, order="F")
        value, low, high = 0.0, np.inf, 0.0
        rows = max(64, _PRODUCT_ENTRIES // n_sources) if self.hessian else stop - start
        scaled_nk = np.empty((rows, n_sources) if self.hessian else (0, n_sources))
        for first in range(start, stop, rows):
            last = min(first + rows, stop)
            scalars = kernels_sweep.sweep_many(
                block.omega, block.source_n, block.count_n, a_k, flow_ll, scaled_nk, first, last
            )
            value, low, high = value + scalars[0], min(low, scalars[1]), max(high, scalars[2])
            if self.hessian:
                cross = dsyrk(
                    1.0, scaled_nk[: last - first].T, beta=1.0, c=cross, lower=1, overwrite_c=1
                )
        return (
            flow_ll if self.by_source else flow_ll.sum(axis=0, keepdims=True),
            np.ascontiguousarray(cross),
            (value, low, high),
        )

    def _sparse_sweep(
        self, block: Block, a_k: Floats, start: int, stop: int
    ) -> tuple[Any, Any, Any]:
        from unskew.solve import kernels_sweep

        size, stride, shift = self.rows.band_storage
        flow_b, cross_b = np.zeros(size), np.zeros(size if self.hessian else 0)
        omega = block.omega
        scalars = kernels_sweep.sweep_sparse(
            omega.data,
            omega.indices,
            omega.indptr,
            block.source_n,
            block.count_n,
            a_k,
            flow_b,
            cross_b,
            stride,
            shift,
            self.hessian,
            start,
            stop,
        )
        if self.rows.band < self.n_sources:
            self.flat = True  # expanded once, when all ranges are summed
            return flow_b, cross_b, scalars
        flow = flow_b.reshape(self.n_sources, self.n_sources)
        return (
            flow if self.by_source else flow.sum(axis=0, keepdims=True),
            cross_b.reshape(self.cross_shape),
            scalars,
        )

    def _sparse_products(
        self, block: Block, a_k: Floats, start: int, stop: int
    ) -> tuple[Any, Any, Any]:
        """Compute flows and cross products of thousands of sources as sparse matrix products."""
        omega = block.omega[start:stop]
        sum_n = omega @ a_k
        count_n = block.count_n[start:stop] if block.count_n.size else np.ones(stop - start)
        q = sp.csr_array(
            (omega.data * a_k[omega.indices], omega.indices, omega.indptr), shape=omega.shape
        )
        q.data = q.data / np.repeat(sum_n, np.diff(omega.indptr))
        scalars = (float(count_n @ np.log(sum_n)), float(sum_n.min()), float(sum_n.max()))
        if self.matrix_free:
            return (q.T @ count_n)[None, :], 0.0, scalars
        weighted = sp.diags_array(count_n) @ q
        flow = source_indicator(block.source_n[start:stop], self.n_sources).T @ weighted
        cross = sp.csr_array((self.n_sources, self.n_sources))
        if self.hessian:
            cross = sp.csr_array(q.T @ weighted)
            cross.setdiag(0.0)
            cross.eliminate_zeros()
        if not self.sparse:
            flow = flow.toarray() if self.by_source else np.asarray(flow.sum(axis=0))[None]
            return flow, cross.toarray(), scalars
        return sp.csr_array(flow), cross, scalars


def expanded(flat_b: Floats, rows: Rows) -> Floats:
    """Return the (K, K) sums that a sweep over sparse rows stored flat in a band."""
    if rows.band >= rows.n_sources:
        return flat_b.reshape(rows.n_sources, rows.n_sources)
    return expand_band(flat_b, rows.n_sources, rows.band)


def is_matrix_free(rows: Rows) -> bool:
    """Tell whether QᵀQ would cost too much to form."""
    return rows.is_sparse and rows.n_sources > DENSE_SUMS and rows.n_pairs > MOST_PAIRS


def hessian_matrix(evaluation: ObjectiveValue) -> Any:
    """Compute the (K, K) Hessian diag(mean q) − QᵀQ/n at the evaluated point.

    It is the Laplacian of the cross products; None if they were not formed.
    """
    cross_kk, n = evaluation.cross_kk, evaluation.n
    if cross_kk is None or isinstance(cross_kk, CrossProducts):
        return None
    if sp.issparse(cross_kk):
        return sp.csr_array(sp.diags_array(np.asarray(cross_kk.sum(axis=1)).ravel()) - cross_kk) / n
    return (np.diag(cross_kk.sum(axis=1)) - cross_kk) / n
