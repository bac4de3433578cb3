"""The smallest change of a distribution (Kullback–Leibler) that makes given means hold.

Minimise Σ_c p_c log(p_c/w_c) subject to Σ_c p_c z_cj = 0 for every j and Σ_c p_c = 1. The solution
is the tilt p_c ∝ w_c exp(ν·z_c), with ν the minimum of the convex F(ν) = log Σ_c w_c exp(ν·z_c),
whose gradient is the mean of z under p and whose Hessian is its covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from unskew.records import Bools, Floats, Ints

# Columns are scaled to a largest entry of 1 in absolute value; below this a combination of them is
# constant, that is, redundant.
_RANK_TOLERANCE = 1e-10
_MAX_STEPS = 200
# A mean of z that is zero to double precision.
_EXACT = 1e-15
# One that is small enough where rounding keeps it from being zero.
_SMALL = 1e-12
# The largest change of a log weight in one step: far steps from a poor start are cut, steps near
# the solution never.
_LONGEST_STEP = 20.0
# Log weights that have moved this far (double precision ends at 745) are on their way to infinity:
# there is no minimum.
_FARTHEST = 600.0


@dataclass(frozen=True)
class TiltSolution:
    """p ∝ w exp(ν·z) with E_p z = 0.

    probability : (C,) p, sums to 1; exactly 0 on cells that every solution leaves empty.
    n_steps : Newton steps.
    """

    probability: Floats
    n_steps: int


@dataclass(frozen=True)
class Gap:
    """No distribution on the cells has E_p z = 0; how near one can get.

    nearest : (J,) E_p z for the p with the smallest Σ_j |E_p z_j|.
    """

    nearest: Floats


def tilt_to_zero(weight_c: Floats, z_cj: Floats) -> TiltSolution | Gap | None:
    """Find the distribution nearest to ``weight_c`` with E_p z = 0.

    Returns a `Gap` if there is none, and None if double precision cannot tell.

    weight_c : (C,) w, positive, sums to 1.
    z_cj : (C, J), columns of comparable scale (about 1); redundant columns are allowed.
    """
    tilt = _newton(weight_c, z_cj)
    if tilt is not None:
        return tilt
    support_c = _largest_support(z_cj)
    if not support_c.any():
        return _smallest_gap(z_cj)
    if support_c.all():
        return None
    # Zero is on the boundary of what can be reached: the cells off that face are empty in every
    # solution.
    inner = _newton(weight_c[support_c] / weight_c[support_c].sum(), z_cj[support_c])
    if inner is None:
        return None
    probability_c = np.zeros(weight_c.size)
    probability_c[support_c] = inner.probability
    return TiltSolution(probability_c, inner.n_steps)


def independent_columns(z_cj: Floats) -> Ints | None:
    """Find the columns that determine all others; None if what they imply contradicts another.

    If z_j = α + Σ β_l z_l over the kept columns l then E z_j = α whenever their means are 0:
    redundant for α = 0, contradictory otherwise. The rank is a property of the cells, not of their
    weights.
    """
    centre_j = z_cj.mean(axis=0)
    centred_cj = z_cj - centre_j
    r_jj, order = scipy.linalg.qr(centred_cj, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(r_jj))
    rank = int(np.count_nonzero(diagonal > _RANK_TOLERANCE * np.sqrt(z_cj.shape[0])))
    kept, rest = order[:rank], order[rank:]
    beta_lj = scipy.linalg.solve_triangular(r_jj[:rank, :rank], r_jj[:rank, rank:])
    constant_j = centre_j[rest] - centre_j[kept] @ beta_lj
    if np.abs(constant_j).max(initial=0.0) > 1e-9 * (
        1.0 + np.abs(beta_lj).sum(axis=0).max(initial=0.0)
    ):
        return None
    return np.sort(kept).astype(np.int64)


def _newton(weight_c: Floats, z_cj: Floats) -> TiltSolution | None:
    """Minimise F by Newton's method with a line search, from ν = 0; None if that fails."""
    if np.abs(weight_c @ z_cj).max(initial=0.0) <= _EXACT:
        return TiltSolution(weight_c, 0)
    kept = independent_columns(z_cj)
    if kept is None:
        return None
    z_cl = z_cj[:, kept]
    log_weight_c = np.log(weight_c)
    nu_l = np.zeros(kept.size)
    value, probability_c = _evaluate(log_weight_c, z_cl, nu_l)
    gradient_l = probability_c @ z_cl
    for step in range(_MAX_STEPS):
        size = float(np.abs(gradient_l).max(initial=0.0))
        if size == 0.0:
            return TiltSolution(probability_c, step)
        direction_l = _direction(probability_c, z_cl, gradient_l)
        if direction_l is None:
            return None
        moved = _line_search(log_weight_c, z_cl, nu_l, direction_l, value, gradient_l)
        if moved is None:
            # Rounding: the gradient no longer shrinks. Either it is as small as double precision
            # allows, or there is no minimum.
            return TiltSolution(probability_c, step) if size < _SMALL else None
        nu_l, value, probability_c, gradient_l = moved
        if np.abs(z_cl @ nu_l).max() > _FARTHEST:
            return None
    return None


