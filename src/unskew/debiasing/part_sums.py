"""Sums over the rows of all parts: one pass each, on any engine.

Each function of a block is pure; its result is a few sums, which are added in the order of the
blocks. Rows that are in memory (the target's sample) are added by the driver.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unskew.debiasing.part_weighers import (
    BlockReader,
    LogLinearWeigher,
    RowsOfBlock,
    StrataWeigher,
    check_own_terms,
)
from unskew.engine.block_engines import Engine
from unskew.engine.blocks import FileBlock
from unskew.errors import DataError
from unskew.records import Floats
from unskew.records.arrays import log_sums
from unskew.records.design_weights import add_design
from unskew.solve.log_linear import LogLinearSums, sum_log_linear

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.box import FittedBox


@dataclass(frozen=True, eq=False)
class PassState:
    """What a pass sends to the workers."""

    reader: BlockReader
    weigher: Any
    hessian: bool = True
    column: str = ""
    centre: float = 0.0
    slope_kw: Floats | None = field(repr=False, default=None)


def sum_block(block: FileBlock, state: PassState) -> LogLinearSums:
    """Sum −log q and its derivatives over a block."""
    rows = state.reader.read(block).counted()
    weigher: LogLinearWeigher = state.weigher
    offset_nk, _ = terms = weigher.terms(rows.frame)
    check_own_terms(block, rows, offset_nk, weigher.names)
    return _sum_rows(weigher, rows, terms, state.hessian)


def _sum_rows(
    weigher: LogLinearWeigher, rows: RowsOfBlock, terms: tuple[Floats | None, Floats], hessian: bool
) -> LogLinearSums:
    offset_nk, phi_nd = terms
    return sum_log_linear(
        phi_nd,
        offset_nk,
        rows.source,
        np.zeros(rows.source.size, dtype=np.int64),
        weigher.u_k[None, :],
        weigher.theta_kd,
        hessian=hessian,
        design_r=rows.design,
    )


@dataclass(eq=False)
class StreamedProblem:
    """The log-linear fit to the rows of all parts, as `unskew.bias.likelihood` asks for it.

    engine, blocks, reader : where the rows are, and who sums over them.
    weigher : names, factors and features; its θ and u are replaced in every pass.
    sample : the rows of the target's sample, which are in memory; None without.
    present_ck : (1, K) images of each source, counted by their design weights.
    reference, ridge : as of the fit in memory.
    last : the sums with second derivatives of the last pass that had them.
    n_passes : passes so far.
    """

    engine: Engine
    blocks: Sequence[FileBlock]
    reader: BlockReader
    weigher: LogLinearWeigher
    sample: RowsOfBlock | None
    present_ck: Floats
    reference: int
    ridge: float
    last: LogLinearSums | None = None
    n_passes: int = 0
    n_cells: int = 1

    @property
    def n_sources(self) -> int:
        return len(self.weigher.names)

    @property
    def ridge_kd(self) -> Floats:
        return np.full(self.weigher.theta_kd.shape, self.ridge)

    def penalty(self, theta_kd: Floats) -> float:
        return self.ridge * float(np.square(theta_kd).sum()) / 2

    def sums(self, u_ck: Floats, theta_kd: Floats, *, hessian: bool) -> LogLinearSums:
        """Make one pass over all parts."""
        weigher = replace(self.weigher, u_k=u_ck[0], theta_kd=theta_kd)
        state = PassState(self.reader, weigher, hessian=hessian)
        parts = self.engine.each_block(sum_block, self.blocks, state)
        total: LogLinearSums | None = None
        for part in parts:
            total = part if total is None else _add_sums(total, part)
        if self.sample is not None:
            own = _sum_rows(weigher, self.sample, weigher.terms(self.sample.frame), hessian)
            total = _add_sums(total, own)
        assert total is not None
        self.n_passes += 1
        if hessian:
            self.last = total
        return total

    @cached_property
    def free(self) -> Any:
        """(K W,) the parameters that are free: all u, and θ but the reference's."""
        free_kw = np.ones((self.n_sources, 1 + self.weigher.theta_kd.shape[1]), dtype=np.bool_)
        free_kw[self.reference, 1:] = False
        return np.flatnonzero(free_kw.ravel())


def _add_sums(one: LogLinearSums | None, other: LogLinearSums) -> LogLinearSums:
    assert one is not None
    hessian = None
    if one.hessian is not None and other.hessian is not None:
        hessian = one.hessian + other.hessian
    return LogLinearSums(one.value + other.value, one.gradient + other.gradient, hessian)


# The largest of no logarithms, so low that it is never that of others.
_NOTHING = -1e300


class Totals(NamedTuple):
    """Sums of v_i = d_i/Σ_{k kept} e^{u_k} ω_ik over rows, all relative to e^top.

    top : the largest log v.
    by_source : (K,) Σ_i v_i over the images of each source.
    squares : (K,) Σ_i v_i² over them.
    largest : the largest v.
    n_weighed : rows with v > 0.
    top_all, total_all : the same with every source of the fit in the sum, also the sample's.
    """

    top: float
    by_source: Floats
    squares: Floats
    largest: float
    n_weighed: int
    top_all: float
    total_all: float

    @property
    def log_total(self) -> float:
        return self.top + math.log(float(self.by_source.sum()))

    @property
    def log_all(self) -> float:
        return self.top_all + math.log(self.total_all)


