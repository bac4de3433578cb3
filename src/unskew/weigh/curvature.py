"""The curvature of the objective at the solution, as standard errors need it.

Memberships, Hessian, and solves with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy
import scipy.sparse

from unskew.errors import ConfigError, ConvergenceError
from unskew.records import Status
from unskew.solve.laplacian import solve_laplacian

if TYPE_CHECKING:
    from unskew.records import Floats, Weights

# The elimination costs K³ for every column, so K⁴ for the inverse: some 20 ms here.
_MOST_ELIMINATED = 64


def read_memberships(weights: Weights, max_rows: int | None = None) -> Iterator[tuple[slice, Any]]:
    """Yield the memberships at the solution, as (rows, (b, K) block) in the order of the images."""
    check_solved(weights)
    for rows, q_bk in weights.rows.memberships(weights.solution.u):
        step = max_rows or max(rows.stop - rows.start, 1)
        for start in range(rows.start, rows.stop, step):
            stop = min(start + step, rows.stop)
            yield slice(start, stop), q_bk[start - rows.start : stop - rows.start]


def check_solved(weights: Weights) -> None:
    """Refuse weights without ω, or without a solution to differentiate: no standard errors."""
    if weights.rows is None:
        raise ConfigError(
            "standard errors need omega, which these weights do not carry (rows is None): they "
            "were read from a file or made by hand. "
            "Compute the weights with unskew.debias_weights in this session.",
            option="weights",
        )
    unsolved = weights.solution.status in (Status.TOO_WEAK, Status.DISCONNECTED)
    if (
        unsolved
        or not np.isfinite(weights.solution.u).all()
        or not np.isfinite(weights.weight).all()
    ):
        raise ConvergenceError(
            "there are no standard errors, because there is no solution: "
            f"{weights.solution.status.value}.",
            weights.solution,
            option="weights",
            value=weights.solution.status.name,
        )


def read_hessian(weights: Weights) -> Any:
    """Return (K, K) H at the solution, dense or sparse, with H1 = 0 exactly.

    The diagonal is restored from the rest, H_kk = −Σ_{l≠k} H_kl (memberships sum to one): where
    overlap is weak, λ_k − Σ_i q_ik²/n cancels and the sum does not. Where the solver kept an
    estimate from a subsample, one pass computes it.
    """
    hessian_kk = weights.solution.hessian
    if not weights.solution.hessian_exact or hessian_kk is None:
        product_kk: Any = sum(q_bk.T @ q_bk for _, q_bk in read_memberships(weights))
        hessian_kk = -product_kk / weights.weight.size
    is_sparse = scipy.sparse.issparse(hessian_kk)
    if is_sparse:
        off_kk = hessian_kk - scipy.sparse.diags_array(hessian_kk.diagonal())
        return (off_kk - scipy.sparse.diags_array(np.asarray(off_kk.sum(axis=1)).ravel())).tocsc()
    off_kk = np.array(hessian_kk, dtype=np.float64)
    np.fill_diagonal(off_kk, 0.0)
    return off_kk - np.diag(off_kk.sum(axis=1))


def solve_hessian(hessian_kk: Any, right_kj: Floats) -> Floats:
    """Solve Hx = right, up to a constant in each column of x; the columns of right must sum to 0.

    H is the Laplacian of a connected graph. Few sources are eliminated without subtractions, so
    that links of any size keep all their digits. For many sources H without the row and column of
    largest curvature, which is positive definite, is factorised; there links that rounding swamps
    are an error.
    """
    if not scipy.sparse.issparse(hessian_kk) and right_kj.shape[0] <= _MOST_ELIMINATED:
        return _eliminate(hessian_kk, right_kj)
    ground = int(np.argmax(hessian_kk.diagonal()))
    rest = np.delete(np.arange(right_kj.shape[0]), ground)
    solution_kj = np.zeros_like(right_kj)
    if rest.size == 0:
        return solution_kj
    grounded = hessian_kk[rest][:, rest]
    smallest = (
        right_kj.shape[0] * float(np.finfo(np.float64).eps) * float(hessian_kk.diagonal().sum())
    )
    try:
        solution_kj[rest] = _factorise(grounded, smallest)(right_kj[rest])
    except (scipy.linalg.LinAlgError, RuntimeError) as error:
        raise _no_standard_error(str(error)) from error
    return solution_kj


def _eliminate(hessian_kk: Floats, right_kj: Floats) -> Floats:
    weight_kk = -hessian_kk
    np.fill_diagonal(weight_kk, 0.0)
    solution_kj = np.empty_like(right_kj)
    for at in np.ndindex(right_kj.shape[1:]):
        column = (slice(None), *at)
        x_k = solve_laplacian(weight_kk, right_kj[column])
        if x_k is None or not np.isfinite(x_k).all():
            raise _no_standard_error("a link vanishes in double precision")
        solution_kj[column] = x_k
    return solution_kj


def _factorise(grounded: Any, smallest: float) -> Callable[[Floats], Floats]:
    """Return a solver for the positive definite ``grounded``."""
    if scipy.sparse.issparse(grounded):
        # Symmetric mode keeps to the fill-reducing order: a positive definite matrix needs no
        # pivoting.
        from scipy.sparse.linalg import splu

        factor = splu(
            scipy.sparse.csc_matrix(grounded),
            permc_spec="MMD_AT_PLUS_A",
            options={"SymmetricMode": True},
        )
        pivot, solve = float(factor.U.diagonal().min()), factor.solve
    else:
        cholesky = scipy.linalg.cho_factor(grounded)
        pivot, solve = (
            float(np.square(cholesky[0].diagonal()).min()),
            partial(scipy.linalg.cho_solve, cholesky),
        )
    if not pivot > smallest:
        raise scipy.linalg.LinAlgError(f"the smallest pivot, {pivot:.3g}, is lost in rounding")
    return cast("Callable[[Floats], Floats]", solve)


def _no_standard_error(why: str) -> ConvergenceError:
    return ConvergenceError(
        f"there is no standard error: the Hessian at the solution is singular ({why}), so some "
        "normalizers are not determined by the data in double precision. Look at "
        "weights.overlap.message; leave the weakly linked sources out, or widen their omega."
    )


def invert_hessian(hessian_kk: Any, share_k: Floats) -> Floats:
    """Compute (K, K) H⁻, symmetric, with H⁻H = I − 1λᵀ and H⁻λ = 0."""
    right_kk = np.eye(share_k.size) - share_k[:, None]
    inverse_kk = solve_hessian(hessian_kk, right_kk)
    inverse_kk -= share_k @ inverse_kk
    return (inverse_kk + inverse_kk.T) / 2
