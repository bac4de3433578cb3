"""Sums over the rows of all parts: one pass each, on any engine.

Each function of a block is pure; its result is a few sums, which are added in the order of the
blocks. Rows that are in memory (the target's sample) are added by the driver.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    mean_c: Floats | None = field(repr=False, default=None)
    slope_ck: Floats | None = field(repr=False, default=None)
    slope_kd: Floats | None = field(repr=False, default=None)


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
        rows.stratum,
        weigher.u_ck,
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
    present_ck : (C, K) images of each stratum and source, counted by their design weights.
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

    @property
    def n_cells(self) -> int:
        return len(self.present_ck)

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
        weigher = replace(self.weigher, u_ck=u_ck, theta_kd=theta_kd)
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


def _add_sums(one: LogLinearSums | None, other: LogLinearSums) -> LogLinearSums:
    assert one is not None
    hessian = None
    if one.hessian is not None and other.hessian is not None:
        hessian = one.hessian + other.hessian
    return LogLinearSums(one.value + other.value, one.gradient + other.gradient, hessian)


# The largest of no logarithms, so low that it is never that of others.
_NOTHING = -1e300


class Totals(NamedTuple):
    """Sums of v_i = d_i/Σ_{k kept} e^{u_ck} ω_ik over rows, those of stratum c relative to e^top_c.

    top_c : (C,) the largest log v of each stratum.
    mass_ck : (C, K) Σ_i v_i over the images of each stratum and source.
    square_ck : (C, K) Σ_i v_i² over them.
    largest_c : (C,) the largest v.
    top_all, total_all : Σ_i v_i with every source of the fit in the sum, also the sample's.
    """

    top_c: Floats
    mass_ck: Floats
    square_ck: Floats
    largest_c: Floats
    top_all: float
    total_all: float

    @property
    def log_total_c(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(self.top_c + np.log(self.mass_ck.sum(axis=1)))

    @property
    def log_all(self) -> float:
        return self.top_all + math.log(self.total_all)


def total_block(block: FileBlock, state: PassState) -> Totals:
    """Sum the weights of a block, and their squares."""
    return _total_rows(state.weigher, state.reader.read(block).counted())


def _total_rows(weigher: LogLinearWeigher, rows: RowsOfBlock) -> Totals:
    logit_nk, _ = weigher.logits(rows.frame, rows.stratum)
    log_design_n = 0.0 if rows.design is None else np.log(rows.design)
    log_n = log_design_n - log_sums(logit_nk[:, : weigher.n_kept])
    log_all_n = log_n
    if weigher.n_kept < len(weigher.names):
        log_all_n = log_design_n - log_sums(logit_nk)
    shape = weigher.u_ck.shape
    top_c, largest_c = np.full(shape[0], _NOTHING), np.zeros(shape[0])
    np.maximum.at(top_c, rows.stratum, log_n)
    part_n = np.exp(log_n - top_c[rows.stratum])
    np.maximum.at(largest_c, rows.stratum, part_n)
    code_n, size = rows.stratum * shape[1] + rows.source, shape[0] * shape[1]
    top_all = float(log_all_n.max(initial=_NOTHING))
    return Totals(
        top_c,
        add_design(code_n, part_n, size).reshape(shape),
        add_design(code_n, part_n**2, size).reshape(shape),
        largest_c,
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
    joined = _add_totals(total, _total_rows(weigher, problem.sample))
    return total._replace(top_all=joined.top_all, total_all=joined.total_all)


def _add_totals(one: Totals, other: Totals) -> Totals:
    top_c, top_all = np.maximum(one.top_c, other.top_c), max(one.top_all, other.top_all)
    scale_c, own_c = (np.exp(part.top_c - top_c) for part in (one, other))
    scale_all, own_all = (math.exp(part.top_all - top_all) for part in (one, other))
    return Totals(
        top_c,
        scale_c[:, None] * one.mass_ck + own_c[:, None] * other.mass_ck,
        scale_c[:, None] ** 2 * one.square_ck + own_c[:, None] ** 2 * other.square_ck,
        np.maximum(scale_c * one.largest_c, own_c * other.largest_c),
        top_all,
        scale_all * one.total_all + own_all * other.total_all,
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
    """Sum what moves a mean: Σ π (1, h), and Σ π q̃_k x, Σ π h q̃_k x with x = (1, φ), by stratum.

    h is taken less ``centre``; q̃ are the memberships among the sources that are kept.
    """
    rows, value_n = _read_values(block, state)
    weigher: LogLinearWeigher = state.weigher
    value_n = value_n - state.centre
    logit_nk, phi_nd = weigher.logits(rows.frame, rows.stratum)
    logit_nk = logit_nk[:, : weigher.n_kept]
    log_v_n = -log_sums(logit_nk)
    weight_n = np.exp(log_v_n + weigher.log_scale_c[rows.stratum])
    if rows.design is not None:
        weight_n *= rows.design
    q_nk = np.exp(logit_nk + log_v_n[:, None])
    wide_nw = np.column_stack([np.ones(value_n.size), phi_nd])
    n_cells = len(weigher.u_ck)
    first_n = weight_n * value_n
    total_c2 = np.column_stack(
        [add_design(rows.stratum, each, n_cells) for each in (weight_n, first_n)]
    )
    plain_ckw, pulled_ckw = np.zeros((2, n_cells, weigher.n_kept, wide_nw.shape[1]))
    for cell in np.unique(rows.stratum):
        at = slice(None) if n_cells == 1 else np.flatnonzero(rows.stratum == cell)
        plain_ckw[cell] = (q_nk[at] * weight_n[at, None]).T @ wide_nw[at]
        pulled_ckw[cell] = (q_nk[at] * first_n[at, None]).T @ wide_nw[at]
    return total_c2, plain_ckw, pulled_ckw


class RangeState(NamedTuple):
    """What `range_block` needs: boxes of a subsample."""

    reader: BlockReader
    box: FittedBox


def range_block(block: FileBlock, state: RangeState) -> FittedBox:
    """Widen boxes until they hold the images of a block."""
    rows = state.reader.read(block).counted()
    return state.box.widened(rows.frame, rows.source)


def excluded_block(block: FileBlock, state: PassState) -> tuple[int, Floats]:
    """(images that a factor leaves out, (C, K) their design weights); ``state.weigher`` is C."""
    rows = replace(state.reader, excluding=()).read(block).counted()
    out_n = state.reader.excluded(rows)
    design_n = np.ones(out_n.size) if rows.design is None else rows.design
    n_cells, n_sources = state.weigher, len(state.reader.names)
    code_n = rows.stratum * n_sources + rows.source
    mass_p = add_design(code_n, out_n * design_n, n_cells * n_sources)
    return int(np.count_nonzero(out_n)), mass_p.reshape(n_cells, n_sources)


class Influence(NamedTuple):
    """By source: rows Σ d², Σ ψ, Σ d ψ, Σ ψ² (K, 4); and Σ pull²/d."""

    by_source: Floats
    own: float


def influence_block(block: FileBlock, state: PassState) -> Influence:
    """Sum the influence of a block's images on a mean: ψ_i = π_i (h_i − m_c) − d_i aᵀ(q_i − 1_i)x.

    m_c is the mean of the image's stratum, μ̂ without strata.
    """
    return _influence_rows(state, *_read_values(block, state))


def _influence_rows(state: PassState, rows: RowsOfBlock, value_n: Floats | None) -> Influence:
    """Sum over rows; without values they are of the target's sample, and have no weight."""
    weigher: LogLinearWeigher = state.weigher
    assert state.slope_ck is not None
    assert state.slope_kd is not None
    assert state.mean_c is not None
    logit_nk, phi_nd = weigher.logits(rows.frame, rows.stratum)
    n, n_sources = logit_nk.shape
    design_n = np.ones(n) if rows.design is None else rows.design
    log_all_n = log_sums(logit_nk)
    q_nk = np.exp(logit_nk - log_all_n[:, None])
    q_nk[np.arange(n), rows.source] -= 1.0
    along_nk = phi_nd @ state.slope_kd.T
    along_nk += state.slope_ck[rows.stratum]
    influence_n = -design_n * (q_nk * along_nk).sum(axis=1)
    own = 0.0
    if value_n is not None:
        if weigher.n_kept < n_sources:
            log_all_n = log_sums(logit_nk[:, : weigher.n_kept])
        weight_n = design_n * np.exp(weigher.log_scale_c[rows.stratum] - log_all_n)
        pull_n = weight_n * (value_n - state.centre - state.mean_c[rows.stratum])
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
    stratum_n = weigher.lookup.find(rows.frame)
    at = np.flatnonzero(weight_n > 0)
    weight_n, value_n, stratum_n = weight_n[at], value_n[at], stratum_n[at]
    first_n = weight_n * value_n
    sums = (
        *(np.ones(at.size), weight_n, first_n, first_n * value_n),
        *(weight_n**2, weight_n * first_n, first_n**2),
    )
    size = weigher.weight_c.size
    return np.column_stack([np.bincount(stratum_n, weights=each, minlength=size) for each in sums])
