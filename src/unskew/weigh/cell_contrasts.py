"""Sources compared within cells: strata, or images of equal memberships."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse

from unskew.records import Floats, Ints
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.source_contrasts import (
    FEW_FREEDOM,
    LENT_FREEDOM,
    Contrasts,
    SourceRows,
    WithinCells,
    find_ground,
    make_contrasts,
)

# Units of a source in a cell from which its variance there is known well enough to add up many.
_ENOUGH_IN_CELL = 30


def contrast_cells(rows: SourceRows, cell_n: Ints) -> Contrasts:
    """Compare means within cells in which membership does not depend on anything else.

    With m_ck the weighted mean of source k in cell c, p_c the mass of the cell and v_ck the share
    of source k in it, e_k = Σ_c R_ck (m_ck − Σ_l v_cl m_cl). Given the counts, the m_ck are
    independent, with variance Σ_i a_i² (h_i − m_ck)²/(1 − a_i), a_i the share of image i in its
    source and cell (of its unit in 1 − a_i, and sums over units squared, where there are groups).
    A source with a single unit in a cell does not show how much units differ, and is not compared
    there; one with a few shows it badly, and is lent the spread of the others (`_steadied`).
    """
    # A stratum without mass has no row, and no cell.
    cell_n = np.unique(cell_n, return_inverse=True)[1]
    n_cells, n_sources = int(cell_n.max()) + 1, rows.n_sources
    pair_n = cell_n * n_sources + rows.source
    size = n_cells * n_sources
    mass_p = add_by_code(pair_n, rows.weight, size)
    mean_p = np.divide(
        add_by_code(pair_n, rows.weight * rows.value, size),
        mass_p,
        out=np.zeros(size),
        where=mass_p > 0,
    )
    part_n = rows.weight / mass_p[pair_n]
    moved_n = part_n * (rows.value - mean_p[pair_n])
    units_p, variance_p, moved = _pair_variances(rows, pair_n, part_n, moved_n, size)
    mass_ck = mass_p.reshape(n_cells, n_sources)
    mass_c = mass_ck.sum(axis=1)
    v_ck = mass_ck / mass_c[:, None]
    shape = (n_cells, n_sources)
    units_ck = units_p.reshape(shape)
    ground = find_ground(mass_c, v_ck, (units_ck >= 2).astype(np.float64))
    at, solve_jj = ground.compared, ground.solve
    n_compared = at.size
    # What y_j takes of the mean of source l in cell c.
    pulled_cj = ground.reference[:, at] @ solve_jj.T
    take_clj = v_ck[:, :, None] * (mass_c[:, None] - pulled_cj)[:, None, :]
    take_clj[:, at, :] += ground.reference[:, at, None] * solve_jj.T[None, :, :]
    take_pj = take_clj.reshape(size, n_compared)
    y_j = take_pj.T @ mean_p
    if moved is None:
        covariance_jj = take_pj.T @ (variance_p[:, None] * take_pj)
    else:
        spread_mj = moved @ take_pj
        covariance_jj = spread_mj.T @ spread_mj
        # Where no unit of a source in a cell differs from another, none of it shows there.
        unseen_p = variance_p - moved.power(2).sum(axis=0)
        covariance_jj += take_pj.T @ (np.maximum(unseen_p, 0.0)[:, None] * take_pj)
    own_pj = np.square(take_pj) * variance_p[:, None]
    free_p = np.maximum(units_p - 1, 0)
    free_p = np.where(free_p < FEW_FREEDOM, free_p + LENT_FREEDOM, free_p)
    total_j = own_pj.sum(axis=0)
    freedom_j = total_j**2 / np.maximum((own_pj**2 / free_p[:, None]).sum(axis=0), 1e-300)
    squares_p = add_by_code(pair_n, np.square(part_n), size)
    effective_j = 1.0 / np.maximum(np.square(take_pj).T @ squares_p, 1e-300)
    mean_variance = float(np.square(mass_p) @ variance_p)
    contrasts = make_contrasts(
        rows, ground, y_j, covariance_jj, freedom_j, effective_j, mean_variance
    )
    if rows.unit is not None or not ((rows.value == 0.0) | (rows.value == 1.0)).all():
        is_share = bool((rows.value >= 0.0).all() and (rows.value <= 1.0).all())
        within = _within_cells(
            mean_p.reshape(shape), variance_p.reshape(shape), mass_ck, units_ck, is_share
        )
        return replace(contrasts, within=within)
    # Of values 0 and 1 the variance in a cell is that of its share of ones; with few of them the
    # mean of a source there is far from normal.
    ones_c = add_by_code(cell_n, rows.weight * rows.value, n_cells) / mass_c
    null_p = np.repeat(ones_c * (1.0 - ones_c), n_sources) * squares_p
    return replace(
        contrasts,
        null_covariance=take_pj.T @ (null_p[:, None] * take_pj),
        within=_within_cells(
            mean_p.reshape(shape),
            np.where(null_p >= 5.0 * squares_p**2, null_p, 0.0).reshape(shape),
            mass_ck,
            units_ck,
            True,
        ),
    )


def _within_cells(
    mean_ck: Floats, variance_ck: Floats, mass_ck: Floats, units_ck: Ints, is_share: bool
) -> WithinCells | None:
    """Compare the means of sources in every cell where two of them have images enough."""
    enough_ck = (units_ck >= _ENOUGH_IN_CELL) & (variance_ck > 0)
    weight_ck = np.divide(1.0, variance_ck, out=np.zeros_like(variance_ck), where=enough_ck)
    shared = enough_ck.sum(axis=1) > 1
    weight_ck, mean_ck = weight_ck[shared], mean_ck[shared]
    freedom = int(np.count_nonzero(weight_ck, axis=1).sum()) - weight_ck.shape[0]
    if weight_ck.shape[0] < 2:
        return None
    total_c = weight_ck.sum(axis=1)
    deviation_ck = mean_ck - ((weight_ck * mean_ck).sum(axis=1) / total_c)[:, None]
    unit_c = np.ones(total_c.size)
    if is_share:
        pooled_c = (mass_ck[shared] * mean_ck).sum(axis=1) / mass_ck[shared].sum(axis=1)
        unit_c = np.clip(pooled_c * (1.0 - pooled_c), 0.0, None)
    trace_c = total_c - (weight_ck**2).sum(axis=1) / total_c
    precision = float(unit_c**2 @ trace_c)
    if not precision > 0:
        return None
    return WithinCells(float((weight_ck * deviation_ck**2).sum()), freedom, precision)


def _pair_variances(
    rows: SourceRows, pair_n: Ints, part_n: Floats, moved_n: Floats, size: int
) -> tuple[Ints, Floats, scipy.sparse.csr_array | None]:
    """Return the units and the variance of the mean of each (cell, source)."""
    unit_n = np.arange(pair_n.size) if rows.unit is None else rows.unit
    if rows.unit is None:
        unit_e, pair_e, part_e, moved_e = unit_n, pair_n, part_n, moved_n
    else:
        key, entry_n = np.unique(unit_n * size + pair_n, return_inverse=True)
        unit_e, pair_e = key // size, key % size
        part_e = add_by_code(entry_n, part_n, key.size)
        moved_e = add_by_code(entry_n, moved_n, key.size)
    units_p = np.bincount(pair_e, minlength=size)
    rest_e = np.where(units_p[pair_e] > 1, np.maximum(1.0 - part_e, 1e-12), np.inf)
    seen_p = add_by_code(pair_e, np.square(moved_e) / rest_e, size)
    squares_p = add_by_code(pair_e, np.square(part_e), size)
    variance_p = _steadied(seen_p, squares_p, units_p, n_sources=rows.n_sources)
    if rows.unit is None:
        return units_p, variance_p, None
    ratio_p = np.sqrt(np.divide(variance_p, seen_p, out=np.zeros(size), where=seen_p > 0))
    moved_e = moved_e * ratio_p[pair_e]
    moved = scipy.sparse.csr_array(
        (moved_e / np.sqrt(rest_e), (unit_e, pair_e)), shape=(int(unit_n.max()) + 1, size)
    )
    return units_p, variance_p, moved


def _steadied(seen_p: Floats, squares_p: Floats, units_p: Ints, n_sources: int) -> Floats:
    """Lend a source with fewer than ten units in a cell the spread of all sources there.

    With s²_p = seen_p/squares_p the variance of one unit of a source in a cell, from N_p units, and
    s²_c the mean over the sources of the cell, weighted by N_p − 1 (the mean over all cells counts
    as four units), it becomes ((N_p − 1) s²_p + 4 s²_c)/(N_p + 3). Otherwise two images that are
    alike by chance would make a source certain.
    """
    free_p = np.maximum(units_p - 1, 0)
    own_p = np.divide(seen_p, squares_p, out=np.zeros_like(seen_p), where=squares_p > 0)
    all_free = max(float(free_p.sum()), 1.0)
    free_c = free_p.reshape(-1, n_sources).sum(axis=1)
    sum_c = (free_p * own_p).reshape(-1, n_sources).sum(axis=1)
    spread_c = (sum_c + LENT_FREEDOM * sum_c.sum() / all_free) / (free_c + LENT_FREEDOM)
    lent_p = LENT_FREEDOM * np.repeat(spread_c, n_sources)
    steady_p = squares_p * (free_p * own_p + lent_p) / (free_p + LENT_FREEDOM)
    return np.where(free_p < FEW_FREEDOM, steady_p, seen_p)
