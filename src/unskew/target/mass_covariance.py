"""Covariance of the target's masses, and how raking and restriction change it: pure mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unskew.errors import DataError, first_few
from unskew.records import Bools, Floats, Ints
from unskew.records.design_weights import add_design
from unskew.target.facts import Distribution, cell_text, mass_array

# Standard errors are printed with two or three digits; the largest may exceed what the others allow
# by as much.
_ROUNDING = 1e-2


@dataclass(frozen=True, eq=False)
class MassError:
    """The error of masses that one survey gave.

    covariance_cc : (C, C), rows summing to 0.
    freedom : degrees of freedom behind it.
    """

    covariance_cc: Floats = field(repr=False)
    freedom: float


def mass_error(distribution: Distribution, keep_c: Bools | None = None) -> MassError | None:
    """Return the error of the masses, or of those of the cells ``keep_c`` alone, scaled to sum 1.

    None if they are taken as exact. Of n drawn, n P are in the kept cells, P their mass. Standard
    errors come with the degrees of freedom of the sample that would have them, Σ p (1 − p)/Σ s² −
    1.
    """
    mass_c = mass_array(distribution)
    keep_c = np.ones(mass_c.size, dtype=np.bool_) if keep_c is None else keep_c
    kept = float(mass_c[keep_c].sum())
    if distribution.covariance is not None:
        covariance_cc = np.asarray(distribution.covariance, dtype=np.float64)
        return restricted_error(MassError(covariance_cc, np.inf), mass_c, keep_c)
    if distribution.n is not None:
        n = distribution.n * kept
        return MassError(survey_covariance(mass_c[keep_c] / kept, n), max(n - 1.0, 1.0))
    if distribution.stderr is None:
        return None
    stderr_c = np.asarray(distribution.stderr)
    _check_balance(distribution, stderr_c)
    variance = float(stderr_c @ stderr_c)
    freedom = max(float(mass_c @ (1 - mass_c)) / variance - 1.0, 1.0) if variance else np.inf
    return restricted_error(MassError(balanced_covariance(stderr_c), freedom), mass_c, keep_c)


def redrawn_fact(fact: Distribution, rng: np.random.Generator) -> Distribution:
    """Draw the masses again within their error; a level with mass 0 keeps it."""
    error = mass_error(fact)
    if error is None:
        return fact
    mass_c = mass_array(fact)
    if fact.n is not None:
        n = max(round(fact.n), 1)
        noise_c = rng.multinomial(n, mass_c / mass_c.sum()) / n - mass_c
        noise_c *= np.sqrt(n / max(fact.n - 1.0, 0.5 * fact.n))
    else:
        noise_c = rng.multivariate_normal(
            np.zeros(mass_c.size), error.covariance_cc, check_valid="ignore"
        )
    drawn_c = np.where(mass_c > 0, np.maximum(mass_c + noise_c, 0.0), 0.0)
    return replace(fact, mass=tuple((drawn_c / drawn_c.sum()).tolist()))


def smoothed(mass_c: Floats, n: float) -> Floats:
    """Return shares that are positive where a survey of n may have missed a level.

    A pseudo-count is added to each of the C cells: ½ as with Jeffreys' prior, and no more than 2 in
    all. Only errors are computed from them.
    """
    added = min(0.5, 2.0 / mass_c.size)
    return np.asarray((n * mass_c + added) / (n + added * mass_c.size))


def survey_covariance(mass_c: Floats, n: float) -> Floats:
    """(diag(p) − p pᵀ)/(n − 1) at `smoothed` p: a level with count 0 is uncertain, too."""
    return multinomial_covariance(smoothed(mass_c, n), max(n - 1.0, 0.5 * n))


def multinomial_covariance(mass_c: Floats, n: float) -> Floats:
    """(diag(p) − p pᵀ)/n."""
    return np.asarray((np.diag(mass_c) - np.outer(mass_c, mass_c)) / n)


def grouped_error(
    cell_n: Ints, unit_n: Ints, n_cells: int, design_n: Floats | None = None
) -> MassError:
    """Return the error of the shares of sampled images in groups, missed levels included.

    As if levels without an image had the share ε of what `smoothed` adds for that many groups: to
    the covariance of the others come ε Cov_u + ε (1 − ε)(p − u)(p − u)ᵀ, u even over the missed
    levels, divided by the number of groups less 1. ``design_n``: how often each image counts.
    """
    n_units = np.unique(unit_n).size
    count_c = add_design(cell_n, design_n, n_cells)
    share_c = count_c / count_c.sum()
    missed_c = share_c == 0
    covariance_cc = grouped_covariance(cell_n, unit_n, n_cells, design_n)
    freedom = max(n_units - 1.0, 1.0)
    if missed_c.any():
        part = float(smoothed(share_c, n_units)[missed_c].sum())
        even_c = missed_c / missed_c.sum()
        apart_c = share_c - even_c
        covariance_cc = covariance_cc + (
            multinomial_covariance(even_c, freedom / part)
            + part * (1 - part) / freedom * np.outer(apart_c, apart_c)
        )
    return MassError(covariance_cc, freedom)


def grouped_covariance(
    cell_n: Ints, unit_n: Ints, n_cells: int, design_n: Floats | None = None
) -> Floats:
    """(C, C) covariance of the shares p_c of n sampled images, where whole groups j were drawn.

    Σ_j T_j T_jᵀ/(n² (1 − m_j/n)^{a_j}), T_jc the images of group j in stratum c less m_j p_c, m_j
    its size, and a_j its size in units of the mean size, cut to [1, 2]: a source of units whose
    weight plays no part, as in `unskew.weigh.sampling_units.centre_units`. Groups of one image
    give (diag(p) − p pᵀ)/(n − 1). One group shows no spread, and counts as one image. ``design_n``:
    how often each image counts, with mean 1.
    """
    unit_n = np.unique(unit_n, return_inverse=True)[1]
    n_units = int(unit_n.max()) + 1
    count_mc = add_design(unit_n * n_cells + cell_n, design_n, n_units * n_cells).reshape(
        n_units, n_cells
    )
    size_m, n = count_mc.sum(axis=1), float(count_mc.sum())
    share_c = count_mc.sum(axis=0) / n
    if n_units == 1:
        return multinomial_covariance(share_c, 1)
    power_m = np.clip(size_m / size_m.mean(), 1.0, 2.0)
    part_m = size_m / n
    spread_mc = (count_mc - np.outer(size_m, share_c)) / (n * (1.0 - part_m) ** (power_m / 2))[
        :, None
    ]
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
    # Of a level with half of the mass the root is the end itself, where the square root turns
    # rounding into 1e-8.
    inverse = (
        end
        if abs(excess(end, top_is_high)) < 1e-7
        else float(brentq(excess, 1e-9 * end, end, args=(top_is_high,), xtol=1e-15 * end))
    )
    x_c = low_root(inverse)
    if top_is_high:
        x_c[top] = 1 - x_c[top]
    covariance_cc = -np.outer(x_c, x_c) / inverse
    covariance_cc[np.diag_indices_from(covariance_cc)] = variance_c
    return covariance_cc


def _correlated(stderr_c: Floats, top: int, others_c: Bools) -> Floats:
    """Let the largest error balance all others, which share one correlation ρ ≥ 0."""
    other = np.where(others_c, stderr_c, 0.0)
    squares, square = float(other @ other), float(other.sum() ** 2)
    rho = 1.0
    if square > squares:
        rho = min(1.0, max(0.0, (float(stderr_c[top]) ** 2 - squares) / (square - squares)))
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


def restricted_error(error: MassError, mass_c: Floats, keep_c: Bools) -> MassError:
    """Return the error of q = p/P on the kept cells, P their mass: J C Jᵀ, J = (I − q 1ᵀ)/P."""
    if keep_c.all():
        return error
    total = float(mass_c[keep_c].sum())
    q_c = mass_c[keep_c] / total
    jacobian_cc = (np.eye(q_c.size) - q_c[:, None]) / total
    kept_cc = error.covariance_cc[np.ix_(keep_c, keep_c)]
    return MassError(jacobian_cc @ kept_cc @ jacobian_cc.T, error.freedom)


def sum_covariances(errors: Sequence[MassError]) -> Floats | None:
    """(C, C) covariance of masses with several independent errors; None without any."""
    if not errors:
        return None
    return np.asarray(sum(error.covariance_cc for error in errors))


def inverse_margins(fitted_c: Floats, indicator_cj: Floats) -> Floats:
    """(…, J, J) (Zᵀ diag(μ) Z)⁺, of one source or of all."""
    weighted_cj = fitted_c[..., None] * indicator_cj
    return np.asarray(
        np.linalg.pinv(indicator_cj.T @ weighted_cj, hermitian=True, rcond=1e-12), dtype=np.float64
    )


def margin_jacobian(mass_c: Floats, indicator_cj: Floats) -> Floats:
    """(C, J) ∂p_c/∂m_j of raked masses p_c = w_c exp(ν·z_c), Zᵀp = m.

    dp = diag(p) Z dν and Zᵀ dp = dm give dp = diag(p) Z (Zᵀ diag(p) Z)⁺ dm.
    """
    weighted_cj = mass_c[:, None] * indicator_cj
    return np.asarray(weighted_cj @ inverse_margins(mass_c, indicator_cj))


def share_jacobian(mass_c: Floats, indicator_cj: Floats) -> Floats:
    """(C, C) ∂p_c/∂ log w_d of raked masses p_c = w_c exp(ν·z_c), Zᵀp = m, by the table w.

    dp = diag(p) (d log w + Z dν) and Zᵀ dp = 0 give dp = (P − P Z (Zᵀ P Z)⁺ Zᵀ P) d log w, P =
    diag(p).
    """
    weighted_cj = mass_c[:, None] * indicator_cj
    inverse_jj = inverse_margins(mass_c, indicator_cj)
    return np.asarray(np.diag(mass_c) - weighted_cj @ inverse_jj @ weighted_cj.T)