def total_block(block: FileBlock, state: PassState) -> Totals:
    """Sum the weights of a block, and their squares."""
    return _total_rows(state.weigher, state.reader.read(block).counted())


def _total_rows(weigher: LogLinearWeigher, rows: RowsOfBlock) -> Totals:
    logit_nk, _ = weigher.logits(rows.frame)
    log_design_n = 0.0 if rows.design is None else np.log(rows.design)
    log_n = log_design_n - log_sums(logit_nk[:, : weigher.n_kept])
    log_all_n = log_design_n - log_sums(logit_nk)
    top, top_all = (float(each.max(initial=_NOTHING)) for each in (log_n, log_all_n))
    part_n = np.exp(log_n - top)
    return Totals(
        top,
        add_design(rows.source, part_n, len(weigher.names)),
        add_design(rows.source, part_n**2, len(weigher.names)),
        float(part_n.max(initial=0.0)),
        rows.source.size,
        top_all,
        float(np.exp(log_all_n - top_all).sum()),
    )


def total_parts(problem: StreamedProblem, weigher: LogLinearWeigher) -> Totals:
    """Sum the weights over all parts; `Totals.total_all` counts the target's sample too."""
    state = PassState(problem.reader, weigher)
    total: Totals | None = None
    for part in problem.engine.each_block(total_block, problem.blocks, state):
        total = part if total is None else _add_totals(total, part)
    assert total is not None
    problem.n_passes += 1
    if problem.sample is None:
        return total
    own = _total_rows(weigher, problem.sample)
    joined = _add_totals(total, own)
    return total._replace(top_all=joined.top_all, total_all=joined.total_all)


def _add_totals(one: Totals, other: Totals) -> Totals:
    top, top_all = max(one.top, other.top), max(one.top_all, other.top_all)
    scale = [math.exp(part.top - top) for part in (one, other)]
    scale_all = [math.exp(part.top_all - top_all) for part in (one, other)]
    return Totals(
        top,
        scale[0] * one.by_source + scale[1] * other.by_source,
        scale[0] ** 2 * one.squares + scale[1] ** 2 * other.squares,
        max(scale[0] * one.largest, scale[1] * other.largest),
        one.n_weighed + other.n_weighed,
        top_all,
        scale_all[0] * one.total_all + scale_all[1] * other.total_all,
    )


def read_column_values(frame: pd.DataFrame, column: str, block: FileBlock) -> Floats:
    """(n,) the numbers of a column; an error names the part with a missing one."""
    kind = frame[column].dtype.kind
    if kind not in "biuf":
        raise DataError(
            f"weights.mean takes a column of numbers; {column!r} has the type "
            f"{frame[column].dtype}.",
            column=column,
            value=str(frame[column].dtype),
        )
    value_n = frame[column].to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(value_n))
    if wrong.size:
        raise DataError(
            f"{column} is missing or infinite for {wrong.size} images of the part {block.path!r}, "
            f"the first in row {block.start + wrong[0]}.",
            column=column,
            path=block.path,
            row=int(block.start + wrong[0]),
            count=int(wrong.size),
        )
    return value_n


def mean_block(block: FileBlock, state: PassState) -> tuple[float, int]:
    """(mean of a column over a block, rows)."""
    value_n = read_column_values(
        state.reader.reader.read(block, [state.column]), state.column, block
    )
    return float(value_n.mean()), value_n.size


def column_block(block: FileBlock, state: PassState) -> Floats:
    """(n,) a column of a block, of a pool that is small enough to be in memory."""
    return read_column_values(state.reader.reader.read(block, [state.column]), state.column, block)


def _read_values(block: FileBlock, state: PassState) -> tuple[RowsOfBlock, Floats]:
    """Return the rows that count, and their values of the column."""
    rows = state.reader.read(block, [state.column])
    value_n = read_column_values(rows.frame, state.column, block)
    counted = rows.counted()
    if counted is not rows and rows.design is not None:
        value_n = value_n[rows.design > 0]
    return counted, value_n


def pull_block(block: FileBlock, state: PassState) -> tuple[Floats, Floats, Floats]:
    """Sum what moves a mean: Σ π (1, h), and Σ π q̃_k x, Σ π h q̃_k x with x = (1, φ).

    h is taken less ``centre``; q̃ are the memberships among the sources that are kept.
    """
    rows, value_n = _read_values(block, state)
    weigher: LogLinearWeigher = state.weigher
    value_n = value_n - state.centre
    logit_nk, phi_nd = weigher.logits(rows.frame)
    log_v_n = -log_sums(logit_nk[:, : weigher.n_kept])
    weight_n = np.exp(log_v_n - weigher.log_total)
    if rows.design is not None:
        weight_n *= rows.design
    q_nk = np.exp(logit_nk[:, : weigher.n_kept] + log_v_n[:, None])
    wide_nw = np.column_stack([np.ones(value_n.size), phi_nd])
    plain_kw = (q_nk * weight_n[:, None]).T @ wide_nw
    pulled_kw = (q_nk * (weight_n * value_n)[:, None]).T @ wide_nw
    return np.array([weight_n.sum(), weight_n @ value_n]), plain_kw, pulled_kw


