"""Weights of a pool under a fitted bias model: normalizers, weights, verdict, rows for errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.debiasing.estimation import Estimation
from unskew.debiasing.fitted_rows import FittedWeights, estimated_rows, evaluate_fitted
from unskew.debiasing.fitted_verdict import judge_strata, judge_target
from unskew.records import Overlap, Pool, Solution, Status, Weights
from unskew.solve.logarithms import log_sum
from unskew.solve.options import SolverOptions, read_options
from unskew.solve.overlap import warn_if_weak
from unskew.weigh.solved_weights import debias_weights, group_codes, weigh_solved

if TYPE_CHECKING:
    from unskew.bias.fitted import FittedBias

# Of the largest term of a row: a sum so small may have lost terms to underflow.
_LOST = 1e-280


def weigh_fitted(
    pool: Pool,
    fitted: FittedBias,
    *,
    seed: int = 0,
    max_unlike: float = 1.0,
    judge: bool = True,
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
    estimation = _estimation(pool, fitted, evaluated, seed, max_unlike)
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
        rows=solved.rows if solved is not None and fitted.omega_is_known else None,
        estimation=estimation,
    )
    return judge_target(weights, max_unlike, judge=judge)


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
        seed=seed,
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
    pool: Pool, fitted: FittedBias, evaluated: FittedWeights, seed: int, max_unlike: float
) -> Estimation:
    data = fitted.data
    u_k = fitted.profile.u[0]
    if fitted.strata is not None:
        u_k = np.log(np.bincount(data.source, minlength=data.n_sources))
    rows = estimated_rows(fitted, evaluated.weight)
    return Estimation(pool, fitted, rows, u_k, evaluated.log_total, None, seed, max_unlike)


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
