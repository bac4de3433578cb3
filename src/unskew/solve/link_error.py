"""How much of the target hangs on normalizers that are hardly known.

The weights π_i ∝ 1/Σ_k λ_k ω_ik/Ω_k change with the normalizers by ∂ log π_i/∂ log Ω_k =
q_ik − q̄_k, q̄ = Σ_i π_i q_i. An error δ of log Ω̂ therefore moves the mass ½ Σ_i π_i |(q_i − q̄)·δ|
from one part of the target to another (a total variation). With C the covariance of log Ω̂ its
expectation is

    link error = (2π)^(−½) Σ_i π_i √((q_i − q̄)ᵀ C (q_i − q̄)),   n C = H⁻ − Λ⁻¹ + constants

(Kong et al. 2003; the constants vanish, since q_i − q̄ sums to 0). It is 0 where all ω are
proportional, whatever the sizes of the sources; it does not change when a source is split in two,
sources with the same ω are merged, or ω is scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unskew.engine.threads import one_blas_thread
from unskew.records import Floats
from unskew.solve.laplacian import solve_laplacian
from unskew.solve.omega_rows import Rows

# A tenth of the target's mass. Two equal blocks of sources with m images of each side where they
# overlap have a link error of 0.27/√m or so: 0.19 for three images in all, 0.08 for 20.
LINK_ERROR_LIMIT = 0.1

# Beyond so many sources K³ operations, and K² for every image, cost more than the solve: there the
# error is drawn a few times instead.
_MOST_EXACT = 500
_DRAWS = 16

# Of more entries of ω than this every so many rows are read: the sum over images is an average.
_MOST_ENTRIES = 1 << 20

# Memberships (b, K), dense or CSR, with the weights (b,) of their rows; called once for each pass.
Memberships = Callable[[], Iterator[tuple[Any, Floats]]]


class LinkError(NamedTuple):
    """Expected mass moved, and (K,) the error of log Ω̂ that moves most of it (None: no error)."""

    moved: float
    direction_k: Floats | None


def covariance_root(laplacian_kk: Floats, size_k: Floats) -> Floats:
    """Compute (K, J) L with L Lᵀ = C up to constants, from n H and the sizes n_k.

    With S = Λ^(−½) H Λ^(−½) = Σ_j v_j x_j x_jᵀ, 0 = v_1 < v_2 ≤ … ≤ 1, column j is
    Λ^(−½) x_j √((1/v_j − 1)/n). A link that vanishes in rounding counts as that rounding.
    """
    root_k = np.sqrt(size_k)
    scaled_kk = laplacian_kk / np.outer(root_k, root_k)
    null_k = root_k / np.linalg.norm(root_k)
    # The null vector is known: lifted out of the way, it is the last of all.
    value_j, vector_kj = np.linalg.eigh(scaled_kk + 2.0 * np.outer(null_k, null_k))
    value_j, vector_kj = value_j[:-1], vector_kj[:, :-1]
    smallest = size_k.size * np.finfo(np.float64).eps
    spread_j = np.sqrt(np.maximum(1.0 / np.maximum(value_j, smallest) - 1.0, 0.0))
    return np.asarray(vector_kj * spread_j / root_k[:, None])


def expected_move(memberships: Memberships, root_kj: Floats) -> LinkError:
    """Compute the link error Σ_i π_i ‖(q_i − q̄) L‖/√(2π) in two passes over the memberships."""
    mean_k = _mean(memberships, root_kj.shape[0])
    middle_j = mean_k @ root_kj
    moved, square_j, one_j = 0.0, np.zeros(root_kj.shape[1]), np.ones(root_kj.shape[1])
    for q_bk, weight_b in memberships():
        change_bj = np.square(q_bk @ root_kj - middle_j)
        moved += float(weight_b @ np.sqrt(change_bj @ one_j))
        square_j += weight_b @ change_bj
    if moved == 0.0:
        return LinkError(0.0, None)
    return LinkError(moved / math.sqrt(2 * math.pi), root_kj[:, int(np.argmax(square_j))])


def link_error_of_rows(
    rows: Rows, u_k: Floats, hessian_kk: Any, weight_n: Floats, root_kj: Floats | None = None
) -> LinkError:
    """Compute the link error at a solution, ``weight_n`` being the weights of the stored rows.

    ``root_kj`` replaces the root of the covariance for independent images.
    """
    step = max(rows.n_stored * rows.n_sources // _MOST_ENTRIES, 1)
    total = float(weight_n[::step].sum()) or 1.0

    def memberships() -> Iterator[tuple[Any, Floats]]:
        for at, q_bk in rows.stored_memberships(u_k, step):
            yield q_bk, weight_n[at] / total

    n = float(rows.size_k.sum())
    with one_blas_thread():
        if root_kj is not None:
            return expected_move(memberships, root_kj)
        if rows.n_sources > _MOST_EXACT:
            return _by_draws(rows, u_k, n * hessian_kk, memberships)
        return expected_move(
            memberships, covariance_root(_dense_laplacian(hessian_kk) * n, rows.size_k)
        )


def stored_weights(rows: Rows, u_k: Floats) -> Floats:
    """Compute the weights π of the stored rows, each with its count, from u."""
    weight_n = rows.inverse_sums(u_k)
    if rows.count_n.size:
        weight_n *= rows.count_n
    return np.asarray(weight_n / weight_n.sum())


def link_error_bound(gap: float, size_k: Floats) -> float:
    """Bound the link error without a pass, by the spectral gap and the smallest source.

    (q_i − q̄)ᵀ C (q_i − q̄) ≤ (1/gap − 1) Σ_k (q_ik − q̄_k)²/n_k, and the sum is at most 2/min n_k.
    """
    return math.sqrt(max(1.0 / max(gap, 1e-300) - 1.0, 0.0) / (math.pi * float(size_k.min())))


def _dense_laplacian(hessian_kk: Any) -> Floats:
    """Return H with its diagonal restored from the rest, where λ_k − Σ_i q_ik²/n cancels."""
    dense_kk = hessian_kk.toarray() if sp.issparse(hessian_kk) else np.array(hessian_kk)
    np.fill_diagonal(dense_kk, 0.0)
    np.fill_diagonal(dense_kk, -dense_kk.sum(axis=1))
    return dense_kk


def _mean(memberships: Memberships, n_sources: int) -> Floats:
    mean_k, total = np.zeros(n_sources), 0.0
    for q_bk, weight_b in memberships():
        mean_k += q_bk.T @ weight_b
        total += float(weight_b.sum())
    return mean_k / total if total else mean_k


def _by_draws(rows: Rows, u_k: Floats, laplacian_kk: Any, memberships: Memberships) -> LinkError:
    """Average the mass moved over draws of the error δ = (n H)⁻ Σ_i g_i (q_i − mean of its source).

    g_i are standard normal, one for each image: the spread of the images within sources.
    """
    n_sources = rows.n_sources
    rng = np.random.default_rng(0)
    sum_kk: Any = 0
    noise_ks, score_ks = np.zeros((n_sources, _DRAWS)), np.zeros((n_sources, _DRAWS))
    for at, q_bk in rows.stored_memberships(u_k):
        count_b = rows.count_n[at] if rows.count_n.size else np.ones(at.stop - at.start)
        g_bs = np.sqrt(count_b)[:, None] * rng.standard_normal((count_b.size, _DRAWS))
        source_kb = _indicator(rows.source_n[at], n_sources)
        score_ks += q_bk.T @ g_bs
        noise_ks += source_kb @ g_bs
        sum_kk = sum_kk + (source_kb * count_b) @ q_bk
    # Σ_k (noise of source k) × (mean membership of its images)
    score_ks -= sum_kk.T @ (noise_ks / rows.size_k[:, None])
    off_kk = -laplacian_kk
    off_kk = (
        sp.csr_array(off_kk - sp.diags_array(off_kk.diagonal()))
        if sp.issparse(off_kk)
        else off_kk - np.diag(np.diagonal(off_kk))
    )
    error_ks = np.empty_like(score_ks)
    for s in range(_DRAWS):
        solved_k = solve_laplacian(off_kk, score_ks[:, s] - score_ks[:, s].mean())
        if solved_k is None or not np.isfinite(solved_k).all():
            return LinkError(math.inf, None)
        error_ks[:, s] = solved_k
    middle_s, moved_s = _mean(memberships, n_sources) @ error_ks, np.zeros(_DRAWS)
    for q_bk, weight_b in memberships():
        moved_s += weight_b @ np.abs(q_bk @ error_ks - middle_s)
    return LinkError(0.5 * float(moved_s.mean()), error_ks[:, int(np.argmax(moved_s))])


def _indicator(source_b: npt.NDArray[Any], n_sources: int) -> sp.csr_array:
    b = source_b.size
    return sp.csr_array((np.ones(b), (source_b, np.arange(b))), shape=(n_sources, b))
