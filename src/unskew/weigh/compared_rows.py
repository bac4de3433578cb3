"""The rows whose sources are compared, and what the estimation of ω adds to their influence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints
from unskew.weigh.cell_contrasts import contrast_cells
from unskew.weigh.curvature import read_hessian, read_memberships, solve_hessian
from unskew.weigh.sampling_units import WeightedRows, find_units
from unskew.weigh.source_contrasts import Contrasts, Correction, SourceRows, contrast_memberships

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Weights
    from unskew.weigh.estimated_omega import EstimatedRows

# Images of equal memberships are compared as cells, if there are not too many of them.
_MOST_CELLS = 5000
_IMAGES_PER_CELL = 20
# Images that tell the covariance, a sum of squares, to 1 %; so many of every source at least.
_ENOUGH = 60_000
_ENOUGH_OF_SOURCE = 200


def find_contrasts(weights: Weights, value_n: Floats) -> Contrasts:
    """Compare the sources on the rows behind the weights, by cells where there are cells."""
    estimation = weights.estimation
    if estimation is not None and not estimation.omega_is_known:
        return _contrasts_of_fit(estimation, value_n)
    q_nk = find_memberships(weights)
    cells = _find_cells(weights, q_nk, np.zeros(weights.weight.size, dtype=np.int64))
    if cells is not None:
        weighed = weights.weight > 0
        return contrast_cells(_weighted(weights, value_n, weighed), cells)
    rows, one = _weighted(weights, value_n), np.zeros(weights.weight.size, dtype=np.int64)
    at = _enough(rows)
    if at is None:
        return contrast_memberships(rows, q_nk, _correct_solve(weights, q_nk, rows), one)
    contrasts = contrast_memberships(rows, q_nk, None, one)
    some = _take(rows, at)
    correct = _correct_solve(weights, q_nk[at], some)
    part = contrast_memberships(some, q_nk[at], correct, one[at])
    return _with_covariance(contrasts, part, at.size / rows.weight.size)


def contrast_fixed(rows: WeightedRows, q_nk: Floats, value_n: Floats) -> Contrasts:
    """Compare the sources on rows whose weights and memberships are taken as known."""
    one = np.zeros(rows.weight.size, dtype=np.int64)
    cells = _find_cells(rows, q_nk, one)
    if cells is not None:
        return contrast_cells(_weighted(rows, value_n, rows.weight > 0), cells)
    return contrast_memberships(
        _weighted(rows, value_n), q_nk, lambda pull_nj, own_n, contrast_n: 0.0 * pull_nj, one
    )


# Memberships that are computed at once, 8 MB.
_BLOCK = 1 << 20


def find_memberships(
    weights: Weights, dtype: type[np.floating[Any]] = np.float64
) -> npt.NDArray[Any]:
    """Compute (n, K) q at the solution; 0 for images that the model leaves out."""
    estimation = weights.estimation
    q_nk = np.zeros((weights.weight.size, len(weights.names)), dtype=dtype, order="F")
    if estimation is None or estimation.omega_is_known:
        for at_b, q_bk in read_memberships(weights):
            q_nk[at_b] = q_bk if isinstance(q_bk, np.ndarray) else q_bk.toarray()
        return q_nk
    row, step = estimation.fitted.row, max(_BLOCK // q_nk.shape[1], 1)
    for begin in range(0, row.size, step):
        at = np.arange(begin, min(begin + step, row.size))
        q_nk[row[at]] = _fitted_memberships(estimation.rows, at)[:, : q_nk.shape[1]]
    return q_nk


def _fitted_memberships(rows: EstimatedRows, at: Ints | None = None) -> Floats:
    """Compute (b, K) memberships among the sources that are kept in training; None: all rows."""
    q_rk = rows.profile.memberships(np.arange(rows.weight.size) if at is None else at)
    q_rk *= rows.kept
    return np.asarray(q_rk / np.maximum(q_rk.sum(axis=1, keepdims=True), 1e-300))


def _contrasts_of_fit(estimation: Estimation, value_n: Floats) -> Contrasts:
    rows = estimation.rows
    value_r = estimation.values_of_rows(value_n)
    cell_r = rows.profile.cell
    weighed = rows.weight > 0
    if rows.is_post_stratified:
        return contrast_cells(_weighted(rows, value_r, weighed), cell_r[weighed])
    q_rk = _fitted_memberships(rows)
    cells = _find_cells(rows, q_rk, cell_r)
    if cells is not None:
        return contrast_cells(_weighted(rows, value_r, weighed), cells)
    residual_r = None if estimation.is_smooth else value_r - _explained(estimation, value_n)
    compared = _weighted(rows, value_r)
    at = _enough(compared)
    if at is None:
        return contrast_memberships(compared, q_rk, _correct_fit(rows, q_rk), cell_r, residual_r)
    contrasts = contrast_memberships(compared, q_rk, None, cell_r, residual_r)
    some = replace(
        rows,
        source=rows.source[at],
        weight=rows.weight[at],
        profile=rows.profile.take(at),
        design_weight=None if rows.design_weight is None else rows.design_weight[at],
    )
    part = contrast_memberships(
        _take(compared, at),
        q_rk[at],
        _correct_fit(some, q_rk[at]),
        cell_r[at],
        None if residual_r is None else residual_r[at],
    )
    return _with_covariance(contrasts, part, at.size / rows.weight.size)


def _weighted(
    rows: WeightedRows, value_n: Floats, taken_n: npt.NDArray[np.bool_] | None = None
) -> SourceRows:
    unit_n = find_units(rows).unit_n
    is_alone = unit_n.size == int(unit_n.max()) + 1
    taken = slice(None) if taken_n is None else taken_n
    return SourceRows(
        len(rows.names),
        rows.source[taken],
        rows.weight[taken],
        value_n[taken],
        None if is_alone else unit_n[taken],
        None if rows.design_weight is None else rows.design_weight[taken],
    )


def _enough(rows: SourceRows) -> Ints | None:
    """Choose images that tell the covariance well enough, evenly from every source."""
    n = rows.source.size
    size_k = np.bincount(rows.source, minlength=rows.n_sources)
    share = max(_ENOUGH / n, _ENOUGH_OF_SOURCE / int(size_k[size_k > 0].min()))
    if rows.unit is not None or share > 0.5:
        return None
    n_taken = int(share * n)
    return np.sort(np.argsort(rows.source, kind="stable")[np.arange(n_taken) * n // n_taken])


def _take(rows: SourceRows, at: Ints) -> SourceRows:
    weight_m = rows.weight[at]
    return SourceRows(
        rows.n_sources,
        rows.source[at],
        weight_m / weight_m.sum(),
        rows.value[at],
        None,
        None if rows.design is None else rows.design[at],
    )


def _with_covariance(contrasts: Contrasts, part: Contrasts, share: float) -> Contrasts:
    """Return the contrasts with the errors that a share of the images tells."""
    if not np.array_equal(contrasts.compared, part.compared):
        return part
    return replace(
        contrasts, covariance=share * part.covariance, mean_variance=share * part.mean_variance
    )


def _find_cells(rows: WeightedRows, q_nk: Floats, cell_n: Ints) -> Ints | None:
    """Find the cells of equal memberships among the images that have weight."""
    weighed = rows.weight > 0
    if weighed.all():
        return _equal_memberships(q_nk, cell_n)
    return _equal_memberships(q_nk[weighed], cell_n[weighed])


def _equal_memberships(q_mk: Floats, cell_m: Ints) -> Ints | None:
    """Find (m,) the cells of images with equal memberships; None if there are too many cells."""
    # One number for each row: equal rows have equal ones, others hardly ever.
    mix_k = np.random.default_rng(0).random(q_mk.shape[1])
    few = min(_MOST_CELLS, max(cell_m.size // _IMAGES_PER_CELL, 1))
    some = slice(None, None, max(cell_m.size // (20 * few), 1))
    if np.unique(np.round(q_mk[some] @ mix_k, 9) + 2.0 * cell_m[some]).size > few:
        return None
    distinct, code_m = np.unique(np.round(q_mk @ mix_k, 9) + 2.0 * cell_m, return_inverse=True)
    return None if distinct.size > few else np.asarray(code_m, dtype=np.int64)


def _correct_solve(weights: Weights, q_nk: Floats, rows: SourceRows) -> Correction:
    """Return what estimated normalizers add, ω being known."""
    source_n = rows.source

    def correct(pull_nj: Floats, own_n: Floats, contrast_n: Ints) -> Floats:
        g_kj = q_nk.T @ pull_nj
        inside = np.flatnonzero(contrast_n >= 0)
        np.subtract.at(g_kj, (source_n[inside], contrast_n[inside]), own_n[inside])
        # Columns sum to 0 but for rounding.
        g_kj -= g_kj.mean(axis=0)
        a_kj = solve_hessian(read_hessian(weights), g_kj) / own_n.size
        added_nj = a_kj[source_n] - q_nk @ a_kj
        return np.asarray(added_nj if rows.design is None else rows.design[:, None] * added_nj)

    return correct


def _correct_fit(rows: EstimatedRows, share_rk: Floats) -> Correction:
    """Return what estimated normalizers and parameters add."""
    profile = rows.profile

    def correct(pull_rj: Floats, own_r: Floats, contrast_r: Ints) -> Floats:
        n_contrasts = pull_rj.shape[1]
        g_jck = np.zeros((n_contrasts, *profile.u.shape))
        g_jp = np.zeros((n_contrasts, profile.n_parameters))
        for cell, at, _ in profile.blocks():
            for j in range(n_contrasts):
                pulled_bk = pull_rj[at, j][:, None] * share_rk[at]
                own = np.flatnonzero(contrast_r[at] == j)
                pulled_bk[own, rows.source[at[own]]] -= own_r[at[own]]
                g_jck[j, cell] += pulled_bk.sum(axis=0)
                if profile.derivative is not None:
                    g_jp[j] += profile.derivative.total(at, pulled_bk)
        solved = [profile.information.solve(g_jck[j], g_jp[j]) for j in range(n_contrasts)]
        added_rj = np.empty_like(pull_rj)
        for cell, at, q_bk in profile.blocks():
            residual_bk = profile.counted(at, profile.residuals(at, q_bk))
            for j, (a_ck, a_p) in enumerate(solved):
                added_rj[at, j] = -(residual_bk @ a_ck[cell])
                if profile.derivative is not None:
                    added_rj[at, j] -= profile.derivative.along(at, residual_bk, a_p)
        return added_rj

    return correct


def _explained(estimation: Estimation, value_n: Floats) -> Floats:
    """Compute (R,) what features explain of the values, by least squares within sources.

    Memberships of a model without derivatives (trees) are smoothed, and off by more than their
    error would show; of what the features explain, that moves nothing.
    """
    column_nf = np.column_stack([np.ones(value_n.size), *estimation.feature_values().values()])
    column_nf = np.column_stack([column_nf, np.square(column_nf[:, 1:])])
    row, source = estimation.fitted.row, estimation.rows.source[: estimation.fitted.row.size]
    member_rk = (source[:, None] == np.arange(1, len(estimation.fitted.names))).astype(np.float64)
    read_rf = column_nf[row]
    spread_f = read_rf.std(axis=0)
    read_rf = (read_rf - read_rf.mean(axis=0)) / np.where(spread_f > 0, spread_f, 1.0)
    design = np.column_stack([np.ones(row.size), member_rk, read_rf])
    slope = np.linalg.lstsq(design, value_n[row], rcond=None)[0]
    explained_r = np.zeros(estimation.rows.weight.size)
    explained_r[: row.size] = read_rf @ slope[1 + member_rk.shape[1] :]
    return explained_r
