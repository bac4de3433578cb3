"""The spread within strata, and what a stratum with a few images hides of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unskew.weigh.effective_size import add_by_code

if TYPE_CHECKING:
    from unskew.records import Floats, Ints
    from unskew.weigh.estimated_omega import EstimatedRows
    from unskew.weigh.sampling_units import Units

# A stratum of no more units than this does not show its own spread well enough.
_FEW = 5
# What all images together say of its spread counts as so many degrees of freedom.
_PRIOR = 2
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class _Cells:
    """Units by stratum: variance and number of units, and what it adds that a few show little."""

    variance_c: Floats
    size_c: Ints
    hidden_c: Floats


def stratified_variance(
    rows: EstimatedRows, units: Units, value_r: Floats, deviation_r: Floats
) -> tuple[Floats, Ints]:
    """Compute (C,) Σ_j T_j²/(1 − leverage_j) over the units j of each stratum, and their numbers.

    T_j = Σ_{i in j} π_i (h_i − m_c), and the leverage of unit j is its share of its stratum's
    weight: equal weights give p_c² s_c²/N_c. A unit with images in several strata counts in each,
    its sums being added before they are squared and the square shared out.

    A stratum with one unit shows no spread, and one with a few shows it badly: two images of the
    same outcome show none. Up to five units, s_c² is therefore at least

        ((N_c − 1) s_c² + 2 s²)/(N_c − 1 + 2),

    s² the spread of all images around the target mean, that between strata included: nothing tells
    that a stratum which is hardly seen varies less than the images altogether. It counts as two
    degrees of freedom, hence N_c + 2 units. Values that vary in no stratum are left alone.
    """
    cells = _spread_of_cells(rows, units, value_r, deviation_r)
    thin_c = cells.size_c <= _FEW
    return (
        np.maximum(cells.variance_c + cells.hidden_c, 0.0),
        np.where(thin_c, cells.size_c + _PRIOR, cells.size_c),
    )


def hidden_variance(
    rows: EstimatedRows, units: Units, value_r: Floats, deviation_r: Floats
) -> float:
    """Compute what strata with a few units add to the variance as `stratified_variance` says.

    It is for products of strata with other factors, where the rest of the variance comes from
    influence functions; 0 without strata.
    """
    if rows.profile.u.shape[0] == 1:
        return 0.0
    return float(_spread_of_cells(rows, units, value_r, deviation_r).hidden_c.sum())


def _spread_of_cells(
    rows: EstimatedRows, units: Units, value_r: Floats, deviation_r: Floats
) -> _Cells:
    cell_r, n_cells, n_units = rows.profile.cell, rows.profile.u.shape[0], units.stratum_m.size
    weighed = np.flatnonzero(rows.weight > 0)
    key_r = units.unit_n[weighed] * n_cells + cell_r[weighed]
    pair, place_r = np.unique(key_r, return_inverse=True)
    unit_p, cell_p = pair // n_cells, pair % n_cells

    def by_pair(of_row: Floats) -> Floats:
        return add_by_code(place_r, (rows.weight * of_row)[weighed], pair.size)

    weight_p = by_pair(np.ones(rows.weight.size))
    mass_c = add_by_code(cell_p, weight_p, n_cells)
    size_c = np.bincount(cell_p, minlength=n_cells)
    share_p = weight_p / mass_c[cell_p]
    lone_p = size_c[cell_p] == 1
    spread_p = np.where(
        lone_p, 0.0, by_pair(deviation_r) / np.sqrt(np.maximum(1.0 - share_p, 1e-12))
    )
    spread_m = add_by_code(unit_p, spread_p, n_units)
    variance_c = add_by_code(cell_p, spread_p * spread_m[unit_p], n_cells)
    thin_c = (size_c > 0) & (size_c <= _FEW)
    # Where nothing varies within strata (rounding apart), a thin one is no exception.
    varies = np.abs(deviation_r).max() > _ROUNDING * np.abs(value_r[weighed]).max()
    if not varies or not thin_c.any() or weight_p.size == 1:
        return _Cells(variance_c, size_c, np.zeros(n_cells))
    # s² of one unit, from the means of all units.
    from_mean_p = by_pair(value_r - float(rows.weight @ value_r)) / weight_p
    overall = float(weight_p @ from_mean_p**2) / (1.0 - float(weight_p @ weight_p))
    scale_c = add_by_code(cell_p, weight_p**2, n_cells)
    own_c = add_by_code(cell_p, spread_p**2, n_cells)
    left_c = np.maximum(size_c - 1.0, 0.0)
    blended_c = (left_c * own_c + _PRIOR * overall * scale_c) / (left_c + _PRIOR)
    return _Cells(variance_c, size_c, np.where(thin_c, np.maximum(blended_c - own_c, 0.0), 0.0))
