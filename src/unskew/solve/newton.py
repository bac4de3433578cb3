"""Newton's method on the biased-sampling objective: globalised, monotone, few passes.

1. Solve a subsample first: its solution is within about √(K/m) of the full one, so that three
  sweeps of the full data remain.
2. Step: the Newton step; while that is long, a step that balances the flows instead, which is exact
  for weak overlap, where a
   Newton step is useless (the objective is nearly flat there, then suddenly is not).
3. Accept what lowers the objective. D is convex, so a point where it still falls along the step is
  lower than where we came from;
   the slope, unlike the value, stays accurate where D is flat.
4. Stop on the Newton step p: the error that remains after it is about |p|².
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unskew.records import Floats, Status, Step
from unskew.solve.laplacian import newton_step, solve_laplacian
from unskew.solve.objective import FEW_SOURCES, ObjectiveValue, evaluate, hessian_matrix
from unskew.solve.omega_rows import Rows
from unskew.solve.starting_point import balance_flows, balanced_start, subsample

# A Newton step longer than this (range over log normalizers) has left the region where the
# quadratic model can be trusted.
_LONG_STEP = 2.0
_LONGEST_STEP = 30.0
# Below this a Newton step is taken as it is.
_SHORT_STEP = 0.5
# A step at whose end the slope is still this much of the slope at its beginning is lengthened, up
# to so many times.
_STEEP = 0.9
_MOST_TIMES = 2.0**20
# A subsample has one row in 64, but enough rows for its Hessian to resemble the full one.
_SUBSAMPLE_SHARE = 64
_ROWS_PER_SOURCE = 200
_LEAST_ROWS = 1 << 15
# With many sources full passes are gradient-only, with the subsample's Hessian corrected by the
# curvature seen; if a step is not at least this much shorter than the one before, the exact Hessian
# takes over.
_GOOD_RATE = 0.3
# Pooled flows lose eps/σ₂ to cancellation; below this σ₂ flows are kept apart by source.
_WELL_CURVED = 1e-4
# After a step this short the next one is usually the last.
_NEARLY = 1e-2
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Outcome:
    """Where an iteration ended.

    ``last`` is the evaluation before the last step, with the Hessian there if ``hessian_exact``,
    else one from a subsample; ``rows`` are the rows as they were read at the end (perhaps
    rescaled).
    """

    u_k: Floats
    status: Status
    error_estimate: float
    last: ObjectiveValue
    hessian_exact: bool
    rows: Rows
    trace: tuple[Step, ...]
    n_passes: int


def minimize(
    rows: Rows,
    *,
    tol: float = 1e-10,
    max_steps: int = 100,
    start_k: Floats | None = None,
    seed: int = 0,
) -> Outcome:
    """Minimise D over u."""
    if start_k is not None:
        outcome = _iterate(_Search(_readable(rows, start_k), tol), start_k, max_steps)
        if outcome.status is not Status.TOO_WEAK:
            return outcome
        # The start, not the data, may be to blame: so far away flows vanish in double precision.
    wanted = max(rows.n_stored // _SUBSAMPLE_SHARE, _ROWS_PER_SOURCE * min(rows.n_sources, 256))
    if rows.n_stored < _LEAST_ROWS or 2 * wanted > rows.n_stored:
        return _from_flows(rows, tol, max_steps)
    part = minimize(subsample(rows, wanted, seed), tol=1e-4, max_steps=max_steps, seed=seed + 1)
    if (
        part.status is not Status.CONVERGED
        # a subsample may miss the images that link the sources; it must not lead the full solve
        # astray
    ):
        return _from_flows(rows, tol, max_steps)
    if part.rows.reference_k is not None:
        rows = rows.rescaled(part.u_k)
    return _iterate(_Search(rows, tol, guess=part.last), part.u_k, max_steps)


def _from_flows(rows: Rows, tol: float, max_steps: int) -> Outcome:
    """Start from balanced flows, or from those of typical images."""
    for typical in (False, True):
        start_k = balanced_start(rows, typical=typical)
        outcome = _iterate(_Search(_readable(rows, start_k), tol), start_k, max_steps)
        if outcome.status is not Status.TOO_WEAK:
            break
    return outcome


def resolve(rows: Rows, start_k: Floats, tol: float = 1e-10) -> tuple[Floats, bool]:
    """Return (u, converged) from a nearby start, without any check of the input.

    It is for bootstrap replicates.
    """
    outcome = _iterate(_Search(_readable(rows, start_k), tol), start_k, max_steps=100)
    return outcome.u_k, outcome.status is Status.CONVERGED


def _readable(rows: Rows, reference_k: Floats) -> Rows:
    """Store logarithms as scaled ω before the first sweep."""
    return rows.rescaled(reference_k) if rows.log and rows.reference_k is None else rows


def _iterate(search: _Search, start_k: Floats, max_steps: int) -> Outcome:
    start_k = np.asarray(start_k, dtype=np.float64)
    current = search.evaluate(
        start_k if search.rows.reference_k is None else search.rows.centred(start_k)
    )
    while True:
        # 1. The Newton step, and the error that it will leave.
        step_k = search.direction(current)
        if step_k is None:
            return search.outcome(current.u_k, Status.TOO_WEAK, np.inf, current)
        size, local = float(np.ptp(step_k)), current.local_size(step_k)
        error = search.error_after(current, size, local)
        kind = "newton" if current.cross_kk is not None else "quasi-newton"
        if error <= max(search.tol, search.rounding(current)):
            search.note(current, size, kind)
            return search.outcome(current.u_k + step_k, Status.CONVERGED, error, current)
        if len(search.trace) >= max_steps:
            return search.outcome(current.u_k, Status.MAX_STEPS, size, current)
        # 2. A long step is replaced by one that balances flows, or cut.
        if local > _SHORT_STEP:
            step_k, kind = _far_step(current, step_k, local, kind)
        # 3. Go as far along it as the objective falls.
        search.note(current, size, kind)
        following = search.advance(current, step_k, size, local)
        if following is None:
            status = (
                Status.CONVERGED
                if size <= max(search.tol, search.rounding(current))
                else Status.STALLED
            )
            return search.outcome(current.u_k, status, size, current)
        current = following


class _Search:
    """What the loop remembers: rows, which sums are worth their cost, curvature pairs, trace."""

    def __init__(self, rows: Rows, tol: float, guess: ObjectiveValue | None = None) -> None:
        self.rows, self.tol = rows, tol
        self.trace: list[Step] = []
        self.n_passes = 0
        self.previous: tuple[float, float] | None = None
        self.pairs: list[tuple[Floats, Floats]] = []
        self.nearly_done = (
            False  # the next evaluation may be the last, and then gives the constant of u too
        )
        many = rows.n_sources > FEW_SOURCES and not rows.is_sparse
        self.stand_in = guess.cross_kk if guess is not None and many else None
        self.with_hessian = self.stand_in is None
        self.sigma2 = _sigma2(guess) if guess is not None else None

    @property
    def by_source(self) -> bool:
        """Whether to keep flows apart by source.

        That costs a scattered sum where sources are few and shuffled, and nothing elsewhere.
        """
        return (
            self.rows.n_sources > FEW_SOURCES
            or self.rows.is_sparse
            or self.sigma2 is None
            or self.sigma2 < _WELL_CURVED
        )

    def evaluate(self, u_k: Floats) -> ObjectiveValue:
        """Evaluate at ``u_k``; rows are rescaled where numbers leave the comfortable range."""
        self.n_passes += 1
        result = evaluate(
            self.rows,
            u_k,
            hessian=self.with_hessian,
            by_source=self.by_source,
            inverse=self.nearly_done,
        )
        if not result.is_comfortable:
            self.rows = self.rows.rescaled(u_k)
            self.n_passes += 2
            result = evaluate(self.rows, u_k, hessian=self.with_hessian, by_source=self.by_source)
        if (
            self.sigma2 is None
            and result.cross_kk is not None
            and self.rows.n_stored >= _LEAST_ROWS
        ):
            self.sigma2 = _sigma2(result)
        return result

    def direction(self, current: ObjectiveValue) -> Floats | None:
        """Compute the Newton step."""
        if current.cross_kk is not None:
            return newton_step(current)
        right_k = -current.gradient_k
        alphas = []
        for step_k, change_k in reversed(self.pairs):
            alpha = float(step_k @ right_k) / float(step_k @ change_k)
            right_k = right_k - alpha * change_k
            alphas.append(alpha)
        solved = solve_laplacian(self.stand_in, current.n * (right_k - right_k.mean()))
        if solved is None:
            return None
        for (step_k, change_k), alpha in zip(self.pairs, reversed(alphas), strict=True):
            beta = float(change_k @ solved) / float(step_k @ change_k)
            solved = solved + (alpha - beta) * step_k
        return np.asarray(solved - solved.mean())

    def error_after(self, current: ObjectiveValue, size: float, local: float) -> float:
        """Estimate the error after a Newton step of range ``size``."""
        if current.cross_kk is None:
            return self._error_at_rate(current, size)
        constant = 0.5
        if self.previous is not None and 0 < self.previous[1] < 1:
            constant = min(10.0, max(0.1, size / (self.previous[0] * self.previous[1])))
        # Newton's constant is an estimate: ask for ten times more than the tolerance.
        error, rounding = constant * size * local, self.rounding(current)
        return max(error, rounding) if 10 * error <= max(self.tol, rounding) else float("inf")

    def _error_at_rate(self, current: ObjectiveValue, size: float) -> float:
        """Estimate the error after a quasi-Newton step: the step times the rate of shrinking."""
        if self.previous is None or not 0 < self.previous[0] < 1:
            return float("inf")
        rate = size / self.previous[0]
        error = max(size * max(rate, 1e-3), self.rounding(current))
        return error if rate < _GOOD_RATE and 10 * error <= self.tol else float("inf")

    def rounding(self, current: ObjectiveValue) -> float:
        """Estimate the error of log normalizers that comes from double precision alone."""
        return 16 * _EPS if current.by_source else 4 * _EPS / max(self.sigma2 or 1.0, _EPS)

    def advance(
        self, current: ObjectiveValue, step_k: Floats, size: float, local: float
    ) -> ObjectiveValue | None:
        """Find the next point; None if the objective falls nowhere along the step."""
        if (
            current.cross_kk is None
            and self.previous is not None
            and size > _GOOD_RATE * self.previous[0]
        ):
            self.with_hessian = True
        self.nearly_done = size < _NEARLY
        following = self._line_search(current, step_k)
        if following is not None:
            self.previous = (
                (size, local) if self.with_hessian == (current.cross_kk is not None) else None
            )
            if self.stand_in is not None:
                moved_k, change_k = (
                    following.u_k - current.u_k,
                    following.gradient_k - current.gradient_k,
                )
                if float(moved_k @ change_k) > 0:
                    self.pairs.append((moved_k, change_k))
        return following

    def _line_search(self, current: ObjectiveValue, step_k: Floats) -> ObjectiveValue | None:
        slope = current.slope(step_k)
        if not slope < 0:
            return None
        noise = 16 * _EPS * (1 + abs(current.value))
        length = 1.0
        for _ in range(60):
            trial = self.evaluate(current.u_k + length * step_k)
            slope_there = trial.slope(step_k)
            change = trial.value - current.value
            if (
                slope_there <= 0
                or change <= 1e-4 * length * slope
                or (abs(change) <= noise and slope_there <= -0.5 * slope)
            ):
                if length == 1.0 and slope_there < _STEEP * slope:
                    return self._lengthened(current, step_k, trial)
                return trial
            # The zero of the secant of the slope, kept inside the interval.
            length *= (
                min(0.5, max(0.1, slope / (slope - slope_there)))
                if np.isfinite(slope_there)
                else 0.1
            )
        return None

    def _lengthened(
        self, current: ObjectiveValue, step_k: Floats, trial: ObjectiveValue
    ) -> ObjectiveValue:
        """Double the step again and again while the objective still falls as steeply at its end.

        So it is where few images that their own source hardly selects put the start hundreds of
        units away.
        """
        slope, length = current.slope(step_k), 1.0
        while trial.slope(step_k) < _STEEP * slope and length < _MOST_TIMES:
            length *= 2.0
            further = self.evaluate(current.u_k + length * step_k)
            if not further.value < trial.value:
                break
            trial = further
        return trial

    def note(self, current: ObjectiveValue, size: float, kind: str) -> None:
        """Add a line to the trace."""
        self.trace.append(Step(current.value, float(np.abs(current.gradient_k).max()), size, kind))

    def outcome(self, u_k: Floats, status: Status, error: float, last: ObjectiveValue) -> Outcome:
        """Record where the search ended."""
        exact = last.cross_kk is not None
        last = last if exact else replace(last, cross_kk=self.stand_in)
        return Outcome(u_k, status, error, last, exact, self.rows, tuple(self.trace), self.n_passes)


def _far_step(
    current: ObjectiveValue, step_k: Floats, local: float, kind: str
) -> tuple[Floats, str]:
    """Choose the step far from the solution."""
    cut = (step_k * min(1.0, _LONG_STEP / local), kind if local <= _LONG_STEP else "cut newton")
    if not current.by_source or sp.issparse(current.flow_lk):
        return cut
    with np.errstate(divide="ignore"):
        shift_k = balance_flows(np.log(current.flow_lk.T))
    spread = float(np.ptp(shift_k))
    useful = np.isfinite(spread) and spread > 0 and current.slope(shift_k) < 0
    if not useful or (local <= _LONG_STEP and current.local_size(shift_k) < local):
        return cut
    return shift_k * min(1.0, _LONGEST_STEP / spread), "balance"


def _sigma2(evaluation: ObjectiveValue) -> float | None:
    """Compute the second smallest eigenvalue of the Hessian; None where that is not cheap."""
    if (
        evaluation.cross_kk is None
        or sp.issparse(evaluation.cross_kk)
        or not 1 < evaluation.u_k.size <= FEW_SOURCES
    ):
        return None
    return float(np.linalg.eigvalsh(hessian_matrix(evaluation))[1])
