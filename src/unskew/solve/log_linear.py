"""Value, gradient and Hessian of −Σ_i log q_{i,s_i} for log ω_ik = offset_ik + θ_k·φ_i.

Every stratum has its own u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.engine.compilation import pays_to_compile
from unskew.engine.threads import available_jobs, one_blas_thread, row_ranges, run_ranges
from unskew.records import Floats, Ints

# Up to this many numbers K (D + 1) the compiled loop adds up the products of every image; beyond,
# matrix products of blocks are faster.
_FEW_COLUMNS = 96
_BLOCK = 1 << 17


@dataclass(frozen=True, eq=False)
class LogLinearSums:
    """Sums over the images.

    value : −Σ_i log q_{i,s_i}.
    gradient : (C, K, 1 + D), of u_ck and, of each stratum's part, of θ_k.
    hessian : (C, K, 1 + D, K, 1 + D) the same for second derivatives; None where not asked for.
    """

    value: float
    gradient: Floats
    hessian: Floats | None


def sum_log_linear(
    phi_rd: Floats,
    offset_rk: Floats | None,
    source_r: Ints,
    cell_r: Ints,
    u_ck: Floats,
    theta_kd: Floats,
    *,
    hessian: bool = True,
    design_r: Floats | None = None,
) -> LogLinearSums:
    """Sum over the images in one pass, on all cores; image i counts ``design_r[i]`` times."""
    n_sources, n_features = theta_kd.shape
    is_large = pays_to_compile(source_r.size * n_sources)
    if is_large and n_sources * (n_features + 1) <= _FEW_COLUMNS and design_r is None:
        return _compiled_sums(phi_rd, offset_rk, source_r, cell_r, u_ck, theta_kd, hessian)
    return _product_sums(phi_rd, offset_rk, source_r, cell_r, u_ck, theta_kd, hessian, design_r)


def _compiled_sums(
    phi_rd: Floats,
    offset_rk: Floats | None,
    source_r: Ints,
    cell_r: Ints,
    u_ck: Floats,
    theta_kd: Floats,
    hessian: bool,
) -> LogLinearSums:
    from unskew.solve.kernels_logistic import sweep_logistic

    (n_cells, n_sources), width = u_ck.shape, theta_kd.shape[1] + 1
    n_pairs = n_sources * (n_sources + 1) // 2 if hessian else 0
    phi_rd, theta_kd = np.ascontiguousarray(phi_rd), np.ascontiguousarray(theta_kd)
    offset = np.empty((0, n_sources)) if offset_rk is None else np.ascontiguousarray(offset_rk)

    def work(start: int, stop: int) -> tuple[float, Floats, Floats]:
        gradient, pairs = (
            np.zeros((n_cells, n_sources, width)),
            np.zeros((n_cells, n_pairs, width * (width + 1) // 2)),
        )
        return (
            sweep_logistic(
                phi_rd, offset, source_r, cell_r, u_ck, theta_kd, start, stop, gradient, pairs
            ),
            gradient,
            pairs,
        )

    jobs = available_jobs()
    parts = run_ranges(work, row_ranges(phi_rd.shape[0], n_sources * width, jobs), jobs)
    value, gradient = sum(part[0] for part in parts), np.sum([part[1] for part in parts], axis=0)
    if not hessian:
        return LogLinearSums(value, gradient, None)
    return LogLinearSums(
        value, gradient, _unpacked(np.sum([part[2] for part in parts], axis=0), n_sources, width)
    )


def _unpacked(pairs: Floats, n_sources: int, width: int) -> Floats:
    n_cells = pairs.shape[0]
    square = np.empty((n_cells, pairs.shape[1], width, width))
    a, b = np.triu_indices(width)
    square[:, :, a, b] = square[:, :, b, a] = pairs
    full = np.empty((n_cells, n_sources, width, n_sources, width))
    for pair, (k, other) in enumerate(zip(*np.triu_indices(n_sources), strict=True)):
        full[:, k, :, other, :] = full[:, other, :, k, :] = square[:, pair]
    return full


def _product_sums(
    phi_rd: Floats,
    offset_rk: Floats | None,
    source_r: Ints,
    cell_r: Ints,
    u_ck: Floats,
    theta_kd: Floats,
    hessian: bool,
    design_r: Floats | None,
) -> LogLinearSums:
    """Sum by matrix products: Σ_i (q_i ⊗ φ_i)(q_i ⊗ φ_i)ᵀ stratum by stratum."""
    (n_cells, n_sources), width = u_ck.shape, theta_kd.shape[1] + 1
    value, gradient = 0.0, np.zeros((n_cells, n_sources, width))
    total = np.zeros((n_cells, n_sources, width, n_sources, width)) if hessian else None
    source_k, order = np.arange(n_sources), np.argsort(cell_r, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(cell_r, minlength=n_cells))]).tolist()
    step = max(256, _BLOCK // (n_sources * width))
    with one_blas_thread(), np.errstate(all="ignore"):
        for cell in range(n_cells):
            for start in range(bounds[cell], bounds[cell + 1], step):
                at = order[start : min(start + step, bounds[cell + 1])]
                # Images are last: every loop inside NumPy then runs over all of a block.
                phi_jb = np.concatenate([np.ones((1, at.size)), phi_rd[at].T])
                q_kb = theta_kd @ phi_jb[1:] + u_ck[cell][:, None]
                if offset_rk is not None:
                    q_kb += offset_rk[at].T
                own = (source_r[at], np.arange(at.size))
                largest_b = q_kb.max(axis=0)
                largest_b[np.isneginf(largest_b)] = 0.0
                value_b = largest_b - q_kb[own]
                np.exp(np.subtract(q_kb, largest_b, out=q_kb), out=q_kb)
                sum_b = q_kb.sum(axis=0)
                value_b += np.log(sum_b)
                q_kb /= sum_b
                value += float(value_b.sum() if design_r is None else design_r[at] @ value_b)
                counted_jb = phi_jb if design_r is None else design_r[at] * phi_jb
                if total is not None:
                    z_mb = (q_kb[:, None] * phi_jb).reshape(-1, at.size)
                    counted_mb = z_mb if design_r is None else design_r[at] * z_mb
                    total[cell] -= (counted_mb @ z_mb.T).reshape(total.shape[1:])
                    own_kjj = (z_mb @ counted_jb.T).reshape(n_sources, width, width)
                    total[cell, source_k, :, source_k, :] += own_kjj
                q_kb[own] -= 1.0
                gradient[cell] += q_kb @ counted_jb.T
    return LogLinearSums(value, gradient, total)
