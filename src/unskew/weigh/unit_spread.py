"""What each independent unit adds to weighted means: one vector for every mean, so that variances
and covariances of several means are products of vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.records import Floats
from unskew.weigh.bootstrap import Replicate, draw_fits
from unskew.weigh.curvature import check_solved
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.estimated_omega import (
    EstimatedRows,
    cell_means,
    deviations_from_strata,
    influence_of_estimate,
    stratum_deviations,
)
from unskew.weigh.sampling_units import Units, centre_within_sources, counts_of, find_units
from unskew.weigh.uncertainty import REPLICATES, spread_of_mean

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Weights


def unit_spreads(
    weights: Weights, value_nj: Floats, row_r: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return (U, J) what each unit adds to Σ_i π_i v_ij, and (U,) what it adds to Σ_r row_r.

    Both are centred, so that the product of two columns estimates the covariance of two means. They
    are linear in the values. A unit is an image or a group; where the strata's masses have an
    error, further units stand for it; where a model has no derivatives, a unit is a replicate of
    the bootstrap. The variance that `weighted_mean` reports may exceed the sum of squares, where it
    counts what the units do not show.

    ``row_r``: (R,) amounts of the rows of the fit, those of the target's sample included.
    """
    estimation = weights.estimation
    if estimation is None or estimation.omega_is_known:
        check_solved(weights)
        units = find_units(weights)
        columns = [
            spread_of_mean(weights, units, value_n - weights.weight @ value_n)[0]
            for value_n in value_nj.T
        ]
        row_m = np.zeros(units.stratum_m.size)
        if row_r is not None:
            row_m = centre_within_sources(weights, units, row_r.size * row_r)
        return np.column_stack(columns), row_m
    if not estimation.is_smooth:
        return _spreads_of_replicates(estimation, value_nj, row_r)
    return _spreads_of_rows(estimation, value_nj, row_r)


def _spreads_of_rows(
    estimation: Estimation, value_nj: Floats, row_r: Floats | None
) -> tuple[Floats, Floats]:
    """Do so from the influence functions of a fitted model."""
    rows, units = estimation.rows, find_units(estimation.rows)
    fitted, is_reference_r = estimation.fitted, estimation.fitted.is_reference_r
    has_own_masses = (
        fitted.strata is not None
        and fitted.target is not None
        and fitted.target.kind in ("sample", "source")
    )
    columns, masses = [], []
    for value_r in estimation.values_of_rows(value_nj).T:
        deviation_r = deviations_from_strata(rows, value_r)
        spread_m = _spread_of_images(rows, units, deviation_r)
        if has_own_masses:
            # The masses are those of the target's images: image j moves them towards its stratum.
            count_r = np.where(is_reference_r, counts_of(rows), 0.0)
            share_r = count_r / count_r.sum()
            moved_r = share_r * cell_means(rows, value_r)[rows.profile.cell]
            spread_m = spread_m + centre_within_sources(rows, units, moved_r.size * moved_r)
        elif rows.mass_covariance is not None:
            masses.append(root_of(rows.mass_covariance) @ stratum_deviations(rows, value_r))
        columns.append(spread_m)
    spread_uj = np.column_stack(columns)
    if masses:
        spread_uj = np.concatenate([spread_uj, np.column_stack(masses)])
    row_u = np.zeros(len(spread_uj))
    if row_r is not None:
        row_u[: units.stratum_m.size] = centre_within_sources(rows, units, row_r.size * row_r)
    return spread_uj, row_u


def _spread_of_images(rows: EstimatedRows, units: Units, deviation_r: Floats) -> Floats:
    pull_r = rows.weight * deviation_r
    if not rows.is_post_stratified:
        influence_r, _ = influence_of_estimate(rows, pull_r)
        return centre_within_sources(rows, units, influence_r.size * influence_r)
    # Σ_c p_c² s_c²/N_c: each stratum is centred at its own mean.
    mass_c = add_by_code(rows.profile.cell, rows.weight, rows.profile.u.shape[0])
    share_r = rows.weight / np.where(mass_c > 0, mass_c, 1.0)[rows.profile.cell]
    scaled_r = np.where(share_r < 1.0, pull_r / np.sqrt(np.maximum(1.0 - share_r, 1e-12)), 0.0)
    return add_by_code(units.unit_n, scaled_r, units.stratum_m.size)


def root_of(covariance_cc: Floats) -> Floats:
    """(C, C) A with AᵀA = ``covariance_cc``."""
    value_c, vector_cc = np.linalg.eigh(covariance_cc)
    return np.asarray(np.sqrt(np.maximum(value_c, 0.0))[:, None] * vector_cc.T)


def _spreads_of_replicates(
    estimation: Estimation, value_nj: Floats, row_r: Floats | None
) -> tuple[Floats, Floats]:
    """Do so from the replicates that `weighted_mean` draws for a model without derivatives."""
    fits = [
        fit
        for fit in draw_fits(estimation, REPLICATES, estimation.seed)
        if isinstance(fit, Replicate)
    ]
    mean_bj = np.array([fit.weight_m @ value_nj[fit.row_m] for fit in fits])
    mean_bj = mean_bj.reshape(len(fits), value_nj.shape[1])
    row_b = np.zeros(len(fits))
    if row_r is not None:
        count_r = counts_of(estimation.rows)
        size = float(count_r[estimation.fitted.is_reference_r].sum())
        # A replicate may have drawn whole groups, and so another number of rows.
        row_b = np.array(
            [size * row_r[at].sum() / count_r[at].sum() for at in (fit.reference_m for fit in fits)]
        )
    scale = np.sqrt(max(len(fits) - 1, 1))
    return (mean_bj - mean_bj.mean(axis=0)) / scale, (row_b - row_b.mean()) / scale
