"""Weights of a fitted model, with their verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unskew.debiasing.estimation import Estimation, FittedWeights, estimated_rows, evaluate_fitted
from unskew.errors import CoverageError, first_few
from unskew.records import Floats, Ints, Overlap, Pool, Solution, Status, Weights
from unskew.records.arrays import count_pairs, log_sum, log_sums
from unskew.records.design_weights import add_design
from unskew.solve.link_error import LinkError, covariance_root, expected_move
from unskew.solve.normalizers import overlap_of_cells
from unskew.solve.options import Options, SolverOptions, read_options
from unskew.solve.overlap import judge_links, warn_if_weak, weaken
from unskew.solve.prepared_rows import prepare
from unskew.splits.folds import unit_codes
from unskew.weigh.solved_weights import group_codes, solve_weights, weigh_solved
from unskew.weigh.tail_verdict import judge_lone_strata, judge_sample, judge_tail

if TYPE_CHECKING:
    from unskew.bias.fitted import FittedBias
    from unskew.target.strata import TargetStrata


def judge_strata(fitted: FittedBias, weight_r: Floats) -> Overlap:
    """Judge the overlap of the sources where the target's masses of strata are known.

    Strata alone need coverage and more than one image each, not links; other factors need links
    within strata.
    """
    assert fitted.strata is not None
    data, n, n_sources = fitted.data, fitted.data.n_pool, len(fitted.names)
    if fitted.factors:
        rows = fitted.profile.log_omega[:n, :n_sources]
        options = Options(log=True, names=fitted.names)
        overlap = prepare(rows, data.source[:n], options).overlap
    else:
        count_ck = count_pairs(data.cell[:n], data.source[:n], (data.n_cells, n_sources))
        overlap = overlap_of_cells(fitted.strata.log_factor[:, :n_sources], count_ck, fitted.names)
    message = strata_message(
        fitted.strata.target, overlap, len(fitted.names), alone=not fitted.factors
    )
    overlap = replace(overlap, verdict="ok", message=message)
    return _judge_links_in_strata(fitted, overlap, weight_r) if fitted.factors else overlap


def strata_message(target: TargetStrata, overlap: Overlap, n_sources: int, *, alone: bool) -> str:
    """Say what the weights of strata rest on; ``alone``: without other factors."""
    by = " × ".join(target.by)
    asked = "stratum of the target" + (" that is not left out" if target.uncovered else "")
    if not alone:
        return f"Every {asked} has images, and within each one its sources overlap."
    if n_sources == 1:
        links = "There is one source, which needs no overlap."
    elif overlap.connected:
        links = f"(The sources also overlap; with known shares of {by} they would not have to.)"
    else:
        links = (
            f"(The sources do not overlap: {len(overlap.components)} separate groups. With known "
            f"shares of {by} they need not.)"
        )
    return f"Every {asked} has images. {links}"


def _judge_links_in_strata(fitted: FittedBias, overlap: Overlap, weight_r: Floats) -> Overlap:
    """Judge the links of a product with strata, which have to hold within strata."""
    data, profile = fitted.data, fitted.profile
    seen_ck = np.zeros(profile.u.shape, dtype=np.bool_)
    seen_ck[data.cell, data.source] = True
    shared_k = seen_ck[seen_ck.sum(axis=1) > 1].any(axis=0)
    if profile.n_parameters and data.n_sources > 1 and not shared_k.all():
        alone = [f"`{data.names[k]}`" for k in np.flatnonzero(~shared_k)]
        return weaken(
            overlap,
            f"No stratum has images both of {first_few(alone)} and of another source, so that "
            "the data do not show how it selects within strata: its other factors are a guess. "
            "Use coarser strata, or Strata alone.",
        )
    names = overlap.names
    error_c = [
        _link_error_of_cell(fitted, weight_r, c) if seen_ck[c].sum() > 1 else LinkError(0.0, None)
        for c in range(data.n_cells)
    ]
    moved = sum(error.moved for error in error_c)
    worst = max(range(data.n_cells), key=lambda c: error_c[c].moved)
    error = LinkError(moved, error_c[worst].direction_k)
    hessian_kk = profile.information.h_ckk[worst]
    judged = judge_links(
        replace(overlap, names=data.names), error, hessian_kk, place="Within strata: "
    )
    return replace(judged, names=names)


def _link_error_of_cell(fitted: FittedBias, weight_r: Floats, cell: int) -> LinkError:
    """Compute the target mass that errors of the normalizers of one stratum move within it."""
    data, profile = fitted.data, fitted.profile
    at = np.flatnonzero(data.cell == cell)
    own_design = None if data.design is None else data.design[at]
    size_k = add_design(data.source[at], own_design, data.n_sources)
    present = np.flatnonzero(size_k)
    laplacian_kk = profile.information.h_ckk[cell][np.ix_(present, present)]
    root_kj = np.zeros((data.n_sources, present.size - 1))
    root_kj[present] = covariance_root(laplacian_kk, size_k[present])
    return expected_move(lambda: iter([_kept_memberships(fitted, weight_r, at)]), root_kj)


def _kept_memberships(fitted: FittedBias, weight_r: Floats, at: Ints) -> tuple[Floats, Floats]:
    """Return memberships of the pool's rows among ``at`` in the pool's sources, and weights."""
    data = fitted.data
    at = at[at < data.n_pool]
    q_bk = fitted.profile.memberships(at)
    if data.sample is not None:
        q_bk[:, data.sample] = 0.0
        q_bk /= np.maximum(q_bk.sum(axis=1, keepdims=True), 1e-300)
    return q_bk, weight_r[at]


def judge_target(
    overlap: Overlap, weight_n: Floats, unit_n: Ints | None, estimation: Estimation, *, check: bool
) -> tuple[Overlap, Estimation]:
    """Add the verdict on the weights, and on a sample of the target; warn if it is weak."""
    from unskew.bias.resemblance import compare_with_target

    fitted, max_uncovered = estimation.fitted, estimation.max_uncovered
    _check_coverage(fitted, max_uncovered)
    overlap = _judge_weights(overlap, weight_n, unit_n, fitted)
    has_sample = fitted.judge is not None or fitted.data.sample is not None
    resemblance = None
    if check and has_sample:
        resemblance = compare_with_target(fitted, weight_n[fitted.row])
    if resemblance is not None and resemblance.unlike > max_uncovered:
        raise CoverageError(
            f"{resemblance.message} That is more than max_uncovered = {max_uncovered:g}: the "
            "target is not identifiable from these sources.",
            option="max_uncovered",
            value=float(resemblance.unlike),
            limit=max_uncovered,
        )
    warn_if_weak(overlap)
    return overlap, replace(estimation, resemblance=resemblance)


def _judge_weights(
    overlap: Overlap, weight_n: Floats, unit_n: Ints | None, fitted: FittedBias
) -> Overlap:
    """Judge the weights of the pool: single strata where there is nothing else, the tail else."""
    row, strata = fitted.row, fitted.strata
    unit_r = None if unit_n is None else unit_n[row]
    if strata is not None and not fitted.factors:
        cell_r = fitted.data.cell[: fitted.data.n_pool]
        return judge_lone_strata(overlap, weight_n[row], cell_r, unit_r, strata.target.names)
    data = fitted.data
    if data.sample is None:
        return judge_tail(overlap, weight_n, unit_n)
    overlap = judge_tail(overlap, weight_n, unit_n, beside_sample=True)
    log_r = _log_weights(fitted, weight_n[row])
    # Where no source selects anything is for `_check_coverage` to judge.
    is_covered_t = np.isfinite(log_r[data.n_pool :])
    if not is_covered_t.any():
        return overlap
    unit_t = None if data.unit is None else data.unit[data.n_pool :][is_covered_t]
    log_t = log_r[data.n_pool :][is_covered_t]
    design_t = None if data.design is None else data.design[data.n_pool :][is_covered_t]
    return judge_sample(overlap, log_r[: data.n_pool], log_t, unit_r, unit_t, design_t)


def _log_weights(fitted: FittedBias, weight_r: Floats) -> Floats:
    """Compute (R,) the logarithm of the weight that each row has, or would have in the pool.

    That is with design weight 1.

    An image of the target's sample would weigh as much as one of the pool with its ω and stratum;
    infinitely much where no source selects it, or its stratum is not in the pool.
    """
    data, profile = fitted.data, fitted.profile
    kept = slice(None, data.sample)
    # Of a stratum without images u is −inf for every source.
    with np.errstate(divide="ignore", invalid="ignore"):
        log_v = -log_sums(profile.log_omega[:, kept] + profile.u[data.cell, kept])
        scale_r = np.log(weight_r) - log_v[: data.n_pool]
        if data.design is not None:
            scale_r -= np.log(data.design[: data.n_pool])
    scale_c = np.full(data.n_cells, -np.inf)
    np.maximum.at(scale_c, data.cell[: data.n_pool], scale_r)
    with np.errstate(invalid="ignore"):
        log_r = log_v + scale_c[data.cell]
    return np.where(np.isnan(log_r), np.inf, log_r)


def _check_coverage(fitted: FittedBias, max_uncovered: float) -> None:
    """Refuse a sample of the target with too many images that no source could have produced."""
    data = fitted.data
    if data.sample is None:
        return
    lacking, levels = fitted.uncovered
    if lacking > max_uncovered:
        raise CoverageError(
            f"{lacking:.1%} of the target's images have {first_few(levels)}, which no source has, "
            f"more than max_uncovered = {max_uncovered:g}. Collect such images, or leave them out "
            "of the sample: results are then about the rest of the target.",
            option="max_uncovered",
            value=float(lacking),
            limit=max_uncovered,
            levels=list(levels),
        )
    log_rk = fitted.profile.log_omega[data.n_pool :, : len(fitted.names)]
    design_m = None if data.design is None else data.design[data.n_pool :]
    share = float(np.average(np.isneginf(log_rk).all(axis=1), weights=design_m))
    if share > max_uncovered:
        raise CoverageError(
            f"{share:.1%} of the target's images are where no source selects anything (omega is 0 "
            f"for every source), more than max_uncovered = {max_uncovered:g}. Collect such images, "
            "or make the target smaller.",
            option="max_uncovered",
            value=share,
            limit=max_uncovered,
        )


# Memberships held in memory at once.
_BLOCK = 1 << 20
# Of the largest term of a row: a sum so small may have lost terms to underflow.
_LOST = 1e-280


def weigh_fitted(
    pool: Pool,
    fitted: FittedBias,
    *,
    seed: int = 0,
    max_uncovered: float = 1.0,
    check_sample: bool = True,
    solver: SolverOptions | None = None,
) -> Weights:
    """Weigh the pool under a fitted model, with verdict and errors.

    ``solver``: options of the solve; None or {} takes over the solve that the fit ended with.
    """
    solved = None if fitted.strata is not None else _solve_fitted(fitted, seed, solver or {})
    fitted, evaluated = _evaluate(fitted, solved)
    if solved is None:
        overlap = judge_strata(fitted, evaluated.weight)
        solution = _known_solution(fitted)
    else:
        solution, overlap = _seen_from_pool(solved, fitted, evaluated)
    estimation = _estimation(pool, fitted, evaluated, seed, max_uncovered)
    weight_n = np.zeros(len(pool))
    weight_n[fitted.row] = evaluated.weight
    group, group_names = None, None
    if "group" in pool.frame.columns:
        group, group_names = group_codes(pool.frame["group"], len(pool))
    unit_n = _units(pool, fitted)
    unit_n = group if unit_n is None else unit_n
    overlap, estimation = judge_target(overlap, weight_n, unit_n, estimation, check=check_sample)
    return Weights(
        weight=weight_n,
        id=pool.frame["id"],  # type: ignore[arg-type]  # see `ids_on_demand`
        source=pool.source,
        names=pool.names,
        solution=solution,
        overlap=overlap,
        group=group,
        group_names=group_names,
        unit=unit_n,
        rows=solved.rows if solved is not None and fitted.omega_is_known else None,
        estimation=estimation,
        design_weight=pool.design_weight,
    )


def _units(pool: Pool, fitted: FittedBias) -> Ints | None:
    """(n,) the units of groups and copies among the images of the pool; None without any."""
    if fitted.row.size == len(pool) == fitted.data.source.size:
        return fitted.data.unit
    return unit_codes(pool.frame)


def _solve_fitted(fitted: FittedBias, seed: int, solver: SolverOptions) -> Weights:
    """Solve the equations for the fitted ω, the target's sample being one of the sources."""
    data = fitted.data
    unit_r = data.unit if fitted.omega_is_known else None
    if fitted.profile.solved is not None and not solver:
        units = None if unit_r is None else (unit_r, np.unique(unit_r))
        ids = np.arange(data.source.size)
        return weigh_solved(fitted.profile.solved, ids, units, data.design)
    return solve_weights(
        fitted.profile.log_omega,
        data.source,
        log=True,
        names=data.names,
        group=unit_r,
        design_weight=data.design,
        is_scaled=True,
        start=fitted.profile.u[0] if read_options(solver).method == "newton" else None,
        rng=seed,
        **solver,
    )


