"""How much of the distance between weighted means and those of the plain pool may be noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unskew.weigh.bootstrap import Replicate, draw_fits
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.estimated_omega import (
    EstimatedRows,
    cell_means,
    deviations_from_strata,
    mass_variances,
    spread_of_estimate,
)
from unskew.weigh.sampling_units import (
    Units,
    WeightedRows,
    centre_within_sources,
    counts_of,
    design_effect,
    find_units,
)
from unskew.weigh.stratified_spread import hidden_variance, stratified_variance
from unskew.weigh.uncertainty import REPLICATES, spread_of_mean

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Floats, Ints, Weights

# Images that tell the variances, which are sums of squares: measured to 5 % for tilts, to 30 % for
# soft boxes, whose edges few images tell. So many of every source at least.
_ENOUGH = 20_000
_ENOUGH_OF_SOURCE = 500


@dataclass(frozen=True)
class MeanNoise:
    """Sampling variances of weighted means Σ_i π_i h_ij and of pooled means Σ_i p_i h_ij.

    p_i is equal for all images that have a weight.

    weighted, pooled : (J,) their variances.
    shared : (J,) their covariances.
    weighted_jj, difference_jj : (J, J) covariance of the weighted means, and of the weighted less
        the pooled ones.
    """

    weighted: Floats
    pooled: Floats
    shared: Floats
    weighted_jj: Floats
    difference_jj: Floats

    @property
    def of_difference(self) -> Floats:
        """(J,) variance of the weighted less the pooled mean."""
        return np.maximum(self.weighted + self.pooled - 2.0 * self.shared, 0.0)


class _Noise(NamedTuple):
    """What one value adds: two variances, a covariance, and what units add to both means."""

    weighted: float
    pooled: float
    shared: float
    weighted_m: Floats
    pooled_m: Floats


def noise_beside_pool(weights: Weights, value_nj: Floats) -> MeanNoise:
    """Compute the variances of weighted means and of pooled means, and their covariances.

    They are those of `weighted_mean`, with the pooled means from the same units; infinite where the
    data do not show them. The influence of image i on the pooled mean is n p_i (h_i − h̄), centred
    in its source as that on the weighted mean is: the numbers of images per source are fixed. Where
    a second model rivals an estimated one, the distance between both is not counted, nor is the
    bias of a penalty.
    """
    if weights.estimation is not None and not weights.estimation.omega_is_known:
        return _noise_of_fit(weights.estimation, value_nj)
    units, equal_n = find_units(weights), equal_weights(weights)
    if units.cannot_vary:
        return _unknown(value_nj.shape[1])
    return _stack([_known(weights, units, equal_n, value_n) for value_n in value_nj.T])


def _noise_of_fit(estimation: Estimation, value_nj: Floats) -> MeanNoise:
    """Compute them from influence functions, or a bootstrap where the model has no derivatives."""
    if estimation.is_smooth:
        return estimated_noise(estimation.rows, estimation.values_of_rows(value_nj))
    drawn = draw_fits(estimation, REPLICATES, estimation.seed)
    fits = [fit for fit in drawn if isinstance(fit, Replicate)]
    shape = (-1, value_nj.shape[1])
    return replicated_noise(
        np.reshape([fit.weight_m @ value_nj[fit.row_m] for fit in fits], shape),
        np.reshape([value_nj[fit.row_m].mean(axis=0) for fit in fits], shape),
    )


def equal_weights(weights: WeightedRows) -> Floats:
    """Return (n,) p_i: one weight for all images that have any, 0 for the others."""
    count_n = np.where(weights.weight > 0, counts_of(weights), 0.0)
    return np.asarray(count_n / count_n.sum())


def estimated_noise(rows: EstimatedRows, value_rj: Floats) -> MeanNoise:
    """Compute them from the rows behind estimated weights.

    The target's sample varies, too, but is not in the pool. Of many images some tell it, as it
    falls as 1/n: V is wanted well enough to say whether it is above δ², not to the last digit.
    """
    at, share = _enough(rows)
    if share < 1.0:
        weight_m = rows.weight[at]
        rows = replace(
            rows,
            source=rows.source[at],
            weight=weight_m / weight_m.sum(),
            profile=rows.profile.take(at),
            design_weight=None if rows.design_weight is None else rows.design_weight[at],
        )
        value_rj = value_rj[at]
    units, equal_r = find_units(rows), equal_weights(rows)
    if units.cannot_vary:
        return _unknown(value_rj.shape[1])
    return _stack(
        [_estimated(rows, units, equal_r, value_r) for value_r in value_rj.T],
        _mass_covariance_of_means(rows, value_rj),
        share,
    )


def _enough(rows: EstimatedRows) -> tuple[Ints, float]:
    """Choose rows that show the variances well enough; also their share."""
    n, every = rows.source.size, np.arange(rows.source.size)
    if n <= 2 * _ENOUGH or rows.unit is not None or rows.profile.u.shape[0] > 1:
        return every, 1.0
    # Evenly from every source.
    at = np.sort(np.argsort(rows.source, kind="stable")[np.arange(_ENOUGH) * n // _ENOUGH])
    few = np.bincount(rows.source[at], minlength=len(rows.names)).min() < _ENOUGH_OF_SOURCE
    return (every, 1.0) if few else (at, at.size / n)


def replicated_noise(weighted_bj: Floats, pooled_bj: Floats) -> MeanNoise:
    """Compute them from B replicates of both means."""
    if weighted_bj.shape[0] < 2:
        return _unknown(weighted_bj.shape[1])
    centred_bj, other_bj = (
        weighted_bj - weighted_bj.mean(axis=0),
        pooled_bj - pooled_bj.mean(axis=0),
    )
    return _stack_spread(centred_bj, other_bj, 1.0 / (weighted_bj.shape[0] - 1))


def _stack_spread(weighted_bj: Floats, pooled_bj: Floats, factor: float) -> MeanNoise:
    """Compute all of them from centred rows whose squares add up to the variances."""
    apart_bj = weighted_bj - pooled_bj
    return MeanNoise(
        factor * np.sum(weighted_bj**2, axis=0),
        factor * np.sum(pooled_bj**2, axis=0),
        factor * np.sum(weighted_bj * pooled_bj, axis=0),
        factor * weighted_bj.T @ weighted_bj,
        factor * apart_bj.T @ apart_bj,
    )


def _known(weights: Weights, units: Units, equal_n: Floats, value_n: Floats) -> _Noise:
    deviation_n = value_n - float(weights.weight @ value_n)
    spread_m, model_variance = spread_of_mean(weights, units, deviation_n)
    model_variance *= design_effect(weights, units, deviation_n)
    pooled_m = _pooled_spread(weights, units, equal_n, value_n)
    return _noise(max(float(spread_m @ spread_m), model_variance), spread_m, pooled_m)


def _estimated(rows: EstimatedRows, units: Units, equal_r: Floats, value_r: Floats) -> _Noise:
    deviation_r = deviations_from_strata(rows, value_r)
    margin = float(mass_variances(rows, value_r).sum())
    if rows.is_post_stratified:
        # Given the numbers of images in the strata, both means vary within strata only.
        variance_c, _ = stratified_variance(rows, units, value_r, deviation_r)
        spread_m, pooled_m = (
            add_by_code(units.unit_n, each_r * deviation_r, units.stratum_m.size)
            for each_r in (rows.weight, equal_r)
        )
        variance = float(variance_c.sum())
    else:
        spread_m, variance = spread_of_estimate(rows, units, deviation_r)
        variance += hidden_variance(rows, units, value_r, deviation_r)
        pooled_m = _pooled_spread(rows, units, equal_r, value_r)
    return _noise(variance + margin, spread_m, pooled_m)


def _pooled_spread(rows: WeightedRows, units: Units, equal_n: Floats, value_n: Floats) -> Floats:
    """(m,) what each unit adds to the pooled mean."""
    pull_n = value_n.size * equal_n * (value_n - equal_n @ value_n)
    return centre_within_sources(rows, units, pull_n)


def _noise(weighted: float, spread_m: Floats, pooled_m: Floats) -> _Noise:
    pooled, shared = float(pooled_m @ pooled_m), float(spread_m @ pooled_m)
    return _Noise(weighted, pooled, shared, spread_m, pooled_m)


def _mass_covariance_of_means(rows: EstimatedRows, value_rj: Floats) -> Floats:
    """(J, J) what the error of the strata's masses adds to the covariance of the means."""
    total_jj = np.zeros((value_rj.shape[1], value_rj.shape[1]))
    mean_cj = np.column_stack(
        [cell_means(rows, value_r) - rows.weight @ value_r for value_r in value_rj.T]
    )
    for error in rows.mass_errors:
        total_jj += mean_cj.T @ error.covariance_cc @ mean_cj
    return total_jj


