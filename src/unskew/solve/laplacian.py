"""Newton steps: Laplacian systems of the overlap graph, to full accuracy at weak links.

The Hessian is a graph Laplacian L with positive weights w_kl and the right-hand side is a sum of
flows, so elimination can be arranged without any subtraction between unlike quantities (Grassmann,
Taksar & Heyman 1985). The error of the step is then relative to the local flows, not to the largest
eigenvalue: two groups of sources linked by 1e-12 are as accurate as two linked by 0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from unskew.records import Floats
from unskew.solve.objective import CrossProducts, ObjectiveValue
from unskew.solve.plain_graph import graph_loops

# The elimination of a dense graph costs K³ in a plain loop; beyond, a library factorisation is the
# better trade.
_DENSE_ELIMINATE = 400
# Operations of a banded Cholesky factorisation beyond which conjugate gradients take over: about K
# = 5,000 with a full matrix.
_MOST_BAND_WORK = 1e11


def newton_step(evaluation: ObjectiveValue, cross_kk: Any = None) -> Floats | None:
    """Solve Hessian · p = −gradient for the (K,) step p, centred.

    None if the weights vanish in double precision. ``cross_kk`` replaces the evaluation's own cross
    products (a Hessian from elsewhere, in the same scale n).
    """
    weight_kk = evaluation.cross_kk if cross_kk is None else cross_kk
    if evaluation.u_k.size == 1:
        return np.zeros(1)
    if isinstance(weight_kk, CrossProducts):
        return _solve_by_gradients(
            weight_kk.laplacian, weight_kk.diagonal_k, -evaluation.n * evaluation.gradient_k
        )
    if sp.issparse(weight_kk):
        return solve_laplacian(weight_kk, -evaluation.n * evaluation.gradient_k)
    if evaluation.by_source:
        flow_kk = np.asarray(evaluation.imbalance_kk)
    else:
        flow_kk = _star(-evaluation.n * evaluation.gradient_k)
    return solve_flows(weight_kk, flow_kk, evaluation.band)


def solve_laplacian(weight_kk: Any, right_k: Floats) -> Floats | None:
    """Solve L x = ``right_k`` (which sums to zero), x centred, L the Laplacian of ``weight_kk``."""
    if right_k.size == 1:
        return np.zeros(1)
    if sp.issparse(weight_kk):
        return _solve_sparse(weight_kk, right_k)
    return solve_flows(weight_kk, _star(right_k))


def _star(right_k: Floats) -> Floats:
    """Make an antisymmetric flow whose divergence is ``right_k``: everything through source 0."""
    flow_kk = np.zeros((right_k.size, right_k.size))
    flow_kk[1:, 0] = right_k[1:]
    flow_kk[0, 1:] = -right_k[1:]
    return flow_kk


def solve_flows(weight_kk: Floats, flow_kk: Floats, band: int | None = None) -> Floats | None:
    """Solve L x = b, x centred, without cancellation between flows.

    b_k = Σ_l flow_kl is the divergence of an antisymmetric flow. ``flow_kk`` is overwritten.
    ``band`` bounds the distance of non-zero entries from the diagonal.
    """
    n_sources = weight_kk.shape[0]
    if n_sources > _DENSE_ELIMINATE and np.count_nonzero(weight_kk) > 0.1 * n_sources**2:
        return _solve_cholesky(weight_kk, flow_kk.sum(axis=1))
    step_k, pivot_k = np.zeros(n_sources), np.ones(n_sources)
    order = np.zeros(n_sources, dtype=np.int64)
    done = graph_loops(n_sources).eliminate(
        weight_kk.copy(), flow_kk, n_sources if band is None else band, order, pivot_k, step_k
    )
    return step_k if done else None


def _solve_cholesky(weight_kk: Floats, right_k: Floats) -> Floats | None:
    from scipy.linalg import cho_factor, cho_solve

    laplacian = np.diag(weight_kk.sum(axis=1)) - weight_kk
    try:
        factor = cho_factor(laplacian[1:, 1:])
    except np.linalg.LinAlgError:
        return None
    return _centred(np.concatenate([[0.0], cho_solve(factor, right_k[1:])]))


def _solve_sparse(weight_kk: sp.csr_array, right_k: Floats) -> Floats | None:
    """Solve by Cholesky in a band after reverse Cuthill-McKee ordering."""
    from scipy.linalg import solveh_banded
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = reverse_cuthill_mckee(sp.csr_matrix(weight_kk), symmetric_mode=True)
    degree_k = np.asarray(weight_kk.sum(axis=1)).ravel()
    edges = weight_kk[order][:, order].tocoo()
    n_sources, band = right_k.size, int(np.max(np.abs(edges.row - edges.col), initial=0))
    if n_sources * band**2 > _MOST_BAND_WORK:
        return _solve_by_gradients(lambda v: degree_k * v - weight_kk @ v, degree_k, right_k)
    banded = np.zeros((band + 1, n_sources))
    banded[0] = degree_k[order]
    below = edges.row > edges.col
    banded[(edges.row - edges.col)[below], edges.col[below]] = -edges.data[below]
    try:  # the last node is left out: the Laplacian without it is positive definite
        rest = banded[: n_sources - 1, :-1]
        x = solveh_banded(rest, right_k[order][:-1], lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    step_k = np.zeros(n_sources)
    step_k[order[:-1]] = x
    return _centred(step_k)


def _solve_by_gradients(
    multiply: Callable[[Floats], Floats], diagonal_k: Floats, right_k: Floats
) -> Floats | None:
    """Solve by conjugate gradients on the Laplacian, preconditioned by its diagonal."""
    from scipy.sparse.linalg import LinearOperator, cg

    shape = (right_k.size, right_k.size)
    laplacian = LinearOperator(shape, matvec=multiply, dtype=np.float64)
    inverse = LinearOperator(shape, matvec=lambda v: v / diagonal_k, dtype=np.float64)
    x, _ = cg(laplacian, right_k, rtol=1e-12, maxiter=1000, M=inverse)
    return _centred(x)


def _centred(step_k: Floats) -> Floats | None:
    return step_k - step_k.mean() if np.all(np.isfinite(step_k)) else None
