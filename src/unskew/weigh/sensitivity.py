"""How far a target mean may be off if selection differs from the model by an unknown factor.

The memberships depend on ω through ratios only: multiplying every ω_k(z) by one c(z) leaves them,
and every test of fit, as they are, and divides the weights by c(z). Here c may be anything between
two values whose ratio is at most Γ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy

from unskew.engine.arguments import OneOrMore, OpenShare, checked
from unskew.records import Floats
from unskew.records.target import THE_TARGET
from unskew.weigh.calibrate import read_weight
from unskew.weigh.extreme_means import Extreme, OrderedValues, order_values, solve_log_factor
from unskew.weigh.sampling_units import check_order, check_values
from unskew.weigh.solved_weights import group_codes
from unskew.weigh.uncertainty import weighted_mean

if TYPE_CHECKING:
    from unskew.records import Weights

# Half the width of the interval for an end of the range.
HalfWidth = Callable[[Extreme], float]

# The safe factor is a statement about sampling error, 1e-4 is plenty.
_SAFE_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The range of a target mean when c(z), which the data cannot tell, varies within ``factor``.

    Attributes
    ----------
    value : the mean with the weights as they are (c constant).
    low, high : its smallest and largest value over all c with max c/min c ≤ ``factor``; exact for
        these images.
    factor : Γ.
    interval : ``low`` and ``high`` moved outwards by their sampling error; holds the whole range of
        the population with a probability that in large samples is ``level`` or more (each end
        misses with half of 1 − ``level``).
    level : coverage of ``interval``.
    threshold : the value at which a conclusion turns, or None.
    turning_factor : the smallest Γ whose range holds the threshold; 1 if the value is the
        threshold, inf if no Γ gets there.
    safe_factor : the smallest Γ whose interval holds the threshold; 1 if sampling error alone gets
        there. Never above ``turning_factor``.
    weight_low, weight_high : (n,) π_i/c_i, sum 1, at the two ends.
    scope : what c may depend on, as a phrase.
    population : which population the mean is of, where the weights know it.
    """

    value: float
    low: float
    high: float
    factor: float
    interval: tuple[float, float]
    level: float
    threshold: float | None
    turning_factor: float | None
    safe_factor: float | None
    weight_low: Floats = field(repr=False)
    weight_high: Floats = field(repr=False)
    scope: str = field(repr=False)
    population: str = field(repr=False, default=THE_TARGET)

    def describe(self) -> tuple[str, ...]:
        """Describe the range, and where the conclusion turns, in plain sentences."""
        low, high = self.interval
        sentences = [
            f"The target mean is {self.value:.4g}. If selection differs from the model by an "
            f"unknown factor of up to {self.factor:.4g} {self.scope}, it is between {self.low:.4g} "
            f"and {self.high:.4g}; with sampling error, between {low:.4g} and {high:.4g} "
            f"({self.level:.0%})."
        ]
        if self.population != THE_TARGET:
            sentences.append(f"This is the mean of {self.population}.")
        if self.threshold is None or self.turning_factor is None or self.safe_factor is None:
            return tuple(sentences)
        if self.safe_factor == 1.0:
            sentences.append(f"Sampling error alone does not tell it from {self.threshold:.4g}.")
        elif math.isinf(self.safe_factor):
            sentences.append(f"No such factor makes it {self.threshold:.4g}.")
        else:
            turns = "no factor does"
            if not math.isinf(self.turning_factor):
                turns = f"a factor of {self.turning_factor:.3g} would be enough"
            sentences.append(
                f"It stays away from {self.threshold:.4g} as long as the factor is below "
                f"{self.safe_factor:.3g}, sampling error included (without sampling error {turns})."
            )
        return tuple(sentences)


@checked
def bound_mean(
    weight: npt.ArrayLike,
    values: npt.ArrayLike,
    factor: OneOrMore = 2.0,
    *,
    cell: npt.ArrayLike | None = None,
    by: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    threshold: float | None = None,
    level: OpenShare = 0.95,
) -> Sensitivity:
    """Bound Σ_i (π_i/c_i) h_i/Σ_i (π_i/c_i) over all c with max c/min c ≤ Γ.

    The smallest and the largest value are exact, in O(n log n): a ratio of linear functions of 1/c
    is extreme where c takes its two ends only, on either side of
    a threshold in h. With h sorted from the largest, A_j = Σ_{i≤j} π_i (h_i − μ) and W_j = Σ_{i≤j}
    π_i (μ the mean, Σ_i π_i = 1),

        high(Γ) = μ + max_j (Γ − 1) A_j/(1 + (Γ − 1) W_j),

    and the range reaches t > μ at Γ = Σ_i π_i (t − h_i)₊/Σ_i π_i (h_i − t)₊. Facts: Γ = 1 gives μ;
    the range grows with Γ, and tends to the smallest and largest h with positive weight; scaling
    the weights changes nothing.

    The sampling error of an end is that of a mean whose c is fixed at the extreme (to first order
    the choice of the extreme adds nothing): here Σ_j (Σ_{i in j} p_i (h_i − end))² with the changed
    weights p and independent groups j, or images without groups. It ignores that the weights were
    estimated; `bound_weights_mean` does not.

    Parameters
    ----------
    weight : (n,) π_i, not negative; scaled to sum 1.
    values : (n,) h_i, finite.
    factor : Γ, at least 1; inf for no limit (the range is then that of the values seen, and the
        interval knows nothing of others).
    cell : (n,) stratum of every image, where the target masses of strata are known: c varies within
        strata and their masses stay.
    by : (n,) level of every image, where c may depend on that level (and the cell) only; the range
        is then smaller. If a level occurs in several cells, c may differ between them.
    group : (n,) group of every image, as in `debias_weights`.
    threshold : the value at which a conclusion turns.
    level : coverage of the interval.

    Examples
    --------
    >>> bound = bound_mean([1, 1, 1, 1], [0, 0, 1, 1], factor=3.0, threshold=0.2)
    >>> bound.value, bound.low, bound.high, round(bound.turning_factor, 12)
    (0.5, 0.25, 0.75, 4.0)
    """
    weight_n = read_weight(weight, "weight")
    value_n = check_values(values, weight_n.size)
    group_n = np.arange(weight_n.size) if group is None else group_codes(group, weight_n.size)[0]
    quantile = float(scipy.special.ndtri(0.5 + level / 2))

    def half_width(end: Extreme) -> float:
        return quantile * float(
            np.linalg.norm(np.bincount(group_n, weights=weight_n * end.residual_n))
        )

    return _bound(weight_n, value_n, factor, cell, by, threshold, level, half_width)


