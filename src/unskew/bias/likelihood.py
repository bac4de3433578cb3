"""Maximum likelihood of the source labels for log-linear biasing functions, by Newton's method.

Strata have normalizers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy

from unskew.errors import ConvergenceError
from unskew.records import Floats, Ints
from unskew.records.design_weights import add_design
from unskew.solve.log_linear import LogLinearSums, sum_log_linear

if TYPE_CHECKING:
    from unskew.bias.base import BiasData

_MAX_STEPS = 60
# Where Σ_i log q can grow by no more than this (the Newton decrement), one more full step is exact
# to rounding: convergence is quadratic.
_DECREMENT = 1e-8
_SUBSAMPLE = 20_000
# Of the value: smaller changes of it are lost in the sum.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class LogLinearFit:
    """θ (K, D), u (C, K) and Σ_i log q_{i,s_i} at the maximum, the penalty left out."""

    theta: Floats
    u: Floats
    log_likelihood: float


class SummedProblem(Protocol):
    """What a fit needs to know of its data: sums over the rows, wherever the rows are."""

    @property
    def n_sources(self) -> int: ...
    @property
    def n_cells(self) -> int: ...
    @property
    def reference(self) -> int: ...
    @property
    def ridge(self) -> float | Floats: ...
    @property
    def ridge_kd(self) -> Floats: ...
    @property
    def present_ck(self) -> Floats: ...
    def penalty(self, theta_kd: Floats) -> float: ...
    def sums(self, u_ck: Floats, theta_kd: Floats, *, hessian: bool) -> LogLinearSums: ...


@dataclass(frozen=True, eq=False)
class LogLinearProblem:
    """Data of the fit: log ω_k(z) = offset_k(z) + θ_k·φ(z), and a free u_ck in every stratum c.

    θ of the reference is 0.

    phi : (R, D) φ(z_r).
    source, cell : (R,)
    n_sources, n_cells : K, C.
    reference : index of the source with θ = 0.
    offset : (R, K) log of the other factors of ω, or None.
    ridge : λ of the penalty λ/2 Σ_k ‖θ_k‖², added to −Σ_i log q; (K, D): one for each number.
    design : (R,) how often each row counts (design weights); None: once.
    """

    phi: Floats
    source: Ints
    cell: Ints
    n_sources: int
    n_cells: int
    reference: int
    offset: Floats | None
    ridge: float | Floats
    design: Floats | None = None

    @property
    def ridge_kd(self) -> Floats:
        return np.broadcast_to(self.ridge, (self.n_sources, self.phi.shape[1]))

    def penalty(self, theta_kd: Floats) -> float:
        return float((self.ridge_kd * np.square(theta_kd)).sum()) / 2

    @classmethod
    def of(
        cls,
        data: BiasData,
        phi_rd: Floats,
        log_offset_rk: Floats,
        reference: int,
        ridge: float,
        at: Any = slice(None),
    ) -> LogLinearProblem:
        """Pose the fit to the rows ``at`` of the data."""
        return cls(
            phi_rd[at],
            data.source[at],
            data.cell[at],
            data.n_sources,
            data.n_cells,
            reference,
            log_offset_rk[at] if log_offset_rk.any() else None,
            ridge,
            None if data.design is None else data.design[at],
        )

    def sums(self, u_ck: Floats, theta_kd: Floats, *, hessian: bool) -> LogLinearSums:
        """Sum −log q and its derivatives over the rows."""
        return sum_log_linear(
            self.phi,
            self.offset,
            self.source,
            self.cell,
            u_ck,
            theta_kd,
            hessian=hessian,
            design_r=self.design,
        )

    @property
    def first_ck(self) -> Floats:
        """(C, K) where u begins: log n_ck, less the mean of the other factors."""
        with np.errstate(divide="ignore"):
            u_ck = np.log(self.present_ck)
        if self.offset is None:
            return u_ck
        return u_ck - own_means(self.offset, self.source, self.cell, self.n_cells)

    @cached_property
    def present_ck(self) -> Floats:
        code_r = self.cell * self.n_sources + self.source
        count = add_design(code_r, self.design, self.n_cells * self.n_sources)
        return count.reshape(self.n_cells, self.n_sources)

    def subset(self, at: Ints) -> LogLinearProblem:
        offset = None if self.offset is None else self.offset[at]
        return LogLinearProblem(
            self.phi[at],
            self.source[at],
            self.cell[at],
            self.n_sources,
            self.n_cells,
            self.reference,
            offset,
            self.ridge * at.size / self.phi.shape[0],
            None if self.design is None else self.design[at],
        )


def own_means(offset_rk: Floats, source_r: Ints, cell_r: Ints, n_cells: int) -> Floats:
    """(C, K) mean of log a_{i,s_i}, the other factors of ω, by stratum and source; 0 for none.

    A constant in log a_k only shifts u_k. Beginning at u_ck = log n_ck − this mean, however large
    it is, is beginning near.
    """
    n_sources = offset_rk.shape[1]
    code_r = cell_r * n_sources + source_r
    own_r = offset_rk[np.arange(source_r.size), source_r]
    count = np.bincount(code_r, minlength=n_cells * n_sources)
    total = np.bincount(code_r, weights=own_r, minlength=n_cells * n_sources)
    return np.asarray(total / np.maximum(count, 1), dtype=np.float64).reshape(n_cells, n_sources)


def fit_log_linear(
    problem: LogLinearProblem, start_kd: Floats | None = None, seed: int = 0
) -> LogLinearFit:
    """Minimise −Σ_i log q_{i,s_i}(u, θ) + λ/2 Σ_k ‖θ_k‖² by Newton's method with step halving.

    The function is convex.

    Large single-stratum problems start from the solution on a subsample. The result does not depend
    on the start.
    """
    theta_kd = (
        np.zeros((problem.n_sources, problem.phi.shape[1])) if start_kd is None else start_kd.copy()
    )
    n = problem.phi.shape[0]
    if start_kd is None and problem.n_cells == 1 and n > 3 * _SUBSAMPLE:
        part = problem.subset(
            np.sort(np.random.default_rng(seed).choice(n, size=_SUBSAMPLE, replace=False))
        )
        if np.unique(part.source).size == problem.n_sources:
            begun = descend_from(part, theta_kd, part.first_ck)
            return descend_from(problem, begun.theta, problem.first_ck + begun.u - part.first_ck)
    return descend_from(problem, theta_kd, problem.first_ck)


def descend_from(problem: SummedProblem, theta_kd: Floats, u_ck: Floats) -> LogLinearFit:
    """Minimise as `fit_log_linear` does, from a given θ and u."""
    count_ck = problem.present_ck
    value, gradient, hessian = _evaluate(problem, u_ck, theta_kd, True)
    for _ in range(_MAX_STEPS):
        step_u, step_theta, decrement = newton_direction(problem, count_ck, gradient, hessian)
        if decrement <= _DECREMENT:
            # The last step lowers the value by half the decrement, to rounding.
            u_ck, theta_kd, value = u_ck + step_u, theta_kd + step_theta, value - decrement / 2
            break
        length, accepted = 1.0, False
        while length > 1e-10 and not accepted:
            tried = (u_ck + length * step_u, theta_kd + length * step_theta)
            # A full step is nearly always taken, so its Hessian is wanted.
            evaluated = _evaluate(problem, *tried, length == 1.0)
            accepted = evaluated[0] <= value - 1e-4 * length * decrement
            length /= 2
        if not accepted and decrement > _ROUNDING * max(1.0, abs(value)):
            raise ConvergenceError(
                f"the log-linear bias model was not fitted: no step lowers −Σ log q = {value:.6g}, "
                f"which could fall by {decrement:.2g}. Likely cause: other factors of ω, or "
                "features, that differ by hundreds of orders of magnitude.",
                value=value,
            )
        if not accepted:
            # Rounding: no step lowers the value although the decrement is not yet below its bound.
            break
        u_ck, theta_kd = tried
        value, gradient, hessian = (
            evaluated if evaluated[2][0].size else _evaluate(problem, u_ck, theta_kd, True)
        )
    else:
        raise ConvergenceError(
            f"the log-linear bias model was not fitted after {_MAX_STEPS} Newton steps.",
            limit=_MAX_STEPS,
        )
    return LogLinearFit(theta_kd, u_ck, -(value - problem.penalty(theta_kd)))


def coefficient_variances(problem: LogLinearProblem, fit: LogLinearFit) -> Floats:
    """(K, D) variances of θ: the inverse of the penalised curvature, u eliminated.

    1 − λ times a variance says how far the images, not the penalty, determine a coefficient: 0 for
    not at all, as for all of the reference.
    """
    _, gradient, hessian = _evaluate(problem, fit.u, fit.theta, True)
    schur, _, _ = _eliminate_u(problem, problem.present_ck, gradient, hessian)
    variance_kd = np.array(1.0 / np.maximum(problem.ridge_kd, 1e-300))
    is_free_k = np.arange(problem.n_sources) != problem.reference
    inverse_pp = np.linalg.pinv(schur, hermitian=True)
    variance_kd[is_free_k] = np.diag(inverse_pp).reshape(-1, problem.phi.shape[1])
    return variance_kd


def solve_information(
    problem: SummedProblem, sums: LogLinearSums, gradient: tuple[Floats, Floats]
) -> tuple[Floats, Floats, float]:
    """Solve I a = g for a = ((C, K) of u, (K, D) of θ), I the information at ``sums``; also gᵀa."""
    assert sums.hessian is not None
    step_u, step_theta, squared = newton_direction(
        problem, problem.present_ck, gradient, _blocks(sums.hessian)
    )
    return -step_u, -step_theta, squared


def _blocks(hessian: Floats) -> tuple[Floats, Floats, Floats]:
    """(H_ckk, B_ckkd, T_kdkd) of second derivatives."""
    return (
        hessian[:, :, 0, :, 0],
        hessian[:, :, 0, :, 1:],
        hessian[:, :, 1:, :, 1:].sum(axis=0),
    )


def _evaluate(
    problem: SummedProblem, u_ck: Floats, theta_kd: Floats, hessian: bool
) -> tuple[float, tuple[Floats, Floats], tuple[Floats, Floats, Floats]]:
    """(value, (g_ck, g_kd), (H_ckk, B_ckkd, T_kdkd)), with J_ik = φ_i for θ_k."""
    sums = problem.sums(u_ck, theta_kd, hessian=hessian)
    value = sums.value + problem.penalty(theta_kd)
    gradient = (
        sums.gradient[:, :, 0],
        sums.gradient[:, :, 1:].sum(axis=0) + problem.ridge * theta_kd,
    )
    if sums.hessian is None:
        return value, gradient, (np.empty(0), np.empty(0), np.empty(0))
    return value, gradient, _blocks(sums.hessian)


def newton_direction(
    problem: SummedProblem,
    count_ck: Floats,
    gradient: tuple[Floats, Floats],
    hessian: tuple[Floats, Floats, Floats],
) -> tuple[Floats, Floats, float]:
    """(step in u, step in θ, decrement gᵀI⁻¹g)."""
    g_ck, g_kd = gradient
    schur, right, solved = _eliminate_u(problem, count_ck, gradient, hessian)
    step_p = _solve_positive(schur, right)
    step_u = np.zeros_like(g_ck)
    decrement = float(right @ step_p)
    for cell, (inner, x) in enumerate(solved):
        step_u[cell, inner] = -(x[:, -1] - x[:, :-1] @ step_p)
        decrement += float(g_ck[cell, inner] @ x[:, -1])
    step_kd = np.zeros_like(g_kd)
    is_free_k = np.arange(problem.n_sources) != problem.reference
    step_kd[is_free_k] = -step_p.reshape(int(is_free_k.sum()), g_kd.shape[1])
    return step_u, step_kd, decrement


def _eliminate_u(
    problem: SummedProblem,
    count_ck: Floats,
    gradient: tuple[Floats, Floats],
    hessian: tuple[Floats, Floats, Floats],
) -> tuple[Floats, Floats, list[tuple[Ints, Floats]]]:
    """Return the equations of θ without u: matrix, right side, and u by stratum given θ."""
    g_ck, g_kd = gradient
    h_ckk, b_ckkd, t_kdkd = hessian
    free = np.flatnonzero(np.arange(problem.n_sources) != problem.reference)
    n_features = g_kd.shape[1]
    p = free.size * n_features
    schur = t_kdkd[free][:, :, free].reshape(p, p) + np.diag(problem.ridge_kd[free].ravel())
    right = g_kd[free].ravel().copy()
    solved = []
    for cell in range(problem.n_cells):
        inner = np.flatnonzero(count_ck[cell] > 0)
        # A stratum without mass has no images left, and no u.
        inner = np.delete(inner, int(np.argmax(count_ck[cell, inner]))) if inner.size else inner
        b_kp = b_ckkd[cell][np.ix_(inner, free)].reshape(inner.size, p)
        x = (
            np.linalg.lstsq(
                h_ckk[cell][np.ix_(inner, inner)],
                np.column_stack([b_kp, g_ck[cell, inner]]),
                rcond=None,
            )[0]
            if inner.size
            else np.zeros((0, p + 1))
        )
        schur -= b_kp.T @ x[:, :-1]
        right -= b_kp.T @ x[:, -1]
        solved.append((inner, x))
    return schur, right, solved


def _solve_positive(matrix: Floats, right: Floats) -> Floats:
    if not right.size:
        return right
    try:
        return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix), right))
    except scipy.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-12)[0])
