"""The difference of a mean between two targets, whose weights are of the same images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unskew.records import Estimate, Floats
from unskew.weigh.effective_size import add_by_code
from unskew.weigh.estimated_omega import (
    deviations_from_strata,
    influence_of_estimate,
    mass_variances,
)
from unskew.weigh.sampling_units import (
    centre_within_sources,
    counts_of,
    degrees_of_freedom,
    find_units,
    student_estimate,
)
from unskew.weigh.uncertainty import influence_of_mean

if TYPE_CHECKING:
    from unskew.debiasing.estimation import Estimation
    from unskew.records import Weights
    from unskew.weigh.sampling_units import Units


class _Influence(NamedTuple):
    """What each unit of the pool adds to a mean (m,), and the variance from elsewhere."""

    unit_m: Floats
    elsewhere: float


def difference_of_means(
    first: tuple[Weights, Estimate],
    second: tuple[Weights, Estimate],
    value_n: Floats,
    level: float = 0.95,
) -> Estimate:
    """Estimate Σ_i (π_i − π'_i) h_i, the mean of the first target minus that of the second.

    Both means are of the same images, so their errors are correlated:

        Var = s² + s'² − 2 ρ s s',   ρ = Σ_j T_j T'_j/√((Σ_j T_j² + e)(Σ_j T'_j² + e')),

    s and s' the standard errors of the two means, T_j the influence of unit j (an image, or a
    group), e the variance that comes from elsewhere: surveys and samples of the targets, which are
    taken as independent. Models without derivatives (boxes) have no T: ρ is 0 there, which makes
    the error too large rather than too small. Equal weights differ by 0 ± 0.

    first, second : the weights of each target, and its mean with its standard error.
    value_n : (n,) h_i, in the order of ``weights.id`` of both.
    level : coverage of the interval.
    """
    (weights, mean), (other_weights, other) = first, second
    value = mean.value - other.value
    if np.array_equal(weights.weight, other_weights.weight):
        return Estimate(0.0, 0.0, (0.0, 0.0), level)
    if not math.isfinite(mean.stderr + other.stderr):
        return Estimate(value, math.inf, (-math.inf, math.inf), level)
    units = find_units(weights)
    own, others = (_influence(each, units, value_n) for each in (weights, other_weights))
    correlation = _correlation(own, others)
    variance = (mean.stderr - other.stderr) ** 2
    variance += 2.0 * (1.0 - correlation) * mean.stderr * other.stderr
    spread_s = add_by_code(
        units.stratum_m, np.square(own.unit_m - others.unit_m), units.size_s.size
    )
    freedom = degrees_of_freedom(spread_s, units.size_s)
    return student_estimate(value, math.sqrt(max(variance, 0.0)), freedom, level)


def _correlation(own: _Influence, others: _Influence) -> float:
    size = math.sqrt(float(own.unit_m @ own.unit_m) + own.elsewhere)
    size *= math.sqrt(float(others.unit_m @ others.unit_m) + others.elsewhere)
    return float(own.unit_m @ others.unit_m) / size if size > 0.0 else 0.0


def _influence(weights: Weights, units: Units, value_n: Floats) -> _Influence:
    estimation = weights.estimation
    if estimation is not None and not estimation.omega_is_known:
        return _influence_of_fit(weights, estimation, units, value_n)
    deviation_n = value_n - float(weights.weight @ value_n)
    influence_n, expected_k = influence_of_mean(weights, deviation_n)
    excess_n = influence_n - counts_of(weights) * expected_k[weights.source]
    return _Influence(centre_within_sources(weights, units, excess_n), 0.0)


def _influence_of_fit(
    weights: Weights, estimation: Estimation, units: Units, value_n: Floats
) -> _Influence:
    rows, n_units = estimation.rows, units.stratum_m.size
    if not estimation.is_smooth:
        return _Influence(np.zeros(n_units), 0.0)
    value_r = estimation.values_of_rows(value_n)
    pull_r = rows.weight * deviations_from_strata(rows, value_r)
    surveys = float(mass_variances(rows, value_r, estimation.means_without_mass(value_n)).sum())
    influence_n, row_n = np.zeros(value_n.size), estimation.fitted.row
    if rows.is_post_stratified:
        # Centred within strata already; which source an image is from does not matter.
        influence_n[row_n] = pull_r[: row_n.size]
        return _Influence(add_by_code(units.unit_n, influence_n, n_units), surveys)
    influence_r, _ = influence_of_estimate(rows, pull_r)
    influence_n[row_n] = influence_r[: row_n.size]
    sampled_t = influence_r[row_n.size :]
    sampled = float(np.square(sampled_t - sampled_t.mean()).sum()) if sampled_t.size else 0.0
    unit_m = centre_within_sources(weights, units, influence_n.size * influence_n)
    return _Influence(unit_m, surveys + sampled)
