"""Covariance of masses that follow the pool's own counts: every source is drawn again."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from unskew.target.counted_masses import CountedMasses
from unskew.target.mass_covariance import MassError
from unskew.weigh.sampling_units import find_units


def counted_error(counted: CountedMasses) -> MassError:
    """Compute J Cov(N) Jᵀ, J = ∂p/∂N, where every source (or its groups) is drawn again.

    Cov(N) is Σ_s n_s/(n_s − 1) Σ_{j in s} (N_j − N̄_s)(N_j − N̄_s)ᵀ, N_j the counts of unit j, over
    the n_s units of stratum s, those without any count included. A stratum with one unit shows no
    spread.
    """
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
    factor_s = np.divide(
        units.size_s, units.size_s - 1.0, out=np.zeros(n_strata), where=units.size_s > 1
    )
    jacobian_pc = counted.jacobian().T
    squares_pp = count_mp.T @ (count_mp * factor_s[units.stratum_m][:, None])
    total_sc = (member_sm @ count_mp) @ jacobian_pc
    covariance_cc = (
        jacobian_pc.T @ (squares_pp @ jacobian_pc)
        - (total_sc.T * (factor_s / np.maximum(units.size_s, 1))) @ total_sc
    )
    freedom = float(np.maximum(units.size_s - 1, 0).sum())
    return MassError(np.asarray(covariance_cc), max(freedom, 1.0))
