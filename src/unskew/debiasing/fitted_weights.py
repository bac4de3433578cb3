"""Weights of a fitted model, with their verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.debiasing.estimation import Estimation, FittedWeights, estimated_rows, evaluate_fitted
from unskew.errors import CoverageError, first_few
from unskew.records import Floats, Ints, Overlap, Pool, Solution, Status, Verdict, Weights
from unskew.records.arrays import count_pairs, log_sum
from unskew.solve.normalizers import check_overlap, overlap_of_cells
from unskew.solve.options import SolverOptions, read_options
from unskew.solve.overlap import warn_if_weak, with_sigma2
from unskew.splits.folds import unit_codes
from unskew.target.facts import cell_text
from unskew.weigh.effective_size import judge_positive, judge_weights
from unskew.weigh.solved_weights import debias_weights, group_codes, weigh_solved

if TYPE_CHECKING:
    from unskew.bias.fitted import FittedBias

# A stratum of a product is judged by itself from this target mass and number of images on; errors
# of smaller ones average out.
_LARGE_MASS = 0.1
_LARGE_SIZE = 50


def judge_strata(fitted: FittedBias, weight_r: Floats) -> Overlap:
    """Judge the overlap of the sources where the target's masses of strata are known.

    Strata alone need coverage, not links; other factors need links within strata.
    """
    assert fitted.strata is not None
    data, n, n_sources = fitted.data, fitted.data.n_pool, len(fitted.names)
    if fitted.factors:
        overlap = check_overlap(
            fitted.profile.log_omega[:n, :n_sources], data.source[:n], log=True, names=fitted.names
        )
    else:
        count_ck = count_pairs(data.cell[:n], data.source[:n], (data.n_cells, n_sources))
        overlap = overlap_of_cells(fitted.strata.log_factor[:, :n_sources], count_ck, fitted.names)
    message, verdict = _strata_message(fitted, overlap)
    return judge_weights(replace(overlap, verdict=verdict, message=message), weight_r)


def _strata_message(fitted: FittedBias, overlap: Overlap) -> tuple[str, Verdict]:
    assert fitted.strata is not None
    target = fitted.strata.target
    by = " × ".join(target.by)
    asked = "stratum of the target" + (" that is not left out" if target.uncovered else "")
    known = f"with the target's distribution of {by} the normalizers are known, and every {asked}"
    if fitted.factors:
        weak = _weak_link(fitted)
        if weak:
            return weak, "weak"
        return (
            f"Within each stratum its sources are linked to one another; {known} has images.",
            "ok",
        )
    if len(fitted.names) == 1:
        links = "There is one source, which needs no link"
    elif overlap.connected:
        links = "The sources are linked to one another, though they need not be"
    else:
        links = (
            f"The sources are not linked to one another ({len(overlap.components)} separate "
            "groups) and need not be"
        )
    return f"{links}: {known} has images.", "ok"


def _weak_link(fitted: FittedBias) -> str:
    """Describe what is weak in a product with strata; "" if nothing is.

    That is links between sources within strata, or parameters of a source that shares no stratum.
    All strata together are judged as one solve is, by σ₂ of the sum of their Hessians, and a
    stratum by itself where it is large.
    """
    assert fitted.strata is not None
    data, profile, target = fitted.data, fitted.profile, fitted.strata.target
    seen_ck = np.zeros(profile.u.shape, dtype=np.bool_)
    seen_ck[data.cell, data.source] = True
    shared_k = seen_ck[seen_ck.sum(axis=1) > 1].any(axis=0)
    if profile.n_parameters and data.n_sources > 1 and not shared_k.all():
        alone = [f"`{data.names[k]}`" for k in np.flatnonzero(~shared_k)]
        return (
            f"No stratum has images both of {first_few(alone)} and of another source, so that "
            "the data do not show how it selects within strata: its other factors are a guess. "
            "Use coarser strata, or Strata alone."
        )
    everywhere = np.ones(data.cell.size, dtype=np.bool_), np.ones(data.n_sources, dtype=np.bool_)
    weak = _weak_among(fitted, *everywhere)
    if weak:
        return f"Within strata: {weak}"
    size_c = np.bincount(data.cell, minlength=data.n_cells)
    is_large_c = (target.mass >= _LARGE_MASS) & (size_c >= _LARGE_SIZE)
    for c in np.flatnonzero(is_large_c & (seen_ck.sum(axis=1) > 1)):
        weak = _weak_among(fitted, data.cell == c, seen_ck[c])
        if weak:
            return f"In the stratum {cell_text(target.by, target.strata[c])}: {weak}"
    return ""


def _weak_among(
    fitted: FittedBias, is_row_r: npt.NDArray[np.bool_], is_present_k: npt.NDArray[np.bool_]
) -> str:
    """Describe the weak link among these rows and sources; "" if there is none."""
    data, profile = fitted.data, fitted.profile
    row, present = np.flatnonzero(is_row_r), np.flatnonzero(is_present_k)
    overlap = check_overlap(
        profile.log_omega[np.ix_(row, present)],
        np.searchsorted(present, data.source[row]),
        log=True,
        names=[data.names[k] for k in present],
    )
    if overlap.verdict == "ok" and present.size > 1:
        hessian_kk = profile.information.h_ckk[np.unique(data.cell[row])].sum(axis=0)
        overlap = with_sigma2(overlap, hessian_kk[np.ix_(present, present)] / row.size)
    return overlap.message if overlap.verdict == "weak" else ""


def judge_target(weights: Weights, max_uncovered: float, *, check_sample: bool) -> Weights:
    """Add the verdict of families that are positive everywhere, and of a sample of the target.

    ``check_sample``: let a classifier try to tell the sample from the weighted pool.
    """
    from unskew.bias.resemblance import compare_with_target

    assert weights.estimation is not None
    fitted, overlap = weights.estimation.fitted, weights.overlap
    _check_coverage(fitted, max_uncovered)
    is_positive = not np.isneginf(fitted.profile.log_omega).any()
    if (fitted.strata is None or fitted.factors) and is_positive:
        overlap = judge_positive(overlap, weights.weight[fitted.row])
    has_sample = fitted.judge is not None or fitted.data.sample is not None
    resemblance = None
    if check_sample and has_sample:
        resemblance = compare_with_target(fitted, weights.weight[fitted.row])
    if resemblance is not None and resemblance.unlike > max_uncovered:
        raise CoverageError(
            f"{resemblance.message} That is more than max_uncovered = {max_uncovered:g}: the "
            "target is "
            "not identifiable from these sources.",
            option="max_uncovered",
            value=float(resemblance.unlike),
            limit=max_uncovered,
        )
    # The solve has already warned of its own verdict.
    if fitted.strata is not None or overlap.message != weights.overlap.message:
        warn_if_weak(overlap)
    return replace(
        weights, overlap=overlap, estimation=replace(weights.estimation, resemblance=resemblance)
    )


def _check_coverage(fitted: FittedBias, max_uncovered: float) -> None:
    """Refuse a sample of the target with too many images that no source could have produced."""
    data = fitted.data
    if data.sample is None:
        return
    lacking, levels = fitted.uncovered
    if lacking > max_uncovered:
        raise CoverageError(
            f"{lacking:.1%} of the target's images have {first_few(levels)}, which no source has, "
            f"more than max_uncovered = {max_uncovered:g}. "
            "Collect such images, or leave them out of the sample: results are then about the rest "
            "of the target.",
            option="max_uncovered",
            value=float(lacking),
            limit=max_uncovered,
            levels=list(levels),
        )
    log_rk = fitted.profile.log_omega[data.n_pool :, : len(fitted.names)]
    share = float(np.mean(np.isneginf(log_rk).all(axis=1)))
    if share > max_uncovered:
        raise CoverageError(
            f"{share:.1%} of the target's images are where no source selects anything (omega is 0 "
            f"for every source), more than max_uncovered = {max_uncovered:g}. Collect such images, "
            "or "
            "make the target smaller.",
            option="max_uncovered",
            value=share,
            limit=max_uncovered,
        )


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
    solved = None if fitted.strata is not None else _solve_fitted(pool, fitted, seed, solver or {})
    fitted, evaluated = _evaluate(fitted, solved)
    if solved is None:
        overlap = judge_strata(fitted, evaluated.weight)
        solution = _known_solution(fitted)
    else:
        solution, overlap = _seen_from_pool(solved, fitted, evaluated)
    estimation = _estimation(pool, fitted, evaluated, seed, max_uncovered)
    weight_n = np.zeros(len(pool))
    weight_n[fitted.row] = evaluated.weight
    group, group_names = _groups(pool) or (None, None)
    weights = Weights(
        weight=weight_n,
        id=pool.frame["id"].to_numpy(),
        source=pool.source,
        names=pool.names,
        solution=solution,
        overlap=overlap,
        group=group,
        group_names=group_names,
        unit=_units(pool, fitted),
        rows=solved.rows if solved is not None and fitted.omega_is_known else None,
        estimation=estimation,
    )
    return judge_target(weights, max_uncovered, check_sample=check_sample)


def _units(pool: Pool, fitted: FittedBias) -> Ints | None:
    """(n,) the units of groups and copies among the images of the pool; None without any."""
    if fitted.row.size == len(pool) == fitted.data.source.size:
        return fitted.data.unit
    return unit_codes(pool.frame)


def _groups(pool: Pool) -> tuple[Any, Any] | None:
    return group_codes(pool.frame["group"], len(pool)) if "group" in pool.frame.columns else None


def _solve_fitted(pool: Pool, fitted: FittedBias, seed: int, solver: SolverOptions) -> Weights:
    """Solve the equations for the fitted ω, the target's sample being one of the sources.

    Newton's method begins where the fit ended.
    """
    data = fitted.data
    if fitted.profile.solved is not None and not solver:
        groups = _groups(pool) if fitted.omega_is_known else None
        weights = weigh_solved(fitted.profile.solved, np.arange(data.source.size), groups)
        warn_if_weak(weights.overlap)
        return weights
    is_grouped = fitted.omega_is_known and "group" in pool.frame.columns
    return debias_weights(
        fitted.profile.log_omega,
        data.source,
        log=True,
        names=data.names,
        group=pool.frame["group"] if is_grouped else None,
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
    """Do what `evaluate_fitted` does from the solver's scaled rows, which saves a pass over ω.

    None where the sample's own term hides the others in rounding.
    """
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
        u_k = np.log(np.bincount(data.source, minlength=data.n_sources))
    rows = estimated_rows(fitted, evaluated.weight)
    return Estimation(pool, fitted, rows, u_k, evaluated.log_total, None, seed, max_uncovered)


def _seen_from_pool(
    solved: Weights, fitted: FittedBias, evaluated: FittedWeights
) -> tuple[Solution, Overlap]:
    """Leave the target's sample, u and Ω = 1, out of solution and message."""
    solution, overlap = solved.solution, solved.overlap
    if fitted.data.sample is None:
        return solution, overlap
    k = len(fitted.names)
    if overlap.verdict == "ok":
        message = f"All {k} sources and the target's sample are linked to one another."
        overlap = replace(overlap, message=message)
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


def _known_solution(fitted: FittedBias) -> Solution:
    """Return Ω_k = 1: with strata there is nothing to solve."""
    data = fitted.data
    size_k = np.bincount(data.source, minlength=data.n_sources)[: len(fitted.names)]
    share_k = size_k / data.source.size
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