def _stack(
    by_value: list[_Noise], masses_jj: Floats | float = 0.0, share: float = 1.0
) -> MeanNoise:
    """Join the values: correlations from the units and the masses, variances as they are."""
    if not by_value:
        return _unknown(0)
    plain = _stack_spread(
        np.column_stack([noise.weighted_m for noise in by_value]),
        np.column_stack([noise.pooled_m for noise in by_value]),
        1.0,
    )
    weighted_j, pooled_j, shared_j = np.array([noise[:3] for noise in by_value]).T
    noise = MeanNoise(
        share * weighted_j,
        share * pooled_j,
        share * shared_j,
        plain.weighted_jj + masses_jj,
        plain.difference_jj + masses_jj,
    )
    return replace(
        noise,
        weighted_jj=_with_variances(noise.weighted_jj, noise.weighted),
        difference_jj=_with_variances(noise.difference_jj, noise.of_difference),
    )


def _with_variances(covariance_jj: Floats, variance_j: Floats) -> Floats:
    """Scale a covariance to other variances, its correlations kept."""
    own_j = np.diag(covariance_jj)
    factor_j = np.sqrt(np.divide(variance_j, own_j, out=np.zeros_like(own_j), where=own_j > 0))
    scaled_jj = covariance_jj * np.outer(factor_j, factor_j)
    scaled_jj[np.diag_indices_from(scaled_jj)] = variance_j
    return np.asarray(scaled_jj)


def _unknown(n_values: int) -> MeanNoise:
    infinite, nothing = np.full(n_values, np.inf), np.zeros(n_values)
    return MeanNoise(infinite, infinite, nothing, np.diag(infinite), np.diag(infinite))
