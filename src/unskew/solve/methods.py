"""Running a method on prepared rows, and finishing: u's constant fixed, everything recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unskew.errors import ConfigError, ConvergenceError
from unskew.records import Floats, Overlap, Solution, Status
from unskew.solve.fixed_point import iterate_fixed_point
from unskew.solve.laplacian import newton_step
from unskew.solve.newton import Outcome, minimize
from unskew.solve.objective import CrossProducts, ObjectiveValue, evaluate, hessian_matrix
from unskew.solve.omega_rows import Rows
from unskew.solve.options import Options
from unskew.solve.overlap import require_connected
from unskew.solve.prepared_rows import Prepared
from unskew.solve.sgd import descend
from unskew.solve.starting_point import balanced_start

# Problems up to this many stored entries are evaluated once more at the solution: it costs nothing
# there.
_SMALL = 1 << 20


@dataclass(frozen=True)
class Solved:
    """A solution with the rows it was computed on (perhaps rescaled)."""

    solution: Solution
    overlap: Overlap
    rows: Rows


def solve_prepared(prepared: Prepared, options: Options) -> Solved:
    """Solve; raise an error if that fails, unless ``options.throw`` is False."""
    start_k = options.start_k
    if options.throw:
        require_connected(prepared.overlap)
    if start_k is not None and start_k.shape != (len(prepared.names),):
        raise ConfigError(
            f"start has one number for each of the {len(prepared.names)} sources; got shape "
            f"{start_k.shape}.",
            option="start",
            count=len(prepared.names),
        )
    if not prepared.overlap.connected:
        return Solved(_disconnected(prepared, options), prepared.overlap, prepared.rows)
    outcome = _run(prepared.rows, options)
    solution = _finish(prepared, options, outcome)
    if options.throw and solution.status not in (Status.CONVERGED, Status.PRESCRIBED):
        link = prepared.overlap.weakest_link or ()
        raise ConvergenceError(
            f"The normalizers were not found to the tolerance {options.tol:g}: "
            f"{solution.status.value}. "
            f"Error estimate of the log normalizers {solution.error_estimate:.2g} after "
            f"{solution.n_steps} step(s); the weakest link is {' - '.join(link)}. Allow more steps "
            "or a larger error (max_steps and tol, in a configuration under [solve]); in Python "
            "throw=False returns the solution as far as it got.",
            solution,
            option="tol",
            value=options.tol,
            sources=list(link),
        )
    return Solved(solution, prepared.overlap, outcome.rows)


def with_exact_hessian(solved: Solved) -> Solved:
    """Replace a Hessian that was estimated from a subsample by the exact one, in one more pass."""
    solution = solved.solution
    if solution.hessian_exact or solution.hessian is None or not np.all(np.isfinite(solution.u)):
        return solved
    exact = hessian_matrix(evaluate(solved.rows, solved.rows.centred(solution.u)))
    return replace(
        solved,
        solution=replace(
            solution, hessian=exact, hessian_exact=True, n_passes=solution.n_passes + 1
        ),
    )


def _run(rows: Rows, options: Options) -> Outcome:
    if options.method == "newton":
        return _run_newton(rows, options)
    start_k, seed = options.start_k, options.seed
    if options.method == "fixed_point":
        start_k = balanced_start(rows) if start_k is None else start_k
        rows = _comfortable(rows, start_k)
        u_k, status, error, trace = iterate_fixed_point(
            rows, start_k, options.tol, options.most_steps
        )
    else:
        if start_k is None:
            start_k = np.random.default_rng(seed).normal(size=rows.n_sources)
        rows = _comfortable(rows, start_k)
        u_k, trace = descend(rows, start_k, options.most_steps, seed)
        status, error = Status.PRESCRIBED, np.inf
    last = evaluate(rows, u_k)
    if status is not Status.CONVERGED:
        step_k = newton_step(last)
        error = float("inf") if step_k is None else float(np.ptp(step_k))
    return Outcome(u_k, status, error, last, True, rows, trace, len(trace) + 1)


def _run_newton(rows: Rows, options: Options) -> Outcome:
    """Run Newton's method; small problems are evaluated once more, at the solution itself."""
    outcome = minimize(
        rows,
        tol=options.tol,
        max_steps=options.most_steps,
        start_k=options.start_k,
        seed=options.seed,
    )
    if rows.n_stored * rows.n_sources > _SMALL or outcome.status is not Status.CONVERGED:
        return outcome
    return replace(
        outcome,
        last=evaluate(outcome.rows, outcome.u_k),
        hessian_exact=True,
        n_passes=outcome.n_passes + 1,
    )


