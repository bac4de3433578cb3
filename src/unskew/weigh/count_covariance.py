"""Covariance of masses that follow the pool's own counts: every source is drawn again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse

from unskew.records.arrays import Bools, Floats
from unskew.target.counted_masses import CountedMasses
from unskew.target.mass_covariance import MassError
from unskew.target.strata import TargetStrata
from unskew.weigh.sampling_units import find_units


def counted_error(counted: CountedMasses) -> MassError:
    """Compute J Cov(N) Jᵀ, J = ∂p/∂N, where every source (or its groups) is drawn again.

    Cov(N) is Σ_s n_s/(n_s − r_s) Σ_{j in s} (N_j − N̄_s)(N_j − N̄_s)ᵀ, N_j the counts of unit j, over
    the n_s units of stratum s, those without any count included. r_s is 1, or the number of main
    effects that were fitted to the stratum's sources, as in a regression. A stratum with one unit
    shows no spread. With design weights N̄_s is N_s in the proportion of unit j's design weights
    instead: those of a source have a fixed sum.
    """
    if counted.design is not None:
        counted = _counting(counted, counted.design > 0)
    units = find_units(counted)
    kept_n = counted.code_n >= 0
    n_units, n_strata = units.stratum_m.size, units.size_s.size
    count_mp = scipy.sparse.coo_array(
        (counted.weight[kept_n], (units.unit_n[kept_n], counted.code_n[kept_n])),
        shape=(n_units, counted.cell_p.size),
    ).tocsr()
    member_sm = scipy.sparse.coo_array(
        (np.ones(n_units), (units.stratum_m, np.arange(n_units))), shape=(n_strata, n_units)
    ).tocsr()
    # A source belongs to one stratum.
    stratum_k = np.zeros(len(counted.names), dtype=np.int64)
    stratum_k[counted.source] = units.stratum_m[units.unit_n]
    effects_s = np.bincount(stratum_k, weights=counted.n_effects_k, minlength=n_strata)
    left_s = np.maximum(units.size_s - np.maximum(effects_s, 1.0), 1.0)
    factor_s = np.where(units.size_s > 1, units.size_s / left_s, 0.0)
    jacobian_pc = counted.jacobian().T
    factor_m = factor_s[units.stratum_m][:, None]
    squares_pp = count_mp.T @ (count_mp * factor_m)
    squares_cc = jacobian_pc.T @ (squares_pp @ jacobian_pc)
    if counted.design is None:
        total_sc = (member_sm @ count_mp) @ jacobian_pc
        covariance_cc = (
            squares_cc - (total_sc.T * (factor_s / np.maximum(units.size_s, 1))) @ total_sc
        )
    else:
        n_sources = len(counted.names)
        design_mk = scipy.sparse.coo_array(
            (counted.design, (units.unit_n, counted.source)), shape=(n_units, n_sources)
        ).tocsr()
        total_p = np.asarray(count_mp.sum(axis=0)).ravel()
        size_k = np.asarray(design_mk.sum(axis=0)).ravel()
        share_kp = (np.arange(n_sources)[:, None] == counted.source_p) * total_p
        mean_kc = (share_kp / size_k[:, None]) @ jacobian_pc
        cross_ck = jacobian_pc.T @ (count_mp.T @ (design_mk * factor_m)).toarray()
        moved_cc = cross_ck @ mean_kc
        both_kk = (design_mk.T @ (design_mk * factor_m)).toarray()
        covariance_cc = squares_cc - moved_cc - moved_cc.T + mean_kc.T @ both_kk @ mean_kc
    freedom = float(np.where(units.size_s > 1, left_s, 0.0).sum())
    return MassError(np.asarray(covariance_cc), max(freedom, 1.0))


def counted_error_of_cells(counted: CountedMasses, image_j: Floats, square_j: Floats) -> MassError:
    """Compute `counted_error` where every row is a cell, and every image is drawn by itself.

    ``image_j`` are the images of each cell that count, ``square_j`` Σ d² over them. The sources are
    drawn again apart from one another: diag(Σ_j d²) less what their fixed sums take away.
    """
    n_sources = len(counted.names)
    size_k = np.bincount(counted.source, weights=image_j, minlength=n_sources)
    left_k = np.maximum(size_k - np.maximum(counted.n_effects_k, 1.0), 1.0)
    factor_k = np.where(size_k > 1, size_k / left_k, 0.0)
    kept_j = counted.code_n >= 0
    n_counts = counted.cell_p.size
    total_p, square_p = (
        np.bincount(counted.code_n[kept_j], weights=each[kept_j], minlength=n_counts)
        for each in (counted.weight, square_j)
    )
    design_j = counted.weight if counted.design is None else counted.design
    total_k = np.bincount(counted.source, weights=design_j, minlength=n_sources)
    all_k = np.bincount(counted.source, weights=square_j, minlength=n_sources)
    jacobian_pc = counted.jacobian().T
    factor_p = factor_k[counted.source_p]
    member_kp = np.arange(n_sources)[:, None] == counted.source_p
    mean_kc = (member_kp * (total_p / total_k[counted.source_p])) @ jacobian_pc
    cross_kc = (member_kp * (square_p * factor_p)) @ jacobian_pc
    covariance_cc = jacobian_pc.T @ ((square_p * factor_p)[:, None] * jacobian_pc)
    covariance_cc -= cross_kc.T @ mean_kc + mean_kc.T @ cross_kc
    covariance_cc += mean_kc.T @ ((all_k * factor_k)[:, None] * mean_kc)
    freedom = float(np.where(size_k > 1, left_k, 0.0).sum())
    return MassError(np.asarray(covariance_cc), max(freedom, 1.0))


def _counting(counted: CountedMasses, counts_n: Bools) -> CountedMasses:
    """Leave out rows whose design weight is 0."""
    return replace(
        counted,
        code_n=counted.code_n[counts_n],
        weight=counted.weight[counts_n],
        source=counted.source[counts_n],
        unit=None if counted.unit is None else counted.unit[counts_n],
        design=None if counted.design is None else counted.design[counts_n],
    )


def strata_errors(strata: TargetStrata) -> tuple[MassError, ...]:
    """Return all errors of the masses: of surveys, and of the pool's counts that they follow."""
    if strata.counted is None:
        return strata.errors
    return (*strata.errors, counted_error(strata.counted))
