"""Vardi's iteration, in plain NumPy: slow, simple, and an independent check of Newton's method.

Ω_k ← Σ_i π_i ω_ik with π_i ∝ 1/Σ_l λ_l ω_il/Ω_l (Vardi 1985); in u_k = log(λ_k/Ω_k): u_k ← u_k +
log λ_k − log mean_i q_ik.
"""

from __future__ import annotations

import numpy as np

from unskew.records import Floats, Status, Step
from unskew.solve.omega_rows import Rows

_ROWS = 1 << 16


def iterate_fixed_point(
    rows: Rows, start_k: Floats, tol: float, max_steps: int
) -> tuple[Floats, Status, float, tuple[Step, ...]]:
    """Iterate; return (u, status, error estimate, trace).

    The error of a linearly converging step δ with rate ρ is δ ρ/(1 − ρ).
    """
    u_k = np.array(start_k, dtype=np.float64)
    trace: list[Step] = []
    previous, error = np.inf, np.inf
    for _ in range(max_steps):
        with np.errstate(all="ignore"):  # what is lost here shows in a step that is not finite
            mass_k, value = membership_sums(rows, u_k)
            step_k = np.log(rows.size_k) - np.log(mass_k)
        size = float(np.ptp(step_k))
        if not np.isfinite(size):  # the start is so far away that memberships left double precision
            return u_k, Status.STALLED, np.inf, tuple(trace)
        trace.append(
            Step(
                value,
                float(np.max(np.abs(mass_k - rows.size_k))) / float(rows.size_k.sum()),
                size,
                "fixed point",
            )
        )
        u_k = u_k + step_k - step_k.mean()
        rate = size / previous if previous > 0 else 0.0
        error = size * rate / (1 - rate) if rate < 1 else np.inf
        if max(error, 0.01 * size) <= tol or size == 0:
            return u_k, Status.CONVERGED, max(error, float(np.finfo(np.float64).eps)), tuple(trace)
        previous = size
    return u_k, Status.MAX_STEPS, error, tuple(trace)


def membership_sums(rows: Rows, u_k: Floats) -> tuple[Floats, float]:
    """Compute (Σ_i c_i q_ik, D(u)) without any compiled code."""
    a_k = rows.coefficients(u_k)
    n = float(rows.size_k.sum())
    mass_k, value = np.zeros(rows.n_sources), 0.0
    for block in rows.blocks():
        for start in range(0, block.omega.shape[0], _ROWS):
            omega = block.omega[start : start + _ROWS]
            sum_n = omega @ a_k
            count_n = (
                block.count_n[start : start + _ROWS] if block.count_n.size else np.ones(sum_n.size)
            )
            mass_k += a_k * (omega.T @ (count_n / sum_n))
            value += float(count_n @ np.log(sum_n))
            if block.row_scale_n is not None:
                value += float(count_n @ block.row_scale_n[start : start + _ROWS])
    return mass_k, value / n - float(rows.size_k @ u_k) / n