class RangeState(NamedTuple):
    """What `range_block` needs: boxes of a subsample."""

    reader: BlockReader
    box: FittedBox


def range_block(block: FileBlock, state: RangeState) -> FittedBox:
    """Widen boxes until they hold the images of a block."""
    rows = state.reader.read(block).counted()
    return state.box.widened(rows.frame, rows.source)


def excluded_block(block: FileBlock, state: PassState) -> tuple[int, Floats]:
    """(images that a factor leaves out, (K,) their design weights by source)."""
    rows = replace(state.reader, excluding=()).read(block)
    out_n = state.reader.excluded(rows)
    if rows.design is not None:
        out_n &= rows.design > 0
    design_n = np.ones(out_n.size) if rows.design is None else rows.design
    mass_k = add_design(rows.source, out_n * design_n, len(state.reader.names))
    return int(np.count_nonzero(out_n)), mass_k


class Influence(NamedTuple):
    """By source: rows Σ d², Σ ψ, Σ d ψ, Σ ψ² (K, 4); and Σ pull²/d."""

    by_source: Floats
    own: float


def influence_block(block: FileBlock, state: PassState) -> Influence:
    """Sum the influence of a block's images on a mean: ψ_i = π_i (h_i − μ̂) − d_i aᵀ(q_i − 1_i)x."""
    return _influence_rows(state, *_read_values(block, state))


def _influence_rows(state: PassState, rows: RowsOfBlock, value_n: Floats | None) -> Influence:
    """Sum over rows; without values they are of the target's sample, and have no weight."""
    weigher: LogLinearWeigher = state.weigher
    assert state.slope_kw is not None
    logit_nk, phi_nd = weigher.logits(rows.frame)
    n, n_sources = logit_nk.shape
    design_n = np.ones(n) if rows.design is None else rows.design
    q_nk = np.exp(logit_nk - log_sums(logit_nk)[:, None])
    q_nk[np.arange(n), rows.source] -= 1.0
    along_nk = np.column_stack([np.ones(n), phi_nd]) @ state.slope_kw.T
    influence_n = -design_n * (q_nk * along_nk).sum(axis=1)
    own = 0.0
    if value_n is not None:
        weight_n = np.exp(weigher.log_weights(rows) - weigher.log_total)
        pull_n = weight_n * (value_n - state.centre)
        influence_n += pull_n
        own = float((pull_n**2 / design_n).sum())
    sums = [design_n**2, influence_n, design_n * influence_n, influence_n**2]
    by_source = [np.bincount(rows.source, weights=each, minlength=n_sources) for each in sums]
    return Influence(np.column_stack(by_source), own)


def influence_of_sample(state: PassState, sample: RowsOfBlock) -> Influence:
    """Sum the influence of the target's sample."""
    return _influence_rows(state, sample, None)


def strata_block(block: FileBlock, state: PassState) -> Floats:
    """(C, 7) Σ over the images of each stratum: 1, π, π h, π h², π², π² h, π² h².

    h is taken less ``centre``.
    """
    rows = state.reader.read(block, [state.column])
    weigher: StrataWeigher = state.weigher
    value_n = read_column_values(rows.frame, state.column, block) - state.centre
    weight_n = weigher.weigh(block, rows)
    stratum_n = weigher.strata(rows.frame)
    at = np.flatnonzero(weight_n > 0)
    weight_n, value_n, stratum_n = weight_n[at], value_n[at], stratum_n[at]
    first_n = weight_n * value_n
    sums = (
        *(np.ones(at.size), weight_n, first_n, first_n * value_n),
        *(weight_n**2, weight_n * first_n, first_n**2),
    )
    size = weigher.weight_c.size
    return np.column_stack([np.bincount(stratum_n, weights=each, minlength=size) for each in sums])


def solve_information(problem: StreamedProblem, gradient_kw: Floats) -> tuple[Floats, float]:
    """Solve I a = ∂μ̂/∂η for (K, W) a, I the information of (u, θ); also aᵀ ∂μ̂/∂η."""
    assert problem.last is not None
    assert problem.last.hessian is not None
    size = gradient_kw.size
    information = problem.last.hessian[0].reshape(size, size).copy()
    ridge_kw = np.zeros_like(gradient_kw)
    ridge_kw[:, 1:] = problem.ridge
    information[np.diag_indices(size)] += ridge_kw.ravel()
    free = problem.free
    slope = np.zeros(size)
    inverse = np.linalg.pinv(information[np.ix_(free, free)], rcond=1e-13, hermitian=True)
    slope[free] = inverse @ gradient_kw.ravel()[free]
    return slope.reshape(gradient_kw.shape), float(slope @ gradient_kw.ravel())