def _direction(probability_c: Floats, z_cl: Floats, gradient_l: Floats) -> Floats | None:
    """Return Newton's direction, cut to a change of `_LONGEST_STEP` at most in any log weight."""
    centred_cl = z_cl - gradient_l
    hessian_ll = centred_cl.T @ (centred_cl * probability_c[:, None])
    # Margins of very different mass give curvatures of very different size.
    scale_l = 1.0 / np.sqrt(np.maximum(np.diagonal(hessian_ll), 1e-300))
    try:
        factor = scipy.linalg.cho_factor(hessian_ll * np.outer(scale_l, scale_l))
    except scipy.linalg.LinAlgError:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        direction_l = -scale_l * scipy.linalg.cho_solve(factor, scale_l * gradient_l)
    if not np.isfinite(direction_l).all():
        return None
    longest = float(np.abs(z_cl @ direction_l).max())
    shortened_l: Floats = (
        direction_l * min(1.0, _LONGEST_STEP / longest) if longest > 0 else direction_l
    )
    return shortened_l


def _line_search(
    log_weight_c: Floats,
    z_cl: Floats,
    nu_l: Floats,
    direction_l: Floats,
    value: float,
    gradient_l: Floats,
) -> tuple[Floats, float, Floats, Floats] | None:
    """Halve the step until F falls enough or, where F is too coarse, until the gradient shrinks."""
    slope = float(gradient_l @ direction_l)
    size = float(np.abs(gradient_l).max())
    # A gradient that a full step does not shrink, and that is rounding already, no shorter one
    # will.
    for halving in range(40 if size >= _SMALL else 1):
        length = 0.5**halving
        trial_l = nu_l + length * direction_l
        trial_value, probability_c = _evaluate(log_weight_c, z_cl, trial_l)
        trial_gradient_l = probability_c @ z_cl
        if -slope > 1e-10 * (1.0 + abs(value)):
            if trial_value <= value + 1e-4 * length * slope:
                return trial_l, trial_value, probability_c, trial_gradient_l
        elif np.abs(trial_gradient_l).max() < 0.9 * size:
            return trial_l, trial_value, probability_c, trial_gradient_l
    return None


def _evaluate(log_weight_c: Floats, z_cl: Floats, nu_l: Floats) -> tuple[float, Floats]:
    """F(ν) and p."""
    exponent_c = log_weight_c + z_cl @ nu_l
    largest = float(exponent_c.max())
    probability_c = np.exp(exponent_c - largest)
    total = float(probability_c.sum())
    return largest + float(np.log(total)), probability_c / total


def _largest_support(z_cj: Floats) -> Bools:
    """(C,) the cells that are not empty in some p ≥ 0 with Σ_c p_c z_c = 0.

    None is iff E_p z = 0 cannot be reached.
    Solutions form a cone, so all these cells can be at least 1 at once: maximise Σ_c s_c with 0 ≤ s
    ≤ 1 and p = s + r, r ≥ 0.
    """
    from scipy.optimize import linprog  # slow to load, needed only when margins cannot be reached

    n_cells = z_cj.shape[0]
    result = linprog(
        c=np.concatenate([-np.ones(n_cells), np.zeros(n_cells)]),
        A_eq=np.hstack([z_cj.T, z_cj.T]),
        b_eq=np.zeros(z_cj.shape[1]),
        bounds=[(0.0, 1.0)] * n_cells + [(0.0, None)] * n_cells,
        method="highs",
    )
    if result.x is None:
        return np.ones(n_cells, dtype=np.bool_)
    return np.asarray(result.x[:n_cells] > 0.5)


def _smallest_gap(z_cj: Floats) -> Gap | None:
    """Minimise Σ_j |E_p z_j| over all distributions p on the cells."""
    from scipy.optimize import linprog  # slow to load, needed only when margins cannot be reached

    n_cells, n_columns = z_cj.shape
    eye_jj = np.eye(n_columns)
    result = linprog(
        c=np.concatenate([np.zeros(n_cells), np.ones(2 * n_columns)]),
        A_eq=np.vstack(
            [
                np.hstack([z_cj.T, eye_jj, -eye_jj]),
                np.concatenate([np.ones(n_cells), np.zeros(2 * n_columns)]),
            ]
        ),
        b_eq=np.append(np.zeros(n_columns), 1.0),
        method="highs",
    )
    if result.x is None:
        return None
    return Gap(nearest=result.x[:n_cells] @ z_cj)


def smallest_conflict(z_cj: Floats, block_j: Ints) -> list[int]:
    """Find blocks of columns that cannot have E_p z = 0 together, but could without any of them."""
    conflict: list[int] = np.unique(block_j).tolist()
    for block in list(conflict):
        others = [other for other in conflict if other != block]
        if not _reachable(z_cj[:, np.isin(block_j, others)]):
            conflict = others
    return conflict


def _reachable(z_cj: Floats) -> bool:
    from scipy.optimize import linprog  # slow to load, needed only when margins cannot be reached

    n_cells, n_columns = z_cj.shape
    a_eq = np.vstack([z_cj.T, np.ones(n_cells)])
    return bool(
        linprog(
            np.zeros(n_cells), A_eq=a_eq, b_eq=np.append(np.zeros(n_columns), 1.0), method="highs"
        ).success
    )