def _comfortable(rows: Rows, start_k: Floats) -> Rows:
    if rows.log or not evaluate(rows, start_k, hessian=False).is_comfortable:
        return rows.rescaled(start_k)
    return rows


def _finish(prepared: Prepared, options: Options, outcome: Outcome) -> Solution:
    """Fix the free constant of u so that the weights sum to one, and record everything."""
    rows, last = outcome.rows, outcome.last
    size_k = rows.size_k
    share_k = size_k / size_k.sum()
    nearby = _log_total_nearby(last, outcome.u_k)
    log_total = log_total_inverse(rows, outcome.u_k) if nearby is None else nearby
    u_k = outcome.u_k + log_total - np.log(size_k.sum())
    return Solution(
        names=prepared.names,
        share=share_k,
        u=u_k,
        log_normalizer=np.log(share_k) - u_k,
        method=options.method,
        status=outcome.status,
        gradient_norm=float(np.max(np.abs(last.gradient_k))),
        error_estimate=outcome.error_estimate,
        n_steps=options.most_steps if options.method == "sgd" else len(outcome.trace),
        n_passes=outcome.n_passes + 1 + int(nearby is None),
        trace=outcome.trace,
        hessian=hessian_matrix(last),
        hessian_exact=outcome.hessian_exact and not isinstance(last.cross_kk, CrossProducts),
    )


def _log_total_nearby(last: ObjectiveValue, u_k: Floats) -> float | None:
    """Return `log_total_inverse` from sums at a point nearby, or None if there is none."""
    step_k = u_k - last.u_k
    if last.inverse_k is None or np.abs(step_k).max() > 1e-7:
        return None
    total = float(last.inverse_k[-1])
    return float(np.log(total) + np.log1p(-float(last.inverse_k[:-1] @ step_k) / total))


def log_total_inverse(rows: Rows, u_k: Floats) -> float:
    """Compute log Σ_i 1/Σ_k e^{u_k} ω_ik, the constant that makes the weights sum to one."""
    sum_n, scale_n = rows.row_sums(u_k)
    count_n = rows.count_n if rows.count_n.size else None
    # Of a solution that did not converge, row sums may vanish.
    with np.errstate(divide="ignore", invalid="ignore"):
        if scale_n is None:
            return float(np.log(np.sum(1 / sum_n) if count_n is None else count_n @ (1 / sum_n)))
        log_n = -np.log(sum_n) - scale_n
        top = float(log_n.max())
        if not np.isfinite(top):
            return top
        inverse_n = np.exp(log_n - top)
        return top + float(np.log(inverse_n.sum() if count_n is None else count_n @ inverse_n))


def _disconnected(prepared: Prepared, options: Options) -> Solution:
    size_k = prepared.rows.size_k
    nan_k = np.full(size_k.size, np.nan)
    return Solution(
        names=prepared.names,
        share=size_k / size_k.sum(),
        u=nan_k,
        log_normalizer=nan_k,
        method=options.method,
        status=Status.DISCONNECTED,
        gradient_norm=np.nan,
        error_estimate=np.inf,
        n_steps=0,
        n_passes=1,
        trace=(),
        hessian=np.full((size_k.size, size_k.size), np.nan),
        hessian_exact=False,
    )
