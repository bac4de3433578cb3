"""The doors of the stage: ``check_overlap`` and ``solve_normalizers``; and ``prepare``, which reads
what a user may pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from unskew import errors
from unskew.engine.row_blocks import ArrayReader, IterableReader, Reader, open_reader
from unskew.engine.threads import available_jobs
from unskew.errors import ConfigError, ConvergenceError
from unskew.records import Floats, Ints, Overlap, Solution, Status, Step
from unskew.solve.collapse import collapse_rows
from unskew.solve.fixed_point import iterate_fixed_point
from unskew.solve.inspection import inspect_rows
from unskew.solve.laplacian import newton_step
from unskew.solve.newton import Outcome, minimize
from unskew.solve.objective import CrossProducts, ObjectiveValue, evaluate, hessian_matrix
from unskew.solve.omega_rows import Rows
from unskew.solve.overlap import judge_overlap, require_connected, warn_if_weak, with_sigma2
from unskew.solve.sgd import STEPS, descend
from unskew.solve.source_codes import check_same_order, source_codes
from unskew.solve.starting_point import balanced_start

Method = Literal["newton", "fixed_point", "sgd"]

# Problems up to this many stored entries are evaluated once more at the solution: it costs nothing
# there.
_SMALL = 1 << 20
# Up to here the eigenvalues for the verdict at the solution are cheap beside the solve.
_CHEAP_EIGENVALUES = 64


@dataclass(frozen=True)
class Prepared:
    """ω checked, collapsed where that pays, and its overlap judged."""

    rows: Rows
    names: tuple[str, ...]
    overlap: Overlap


@dataclass(frozen=True)
class Solved:
    """A solution with the rows it was computed on (perhaps rescaled)."""

    solution: Solution
    overlap: Overlap
    rows: Rows


def check_overlap(
    omega: Any,
    source: Any,
    *,
    log: bool = False,
    names: Sequence[object] | None = None,
    jobs: int | None = None,
) -> Overlap:
    """Decide before any solve whether the normalizers are identifiable, and how strongly the
    sources are linked.

    The overlap graph has an edge k→l iff some image of source l has ω_k > 0; the normalizers are
    identifiable iff it is strongly connected. One pass over ω.

    Parameters
    ----------
    omega : (n, K) array, SciPy sparse matrix, DataFrame, path to .npy or .parquet, or an iterable
        of row blocks.
    source : (n,) integers 0…K−1 or names.
    log : ω is given by its logarithm.
    names : names of the sources in the order of ω's columns (default: the columns of a DataFrame,
        else the sorted names in ``source``).
    jobs : threads (default: all cores).

    Returns
    -------
    Overlap

    Examples
    --------
    >>> import unskew
    >>> overlap = unskew.check_overlap([[1, 0], [1, 1], [0, 1]], ["day", "day", "night"])
    >>> overlap.connected, overlap.components
    (False, (('day',), ('night',)))
    """
    return prepare(omega, source, log=log, names=names, jobs=jobs).overlap


def overlap_of_cells(log_omega_ck: Floats, count_ck: Ints, names: tuple[str, ...]) -> Overlap:
    """`check_overlap` where images of one cell have the same ω, from how many each source has in
    it; ``names`` of the K sources.
    """
    cell, source = np.nonzero(count_ck)
    reader = ArrayReader(np.ascontiguousarray(log_omega_ck[cell]))
    count = count_ck[cell, source].astype(np.float64)
    rows = Rows(
        reader=reader,
        source_n=source.astype(np.int32),
        n_sources=len(names),
        count_n=count,
        log=True,
    )
    return judge_overlap(inspect_rows(rows, names), names)


def solve_normalizers(
    omega: Any,
    source: Any,
    *,
    method: Method = "newton",
    tol: float = 1e-10,
    max_steps: int | None = None,
    throw: bool = True,
    log: bool = False,
    start: npt.ArrayLike | None = None,
    seed: int = 0,
    names: Sequence[object] | None = None,
    jobs: int | None = None,
) -> Solution:
    """Solve the biased-sampling equations of Vardi (1985) and Gill, Vardi & Wellner (1988) for the
    normalizers Ω.

    Minimises D(u) = (1/n) Σ_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k. At the minimum Ω_k = λ_k e^{−u_k}
    = Σ_i π_i ω_ik with the weights π_i = 1/(n Σ_k λ_k ω_ik/Ω_k), Σ_i π_i = 1.

    Parameters
    ----------
    omega : (n, K) array, SciPy sparse matrix, DataFrame, path to .npy or .parquet, or an iterable
        of row blocks: ω_ik ≥ 0, how likely (up to a constant per source) source k is to select an
        image like i.
    source : (n,) integers 0…K−1 or names.
    method : "newton" (exact), "fixed_point" (Vardi's iteration, an independent check) or "sgd" (the
        article's procedure).
    tol : error of the log normalizers at which to stop.
    max_steps : default 100 for "newton", 100,000 for "fixed_point", 4,000 for "sgd".
    throw : raise on failure; False returns the failed ``Solution`` with its ``status`` instead.
    log : ω is given by its logarithm (in a sparse matrix an entry that is not stored is ω = 0, not
        log ω = 0).
    start : (K,) u to start from (default: the solution of a subsample for "newton", a random draw
        for "sgd").
    seed : for the subsample of "newton", the batches and the random start of "sgd".
    names : names of the sources in the order of ω's columns.
    jobs : threads (default: all cores).

    Raises
    ------
    DataError : ω or ``source`` makes no sense; the message names the image and the source.
    OverlapError : the sources lack a link, so there is no unique solution.
    ConvergenceError : the tolerance was not met.

    Examples
    --------
    Source "all" sees everything, source "half" only half of the population: Ω = 1 and ½.

    >>> import numpy as np, unskew
    >>> omega = np.repeat([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], 20, axis=0)
    >>> solution = unskew.solve_normalizers(omega, np.repeat(["all", "half"], 40))
    >>> solution.normalizer.round(6).tolist(), solution.converged
    ([1.0, 0.5], True)
    """
    options = checked_options(method, tol, max_steps, start, seed)
    prepared = prepare(omega, source, log=log, names=names, jobs=jobs)
    solved = solve_prepared(prepared, options, throw=throw)
    overlap = prepared.overlap
    if (
        solved.solution.converged
        and overlap.verdict == "ok"
        and 1 < len(prepared.names) <= _CHEAP_EIGENVALUES
    ):
        overlap = with_sigma2(overlap, solved.solution.hessian)
    warn_if_weak(overlap)
    return solved.solution


@dataclass(frozen=True)
class Options:
    """How to solve, checked."""

    method: Method = "newton"
    tol: float = 1e-10
    max_steps: int = 100
    start_k: Floats | None = None
    seed: int = 0


def checked_options(
    method: Method, tol: float, max_steps: int | None, start: npt.ArrayLike | None, seed: int
) -> Options:
    """The options of a solve, or a ``ConfigError`` that names the impossible one."""
    if method not in get_args(Method):
        raise ConfigError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    if not 0 < tol < 1:
        raise ConfigError(
            "tol is the error of the log normalizers at which to stop, between 0 and 1; got "
            f"{tol!r}."
        )
    if max_steps is not None and max_steps < 1:
        raise ConfigError(f"max_steps must be at least 1; got {max_steps!r}.")
    default = {"newton": 100, "fixed_point": 100_000, "sgd": STEPS}[method]
    if not hasattr(seed, "__index__") or seed < 0:
        raise ConfigError(f"seed is a whole number, not negative; got {seed!r}.")
    start_k = None if start is None else np.array(start, dtype=np.float64)
    if start_k is not None and not np.all(np.isfinite(start_k)):
        raise ConfigError(
            "start must hold finite numbers, one log(share/normalizer) for each source; got "
            f"{start_k.tolist()}."
        )
    return Options(method, tol, default if max_steps is None else max_steps, start_k, seed)


def prepare(
    omega: Any, source: Any, *, log: bool, names: Sequence[object] | None, jobs: int | None
) -> Prepared:
    """Read, check and collapse what the user passed, and judge the overlap: one pass, or two for
    row blocks that collapse.
    """
    reader = open_reader(omega)
    names = (
        None
        if names is None
        else [name.item() if isinstance(name, np.generic) else name for name in names]
    )
    check_same_order(source, "source", omega)
    if names is None:
        names = (
            list(omega.columns)
            if hasattr(omega, "columns")
            else getattr(reader, "column_names", None)
        )
    source_n, source_names = source_codes(source, reader.n_columns, names)
    _check_length(reader, source_n.size)
    rows = Rows(
        reader=reader, source_n=source_n, n_sources=reader.n_columns, log=log, jobs=_jobs(jobs)
    )
    try:
        rows, first_row = collapse_rows(rows)
        inspection = inspect_rows(rows, source_names, first_row)
    except errors.RowCountError as error:
        raise errors.wrong_length(source_n.size, error.seen) from None
    return Prepared(rows, source_names, judge_overlap(inspection, source_names))


def _check_length(reader: Reader, n_source: int) -> None:
    if not isinstance(reader, IterableReader):
        n_rows = (reader.array if hasattr(reader, "array") else reader.matrix).shape[0]  # type: ignore[attr-defined]
        if n_rows == 0:
            raise errors.no_rows()
        if n_rows != n_source:
            raise errors.wrong_length(n_source, n_rows)


def _jobs(jobs: int | None) -> int:
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is the number of threads, at least 1; got {jobs!r}.")
    return available_jobs() if jobs is None else jobs


def solve_prepared(prepared: Prepared, options: Options, *, throw: bool) -> Solved:
    """Solve; raise if it fails and ``throw``."""
    if throw:
        require_connected(prepared.overlap)
    if options.start_k is not None and options.start_k.shape != (len(prepared.names),):
        raise ConfigError(
            f"start has one number for each of the {len(prepared.names)} sources; got shape "
            f"{options.start_k.shape}."
        )
    if not prepared.overlap.connected:
        return Solved(
            _failed(prepared, options, Status.DISCONNECTED), prepared.overlap, prepared.rows
        )
    outcome, exact = _run(prepared.rows, options)
    solution = _finish(prepared, options, outcome, exact)
    if throw and solution.status not in (Status.CONVERGED, Status.PRESCRIBED):
        raise ConvergenceError(
            f"The normalizers were not found to the tolerance {options.tol:g}: "
            f"{solution.status.value}. "
            f"Error estimate of the log normalizers {solution.error_estimate:.2g} after "
            f"{solution.n_steps} step(s); the weakest link is "
            f"{' - '.join(prepared.overlap.weakest_link or ())}. Allow more steps or a larger "
            "error (max_steps and tol, in a configuration "
            "under [solve]); in Python throw=False shows the solution as far as it came.",
            solution,
        )
    return Solved(solution, prepared.overlap, outcome.rows)


def with_exact_hessian(solved: Solved) -> Solved:
    """One more pass where the solver made do with a subsample's Hessian: standard errors and the
    verdict want the exact one.
    """
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


def _run(rows: Rows, options: Options) -> tuple[Outcome, bool]:
    """(outcome, is its Hessian at its u?)."""
    if options.method == "newton":
        outcome = minimize(
            rows,
            tol=options.tol,
            max_steps=options.max_steps,
            start_k=options.start_k,
            seed=options.seed,
        )
        if rows.n_stored * rows.n_sources > _SMALL or outcome.status is not Status.CONVERGED:
            return outcome, False
        return replace(outcome, last=evaluate(outcome.rows, outcome.u_k), hessian_exact=True), True
    start_k = options.start_k
    if options.method == "fixed_point":
        start_k = balanced_start(rows) if start_k is None else start_k
        rows = _comfortable(rows, start_k)
        u_k, status, error, trace = iterate_fixed_point(
            rows, start_k, options.tol, options.max_steps
        )
    else:
        start_k = (
            np.random.default_rng(options.seed).normal(size=rows.n_sources)
            if start_k is None
            else start_k
        )
        rows = _comfortable(rows, start_k)
        u_k, trace = descend(rows, start_k, options.max_steps, options.seed)
        status, error = Status.PRESCRIBED, np.inf
    last = evaluate(rows, u_k)
    if status is not Status.CONVERGED:
        step_k = newton_step(last)
        error = float("inf") if step_k is None else float(np.ptp(step_k))
    return Outcome(u_k, status, error, last, True, rows, trace, len(trace) + 1), True


def _comfortable(rows: Rows, start_k: Floats) -> Rows:
    if rows.log or not evaluate(rows, start_k, hessian=False).is_comfortable:
        return rows.rescaled(start_k)
    return rows


def _finish(prepared: Prepared, options: Options, outcome: Outcome, exact: bool) -> Solution:
    """Fix the free constant of u so that the weights sum to one, and record everything."""
    rows, last = outcome.rows, outcome.last
    size_k = rows.size_k
    share_k = size_k / size_k.sum()
    total = _log_total_nearby(last, outcome.u_k)
    u_k = (
        outcome.u_k
        + (log_total_inverse(rows, outcome.u_k) if total is None else total)
        - np.log(size_k.sum())
    )
    return Solution(
        names=prepared.names,
        share=share_k,
        u=u_k,
        log_normalizer=np.log(share_k) - u_k,
        method=options.method,
        status=outcome.status,
        gradient_norm=float(np.max(np.abs(last.gradient_k))),
        error_estimate=outcome.error_estimate,
        n_steps=len(outcome.trace) if options.method != "sgd" else options.max_steps,
        n_passes=outcome.n_passes
        + 1
        + int(total is None)
        + int(exact and options.method == "newton"),
        trace=outcome.trace,
        hessian=hessian_matrix(last),
        hessian_exact=outcome.hessian_exact and not isinstance(last.cross_kk, CrossProducts),
    )


def _log_total_nearby(last: ObjectiveValue, u_k: Floats) -> float | None:
    """The same from sums at a point so near that the square of the distance vanishes; None if there
    is no such point.
    """
    step_k = u_k - last.u_k
    if last.inverse_k is None or np.abs(step_k).max() > 1e-7:
        return None
    total = float(last.inverse_k[-1])
    return float(np.log(total) + np.log1p(-float(last.inverse_k[:-1] @ step_k) / total))


def log_total_inverse(rows: Rows, u_k: Floats) -> float:
    """log Σ_i 1/Σ_k e^{u_k} ω_ik, the constant that makes the weights sum to one."""
    sum_n, scale_n = rows.row_sums(u_k)
    count_n = rows.count_n if rows.count_n.size else None
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # of an unconverged solution row sums may vanish
        if scale_n is None:
            return float(np.log(np.sum(1 / sum_n) if count_n is None else count_n @ (1 / sum_n)))
        log_n = -np.log(sum_n) - scale_n
        top = float(log_n.max())
        inverse_n = np.exp(log_n - top) if np.isfinite(top) else np.ones(1)
        return top + float(
            np.log(
                inverse_n.sum() if count_n is None or not np.isfinite(top) else count_n @ inverse_n
            )
        )


def _failed(prepared: Prepared, options: Options, status: Status) -> Solution:
    nan_k = np.full(len(prepared.names), np.nan)
    size_k = prepared.rows.size_k
    empty: tuple[Step, ...] = ()
    hessian_kk = np.full((nan_k.size, nan_k.size), np.nan)
    return Solution(
        prepared.names,
        size_k / size_k.sum(),
        nan_k,
        nan_k,
        options.method,
        status,
        np.nan,
        np.inf,
        0,
        1,
        empty,
        hessian_kk,
        False,
    )