def _evaluate(fitted: FittedBias, solved: Weights | None) -> tuple[FittedBias, FittedWeights]:
    """Return the model as it is kept, with the u of the method that solved, and its weights."""
    # A fit is kept as long as its weights; the solver's rows, as large as ω, need not be.
    kept = replace(fitted, profile=replace(fitted.profile, solved=None))
    if solved is None:
        return kept, evaluate_fitted(kept)
    if solved.solution.method != "newton":
        kept = replace(kept, profile=replace(kept.profile, u=solved.solution.u[None, :]))
        return kept, evaluate_fitted(kept)
    is_reused = fitted.profile.solved is not None
    evaluated = _evaluate_solved(kept, solved) if is_reused else None
    return kept, evaluate_fitted(kept) if evaluated is None else evaluated


def _evaluate_solved(fitted: FittedBias, solved: Weights) -> FittedWeights | None:
    """Do what `evaluate_fitted` does from the solver's scaled rows, which saves a pass over ω."""
    data = fitted.data
    if data.sample is None:
        # The solver's weights are those of the pool, and its u such that they sum to 1.
        return FittedWeights(solved.weight, 0.0, solved.solution.log_normalizer)
    assert solved.rows is not None
    u_k = fitted.profile.u[0].copy()
    u_k[data.sample] = -np.inf
    sum_r, scale_r = solved.rows.row_sums(u_k)
    if not sum_r.min() > _LOST:
        return None
    log_v = -np.log(sum_r) if scale_r is None else -np.log(sum_r) - scale_r
    log_v = log_v if solved.rows.inverse_n is None else log_v[solved.rows.inverse_n]
    log_v = log_v[: data.n_pool]
    if data.design is not None:
        log_v = log_v + np.log(data.design[: data.n_pool])
    log_total = log_sum(log_v)
    return FittedWeights(
        np.exp(log_v - log_total), log_total, solved.solution.log_normalizer[: data.sample]
    )