@checked
def bound_weights_mean(
    weights: Weights,
    values: npt.ArrayLike,
    factor: OneOrMore = 2.0,
    *,
    cell: npt.ArrayLike | None = None,
    by: npt.ArrayLike | None = None,
    threshold: float | None = None,
    level: OpenShare = 0.95,
) -> Sensitivity:
    """Bound a target mean, with a sampling error that accounts for the estimation of the weights.

    It is cluster-robust if there are groups; the bounds are those of `bound_mean`.

    An end e = Σ_i π_i r_i h_i/R with r_i = 1/c_i and R = Σ_i π_i r_i has to first order the error
    of the mean of e + r_i (h_i − e)/R, and that is what ``weights.mean`` computes; with cells, e
    and R are those of the cell, and the error of its mass, if it has one, is counted. With Γ = 1
    the interval is that of ``weights.mean(values)``.

    Parameters
    ----------
    weights : the weights.
    values : (n,) h_i, finite, in the order of ``weights.id``.
    factor, by, threshold, level : as for `bound_mean`.
    cell : as for `bound_mean`; default: the strata of a `Strata` model, whose masses the target
        gives (with margins that were raked or surveyed these margins stay, too).
    """
    if cell is None and weights.estimation is not None:
        cell = weights.estimation.stratum
    for column in (values, cell, by):
        check_order(column, weights)
    value_n = check_values(values, weights.weight.size)

    def half_width(end: Extreme) -> float:
        moved_n = np.where(weights.weight > 0, end.mean_n + end.residual_n, value_n)
        low, high = weighted_mean(weights, moved_n, level).interval
        return math.inf if math.isinf(high) else (high - low) / 2

    bound = _bound(
        read_weight(weights.weight), value_n, factor, cell, by, threshold, level, half_width
    )
    if weights.estimation is None:
        return bound
    return replace(bound, population=weights.estimation.fitted.describe().population)


def _bound(
    weight_n: Floats,
    value_n: Floats,
    factor: float,
    cell: Any,
    by: Any,
    threshold: float | None,
    level: float,
    half_width: HalfWidth,
) -> Sensitivity:
    factor = float(factor)
    cell_n = (
        np.zeros(weight_n.size, dtype=np.int64)
        if cell is None
        else group_codes(cell, weight_n.size, "cell")[0]
    )
    by_n = None if by is None else group_codes(by, weight_n.size, "by")[0]
    up = order_values(weight_n, value_n, cell_n, by_n)
    down = order_values(weight_n, -value_n, cell_n, by_n)
    high, low = up.extreme(factor), down.extreme(factor)
    # Rounding must not put the value outside its range.
    value = float(weight_n @ value_n)
    ends = (min(-low.value, value), max(high.value, value))
    interval = (ends[0] - half_width(low), ends[1] + half_width(high))
    turning, safe = None, None
    if threshold is not None:
        threshold = float(threshold)
        side, aim = (up, threshold) if threshold >= value else (down, -threshold)
        turning = 1.0 if threshold == value else side.turning_factor(aim)
        safe = 1.0 if threshold == value else _safe_factor(side, aim, turning, half_width)
    weights = (weight_n * low.ratio_n, weight_n * high.ratio_n)
    scope = ("between images of one stratum" if cell is not None else "between images") + (
        " of different levels" if by is not None else ""
    )
    return Sensitivity(
        value, *ends, factor, interval, level, threshold, turning, safe, *weights, scope
    )


def _safe_factor(side: OrderedValues, aim: float, turning: float, half_width: HalfWidth) -> float:
    """Compute the smallest Γ at which the end and its sampling error reach ``aim``."""

    def excess(log_factor: float) -> float:
        extreme = side.extreme(math.exp(log_factor))
        return extreme.value + half_width(extreme) - aim

    if excess(0.0) >= 0.0:
        return 1.0
    upper = max(math.log(turning), _SAFE_TOLERANCE) if math.isfinite(turning) else 1.0
    while excess(upper) < 0.0:
        if upper >= math.log(1e6):
            return turning
        upper *= 2
    return min(solve_log_factor(excess, upper, _SAFE_TOLERANCE), turning)
