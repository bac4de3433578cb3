"""Reference solutions, independent of every peer and of unskew.

Well-conditioned problems: Newton in plain NumPy, whose last steps take the gradient from 80-bit
arithmetic. Weakly linked ones: Newton in mpmath with 50 digits. Both return log(Ω_k/Ω_K), with Ω_k
= λ_k e^{−u_k} at the minimum of D(u) = (1/n) Σ_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import scipy.sparse as sp
from solver_inputs import Problem

ROWS = 100_000
DIGITS = 50


def solve_reference(problem: Problem) -> np.ndarray:
    """(K,) log(Ω_k/Ω_K), to about 1e-13."""
    sparse = sp.issparse(problem.omega)
    evaluate = _evaluate_sparse if sparse else _evaluate_dense
    share = problem.share
    u = np.zeros(share.size, dtype=np.longdouble)
    if not sparse and len(problem.omega) > ROWS:
        # A start from every 50th row leaves two or three steps for the full data.
        u = _newton(
            _evaluate_dense,
            problem.omega[::50],
            np.bincount(problem.source[::50], minlength=share.size),
            u,
            np.float64,
        )
    counts = np.bincount(problem.source, minlength=share.size)
    u = _newton(evaluate, problem.omega, counts, u, np.float64)
    u = _newton(evaluate, problem.omega, counts, u, np.longdouble)
    log_normalizer = np.log(counts.astype(np.longdouble)) - u
    return np.asarray(log_normalizer - log_normalizer[-1], dtype=np.float64)


def _newton(
    evaluate: Any, omega: Any, counts: np.ndarray, u: np.ndarray, precision: Any
) -> np.ndarray:
    """Damped Newton, u_K = 0, until the step is at the rounding of ``precision`` or stops
    shrinking.
    """
    u = u - u[-1]
    tolerance = 1e-9 if precision is np.float64 else 1e-15
    last = np.inf
    for _ in range(60):
        gradient, hessian = evaluate(omega, counts, u, precision)
        step = np.append(np.linalg.solve(hessian[:-1, :-1], -gradient[:-1].astype(np.float64)), 0.0)
        size = np.abs(step).max()
        u = u + step * min(1.0, 1.0 / size)
        if size < tolerance or (size < 1e-6 and size > last / 4):
            return u
        last = size
    raise RuntimeError("the reference solution did not converge")


def _evaluate_dense(
    omega: Any, counts: np.ndarray, u: np.ndarray, precision: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient n·(mean q − λ) in ``precision`` and Hessian n·(diag(mean q) − QᵀQ/n) in float64,
    block by block.
    """
    gradient = -counts.astype(np.longdouble)
    hessian = np.zeros((counts.size, counts.size))
    scale = np.exp(u - u.max()).astype(precision)
    rows = max(1, ROWS * 10 // counts.size)
    for first in range(0, len(omega), rows):
        q = omega[first : first + rows].astype(precision) * scale
        q /= q.sum(axis=1, keepdims=True)
        total = q.sum(axis=0)
        gradient += total
        q = q.astype(np.float64)
        hessian += np.diag(total.astype(np.float64)) - q.T @ q
    return gradient, hessian


def _evaluate_sparse(
    omega: Any, counts: np.ndarray, u: np.ndarray, precision: Any
) -> tuple[np.ndarray, np.ndarray]:
    """As ``_evaluate_dense``, for CSR with the same number of entries in every row."""
    n, n_sources = omega.shape
    column = omega.indices.reshape(n, -1)
    q = omega.data.reshape(n, -1).astype(precision) * np.exp(u - u.max()).astype(precision)[column]
    q /= q.sum(axis=1, keepdims=True)
    order = np.argsort(omega.indices, kind="stable")
    starts = np.searchsorted(omega.indices[order], np.arange(n_sources))
    total = np.add.reduceat(q.ravel()[order], starts)
    q_csr = sp.csr_array(
        (q.ravel().astype(np.float64), omega.indices, omega.indptr), shape=omega.shape
    )
    return total - counts, np.diag(total.astype(np.float64)) - (q_csr.T @ q_csr).toarray()


def solve_mpmath(problem: Problem) -> np.ndarray:
    """(K,) log(Ω_k/Ω_K) by Newton with 50 digits, identical rows counted once."""
    pattern, count = np.unique(problem.omega, axis=0, return_counts=True)
    counts = np.bincount(problem.source, minlength=pattern.shape[1])
    n_sources = counts.size
    with mpmath.workdps(DIGITS):
        rows = [[mpmath.mpf(float(x)) for x in row] for row in pattern]
        # Columns may differ by a factor 1e600: start where each has maximum 1.
        u = [-mpmath.log(max(row[k] for row in rows)) for k in range(n_sources)]
        for _ in range(200):
            gradient, hessian = _evaluate_mpmath(rows, count, counts, u)
            step = mpmath.lu_solve(-hessian, gradient)
            size = max(abs(x) for x in step)
            # One step moves no further than 2: D is nearly linear beyond, and a full step would
            # overshoot.
            damping = min(mpmath.mpf(1), 2 / size)
            u = [u_k + damping * step_k for u_k, step_k in zip(u[:-1], step, strict=True)] + [u[-1]]
            if size < mpmath.mpf(10) ** -25:
                break
        else:
            raise RuntimeError("the mpmath reference did not converge")
        log_normalizer = [mpmath.log(int(n_k)) - u_k for n_k, u_k in zip(counts, u, strict=True)]
        return np.array([float(x - log_normalizer[-1]) for x in log_normalizer])


def _evaluate_mpmath(
    rows: list[list[Any]], count: np.ndarray, counts: np.ndarray, u: list[Any]
) -> tuple[Any, Any]:
    """Gradient and Hessian over the first K − 1 sources."""
    free = counts.size - 1
    scale = [mpmath.exp(u_k) for u_k in u]
    gradient = mpmath.matrix([-int(n_k) for n_k in counts[:-1]])
    hessian = mpmath.matrix(free, free)
    for row, times in zip(rows, count, strict=True):
        mass = [x * s for x, s in zip(row, scale, strict=True)]
        total = mpmath.fsum(mass)
        q = [m / total for m in mass]
        for k in range(free):
            gradient[k] += int(times) * q[k]
            hessian[k, k] += int(times) * q[k] * mpmath.fsum(q[:k] + q[k + 1 :])
            for j in range(k):
                hessian[k, j] -= int(times) * q[k] * q[j]
                hessian[j, k] = hessian[k, j]
    return gradient, hessian