def _estimation(
    pool: Pool, fitted: FittedBias, evaluated: FittedWeights, seed: int, max_uncovered: float
) -> Estimation:
    data = fitted.data
    u_k = fitted.profile.u[0]
    if fitted.strata is not None:
        u_k = np.log(data.size_k)
    rows = estimated_rows(fitted, evaluated.weight)
    return Estimation(pool, fitted, rows, u_k, evaluated.log_total, None, seed, max_uncovered)


def _seen_from_pool(
    solved: Weights, fitted: FittedBias, evaluated: FittedWeights
) -> tuple[Solution, Overlap]:
    """Leave the target's sample, u and Ω = 1, out of solution and message."""
    solution, overlap, hessian_kk = solved.solution, solved.overlap, solved.solution.hessian
    if fitted.data.sample is None:
        return solution, overlap
    k = len(fitted.names)
    if overlap.connected:
        message = f"All {k} sources and the target's sample are linked to one another."
        overlap = replace(overlap, verdict="ok", message=message)
        overlap = judge_links(overlap, _link_error_of_pool(fitted, solved, evaluated), hessian_kk)
    seen = replace(
        solution,
        names=solution.names[:k],
        share=solution.share[:k],
        u=solution.u[:k],
        log_normalizer=evaluated.log_normalizer,
        hessian=None,
        hessian_exact=False,
    )
    return seen, overlap


