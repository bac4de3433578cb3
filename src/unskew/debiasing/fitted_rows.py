"""The weights that follow from a fitted bias model, and its rows, which errors come from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unskew.records import Floats
from unskew.solve.logarithms import log_sum, log_sums
from unskew.weigh.estimated_omega import EstimatedRows, count_covariance

if TYPE_CHECKING:
    from unskew.bias.fitted import FittedBias


class FittedWeights(NamedTuple):
    """The weights of a fitted model.

    Attributes
    ----------
    weight : (number of pool rows in the fit,) π.
    log_total : log Z of π_i = 1/(Z Σ_{k kept} e^{u_k} ω_ik).
    log_normalizer : (K,) log Ω̂ of the pool's sources.
    """

    weight: Floats
    log_total: float
    log_normalizer: Floats


def evaluate_fitted(fitted: FittedBias) -> FittedWeights:
    """Compute weights and normalizers from the fitted ω and u."""
    log_v = _log_inverse_density(fitted)
    if fitted.strata is not None:
        return FittedWeights(_stratified(fitted, log_v), 0.0, np.zeros(len(fitted.names)))
    data, profile, n = fitted.data, fitted.profile, fitted.data.n_pool
    log_total = log_sum(log_v)
    # Ω_k = n_k e^{−u_k}/Σ_i v_i over all rows, those of the target's sample included.
    log_all = log_v
    if data.sample is not None:
        log_pool = -np.logaddexp(
            -log_v, profile.log_omega[:n, data.sample] + profile.u[0, data.sample]
        )
        log_all = np.concatenate([log_pool, -log_sums(profile.log_omega[n:] + profile.u[0])])
    size_k = np.bincount(data.source, minlength=data.n_sources)
    log_normalizer_k = np.log(size_k) - profile.u[0] - log_sum(log_all)
    return FittedWeights(
        np.exp(log_v - log_total), log_total, log_normalizer_k[: len(fitted.names)]
    )


def _log_inverse_density(fitted: FittedBias) -> Floats:
    """Compute log v_i, v_i = 1/Σ_{k kept} e^{u_ck} ω_ik, of the pool's rows."""
    data, profile, n = fitted.data, fitted.profile, fitted.data.n_pool
    if fitted.strata is not None and not fitted.factors:
        # Without further factors all images of a stratum weigh the same.
        return np.zeros(n)
    # The sample, if there is one, is the last of the sources.
    log_omega_nk, u_ck = profile.log_omega[:n, : data.sample], profile.u[:, : data.sample]
    return -log_sums(log_omega_nk + (u_ck if data.n_cells == 1 else u_ck[data.cell[:n]]))


def _stratified(fitted: FittedBias, log_v: Floats) -> Floats:
    """Scale v so that every stratum has the target's mass."""
    assert fitted.strata is not None
    strata, cell = fitted.strata.target, fitted.data.cell[: fitted.data.n_pool]
    part = np.exp(log_v) * strata.unit[fitted.row]
    total_c = np.bincount(cell, weights=part, minlength=fitted.data.n_cells)
    weight = strata.mass[cell] * part / total_c[cell]
    return np.asarray(weight / weight.sum())


def estimated_rows(fitted: FittedBias, weight_r: Floats) -> EstimatedRows:
    """Return the rows of the fit with their weights, from which errors are computed.

    ``weight_r`` holds the weights of the pool's rows.
    """
    data = fitted.data
    has_groups = "group" in data.frame.columns
    rows = EstimatedRows(
        data.names,
        data.source.astype(np.int32),
        np.concatenate([weight_r, np.zeros(data.source.size - weight_r.size)]),
        np.unique(data.fold_group, return_inverse=True)[1].astype(np.int64) if has_groups else None,
        replace(fitted.profile, solved=None),
        np.arange(data.n_sources) != data.sample,
        fitted.strata.target.covariance if fitted.strata is not None else None,
    )
    if fitted.strata is None or fitted.strata.target.share_jacobian is None:
        return rows
    return _with_raking_error(rows, fitted)


def _with_raking_error(rows: EstimatedRows, fitted: FittedBias) -> EstimatedRows:
    """Add the error of masses that were raked from the pool's own counts.

    Another draw of the sources would change the counts N, and with them the masses p by J d log N.
    """
    assert fitted.strata is not None
    strata = fitted.strata.target
    assert strata.share_jacobian is not None
    unit_r = np.concatenate([strata.unit[fitted.row], np.zeros(rows.weight.size - fitted.row.size)])
    jacobian_cc = np.divide(
        strata.share_jacobian,
        strata.size,
        out=np.zeros_like(strata.share_jacobian),
        where=strata.size > 0,
    )
    raked_cc = jacobian_cc @ count_covariance(rows, unit_r) @ jacobian_cc.T
    given_cc = 0.0 if rows.mass_covariance is None else rows.mass_covariance
    return replace(rows, mass_covariance=given_cc + raked_cc)
