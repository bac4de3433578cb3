"""How much of the distance between weighted means and those of the plain pool may be noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unskew.weigh.bootstrap import Replicate, draw_fits
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.estimated_omega import (
    EstimatedRows,
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

    Attributes
    ----------
    weighted, pooled : (J,) their variances.
    shared : (J,) their covariances.
    """

    weighted: Floats
    pooled: Floats
    shared: Floats

    @property
    def of_difference(self) -> Floats:
        """(J,) variance of the weighted less the pooled mean."""
        return np.maximum(self.weighted + self.pooled - 2.0 * self.shared, 0.0)


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
    """Return (n,) p_i: one weight for all images that have any, 0 for the others.

    With design weights it is in proportion to these.
    """
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
    noise = _stack([_estimated(rows, units, equal_r, value_r) for value_r in value_rj.T])
    return MeanNoise(share * noise.weighted, share * noise.pooled, share * noise.shared)


def _enough(rows: EstimatedRows) -> tuple[Ints, float]:
    """Choose rows that show the variances well enough; also their share.

    It is all rows with groups or strata, or a source with few images.
    """
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
    left = weighted_bj.shape[0] - 1
    return MeanNoise(
        *(
            np.sum(product_bj, axis=0) / left
            for product_bj in (centred_bj**2, other_bj**2, centred_bj * other_bj)
        )
    )


def _known(
    weights: Weights, units: Units, equal_n: Floats, value_n: Floats
) -> tuple[float, float, float]:
    if units.cannot_vary:
        return np.inf, np.inf, 0.0
    deviation_n = value_n - float(weights.weight @ value_n)
    spread_m, model_variance = spread_of_mean(weights, units, deviation_n)
    model_variance *= design_effect(weights, units, deviation_n)
    pooled_m = centre_within_sources(
        weights, units, value_n.size * equal_n * (value_n - equal_n @ value_n)
    )
    return (
        max(float(spread_m @ spread_m), model_variance),
        float(pooled_m @ pooled_m),
        float(spread_m @ pooled_m),
    )


def _estimated(
    rows: EstimatedRows, units: Units, equal_r: Floats, value_r: Floats
) -> tuple[float, float, float]:
    if units.cannot_vary:
        return np.inf, np.inf, 0.0
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
        pooled_m = centre_within_sources(
            rows, units, value_r.size * equal_r * (value_r - equal_r @ value_r)
        )
    return variance + margin, float(pooled_m @ pooled_m), float(spread_m @ pooled_m)


def _stack(by_value: list[tuple[float, float, float]]) -> MeanNoise:
    weighted_j, pooled_j, shared_j = np.reshape(by_value, (-1, 3)).T
    return MeanNoise(weighted_j, pooled_j, shared_j)


def _unknown(n_values: int) -> MeanNoise:
    return MeanNoise(np.full(n_values, np.inf), np.full(n_values, np.inf), np.zeros(n_values))