def _link_error_of_pool(fitted: FittedBias, solved: Weights, evaluated: FittedWeights) -> LinkError:
    """Compute the mass that the normalizers' error moves within the pool, without the sample."""
    hessian_kk = solved.solution.hessian
    if hessian_kk is None or not np.isfinite(hessian_kk).all():
        return LinkError(np.inf, None)
    size_k = np.bincount(fitted.data.source, minlength=fitted.data.n_sources).astype(np.float64)
    root_kj = covariance_root(hessian_kk * size_k.sum(), size_k)
    step = max(1, _BLOCK // size_k.size)
    starts = range(0, fitted.data.n_pool, step)
    return expected_move(
        lambda: (
            _kept_memberships(fitted, evaluated.weight, np.arange(start, start + step))
            for start in starts
        ),
        root_kj,
    )


def _known_solution(fitted: FittedBias) -> Solution:
    """Return Ω_k = 1: with strata there is nothing to solve."""
    data = fitted.data
    share_k = data.size_k[: len(fitted.names)] / data.size_k.sum()
    return Solution(
        names=fitted.names,
        share=share_k,
        u=np.log(share_k),
        log_normalizer=np.zeros(share_k.size),
        method="known",
        status=Status.CONVERGED,
        gradient_norm=0.0,
        error_estimate=0.0,
        n_steps=0,
        n_passes=0,
        trace=(),
        hessian=None,
        hessian_exact=False,
    )
