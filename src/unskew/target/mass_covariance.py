"""Covariance of the target's masses, and how raking and restriction change it: pure mathematics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.errors import DataError, first_few
from unskew.records import Floats, Ints
from unskew.target.facts import Distribution, cell_text, mass_array

# Standard errors are printed with two or three digits; the largest may exceed what the others allow
# by as much.
_ROUNDING = 1e-2


def mass_covariance(distribution: Distribution) -> Floats | None:
    """(C, C) covariance of the masses, rows summing to 0; None if they are taken as exact."""
    if distribution.covariance is not None:
        return np.asarray(distribution.covariance, dtype=np.float64)
    if distribution.n is not None:
        return multinomial_covariance(mass_array(distribution), distribution.n)
    if distribution.stderr is None:
        return None
    stderr_c = np.asarray(distribution.stderr)
    _check_balance(distribution, stderr_c)
    return balanced_covariance(stderr_c)


def multinomial_covariance(mass_c: Floats, n: float) -> Floats:
    """(diag(p) − p pᵀ)/n."""
    return np.asarray((np.diag(mass_c) - np.outer(mass_c, mass_c)) / n)


def grouped_covariance(cell_n: Ints, unit_n: Ints, n_cells: int) -> Floats:
    """(C, C) covariance of the shares p_c of n sampled images, where whole groups j were drawn.

    Σ_j T_j T_jᵀ/(n² (1 − m_j/n)^{a_j}), T_jc the images of group j in stratum c less m_j p_c, m_j
    its size, and a_j its size in units of the mean size, cut to [1, 2]: a source of units whose
    weight plays no part, as in `unskew.weigh.sampling_units.centre_units`. Groups of one image
    give (diag(p) − p pᵀ)/(n − 1). One group shows no spread, and counts as one image.
    """
    unit_n = np.unique(unit_n, return_inverse=True)[1]
    n_units = int(unit_n.max()) + 1
    count_mc = np.bincount(unit_n * n_cells + cell_n, minlength=n_units * n_cells).reshape(
        n_units, n_cells
    )
    size_m, share_c = count_mc.sum(axis=1), count_mc.sum(axis=0) / cell_n.size
    if n_units == 1:
        return multinomial_covariance(share_c, 1)
    power_m = np.clip(size_m / size_m.mean(), 1.0, 2.0)
    part_m = size_m / cell_n.size
    spread_mc = (count_mc - np.outer(size_m, share_c)) / (
        cell_n.size * (1.0 - part_m) ** (power_m / 2)
    )[:, None]
    return np.asarray(spread_mc.T @ spread_mc)


def balanced_covariance(stderr_c: Floats) -> Floats:
    """(C, C) a covariance with these standard errors, whose rows sum to 0 as masses sum to 1.

    Standard errors alone do not say how the errors of different levels go together. As for a
    multinomial, they are taken as independent errors of variance a_c conditioned on their sum being
    0: C = diag(a) − a aᵀ/A, A = Σ a. With x = a/A this asks x_c (1 − x_c) = s_c²/A and Σ x_c = 1:
    one equation in A. The largest x may exceed 1/2. Where the largest s² exceeds the sum of the
    others no such a exists; then the other errors share one positive correlation, the one that
    makes their sum as uncertain as the largest.
    """
    from scipy.optimize import brentq  # slow to load, needed only for standard errors

    variance_c = stderr_c**2
    top = int(np.argmax(variance_c))
    others_c = np.arange(variance_c.size) != top
    if variance_c[top] == 0:
        return np.zeros((variance_c.size, variance_c.size))
    if variance_c[top] >= (1 - 1e-8) * variance_c[others_c].sum():
        return _correlated(stderr_c, top, others_c)

    def low_root(inverse: float) -> Floats:
        share_c = variance_c * inverse
        return np.asarray(2 * share_c / (1 + np.sqrt(np.maximum(1 - 4 * share_c, 0))))

    def excess(inverse: float, top_is_high: bool) -> float:
        root_c = low_root(inverse)
        return float(root_c[others_c].sum() - root_c[top] if top_is_high else root_c.sum() - 1)

    end = 1 / (4 * variance_c[top])
    top_is_high = excess(end, False) < 0
    # One change of sign: with the low root, from -1; with the high root, from s² of the others
    # minus that of the largest, positive here.
    inverse = (
        end
        if excess(end, top_is_high) == 0
        else float(brentq(excess, 1e-9 * end, end, args=(top_is_high,), xtol=1e-15 * end))
    )
    x_c = low_root(inverse)
    if top_is_high:
        x_c[top] = 1 - x_c[top]
    covariance_cc = -np.outer(x_c, x_c) / inverse
    covariance_cc[np.diag_indices_from(covariance_cc)] = variance_c
    return covariance_cc


def _correlated(stderr_c: Floats, top: int, others_c: npt.NDArray[np.bool_]) -> Floats:
    """Let the largest error balance all others, which share one correlation ρ ≥ 0."""
    other = np.where(others_c, stderr_c, 0.0)
    squares, square = float(other @ other), float(other.sum() ** 2)
    rho = (
        min(1.0, max(0.0, (float(stderr_c[top]) ** 2 - squares) / (square - squares)))
        if square > squares
        else 1.0
    )
    covariance_cc = rho * np.outer(other, other)
    covariance_cc[np.diag_indices_from(covariance_cc)] = other**2
    covariance_cc[top] = covariance_cc[:, top] = -covariance_cc.sum(axis=0)
    covariance_cc[top, top] = -(covariance_cc[top].sum() - covariance_cc[top, top])
    return covariance_cc


def _check_balance(distribution: Distribution, stderr_c: Floats) -> None:
    top = int(np.argmax(stderr_c))
    rest = float(stderr_c.sum() - stderr_c[top])
    if stderr_c[top] > (1 + _ROUNDING) * rest + 1e-12:
        raise DataError(
            f"these standard errors are impossible: the masses of {distribution.name} sum to 1, so "
            "an error in one level is balanced by the others, yet "
            f"{cell_text(distribution.by, distribution.cells[top])} has {stderr_c[top]:.3g} and "
            f"all others together {rest:.3g} ({first_few([f'{error:.3g}' for error in stderr_c])})."
            " Of two levels, both have the same standard error.",
            columns=list(distribution.by),
            value=float(stderr_c[top]),
            limit=rest,
        )


def restricted(
    mass_c: Floats, covariance_cc: Floats | None, keep_c: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats | None]:
    """q = p/P on the kept cells, P = Σ_kept p, and its covariance: J C Jᵀ with J = (I − q 1ᵀ)/P."""
    total = float(mass_c[keep_c].sum())
    q_c = mass_c[keep_c] / total
    if covariance_cc is None:
        return q_c, None
    jacobian = (np.eye(q_c.size) - q_c[:, None]) / total
    return q_c, jacobian @ covariance_cc[np.ix_(keep_c, keep_c)] @ jacobian.T


def raked_covariance(mass_c: Floats, indicator_cj: Floats, covariance_jj: Floats) -> Floats:
    """(C, C) covariance of raked masses p_c = w_c exp(ν·z_c), Zᵀp = m, where m has covariance V.

    dp = diag(p) Z dν and Zᵀ dp = dm give dp = diag(p) Z (Zᵀ diag(p) Z)⁺ dm.
    """
    weighted_cj = mass_c[:, None] * indicator_cj
    jacobian_cj = weighted_cj @ np.linalg.pinv(
        indicator_cj.T @ weighted_cj, hermitian=True, rcond=1e-12
    )
    return np.asarray(jacobian_cj @ covariance_jj @ jacobian_cj.T)


def share_jacobian(mass_c: Floats, indicator_cj: Floats) -> Floats:
    """(C, C) ∂p_c/∂ log w_d of raked masses p_c = w_c exp(ν·z_c), Zᵀp = m, by the table w.

    dp = diag(p) (d log w + Z dν) and Zᵀ dp = 0 give dp = (P − P Z (Zᵀ P Z)⁺ Zᵀ P) d log w, P =
    diag(p).
    """
    weighted_cj = mass_c[:, None] * indicator_cj
    inverse_jj = np.linalg.pinv(indicator_cj.T @ weighted_cj, hermitian=True, rcond=1e-12)
    return np.asarray(np.diag(mass_c) - weighted_cj @ inverse_jj @ weighted_cj.T)
