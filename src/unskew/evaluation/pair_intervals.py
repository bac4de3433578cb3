"""Intervals of error rates: score intervals, differences, and thresholds that were estimated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import scipy.special

from unskew.evaluation.pair_rates import (
    Errors,
    PairRates,
    PairSample,
    RateError,
    ScoreTail,
    estimate_rate_errors,
)
from unskew.records import Floats

Interval = tuple[float, float]
# A rate with fewer errors than _ENOUGH borrows the spread between persons from the threshold that
# has _BORROWED times as many, and at least _LEAST.
_ENOUGH, _BORROWED, _LEAST = 200, 4, 30
# The variance of what persons share falls like this power of the rate: 1.4 to 1.8 of normal scores
# whose correlations through a person are 0.4 to 0.05, at rates of 0.1 to 4 %.
_SHARED = 1.6
# With fewer scores beyond it, a threshold is extrapolated.
_FEWEST = 5
_ROUNDING = 1e-12
_HALVINGS = 40


@dataclass(frozen=True)
class PairFigure:
    """One rate, or the difference of two.

    Attributes
    ----------
    value : of the weighted pairs: an estimate for the target; None where it does not exist.
    interval : two-sided.
    stderr : standard error.
    unweighted : the same with every pair counted once.
    """

    value: float | None
    interval: Interval | None = None
    stderr: float | None = None
    unweighted: float | None = None


def student_quantile(freedom: float, level: float) -> float:
    """Return the two-sided quantile of Student's t."""
    return float(scipy.special.stdtrit(max(freedom, 1.0), 0.5 + level / 2))


@dataclass(frozen=True)
class RateSpread:
    """How much a rate p would vary, whatever p is: v(p) = V (b/b₀)^1.6 + D b/b₀, b = p (1 − p).

    Attributes
    ----------
    error : V, of what persons share, and D, the noise of pairs, with their degrees of freedom.
    base : b₀, at which they were estimated.
    """

    error: RateError
    base: float

    def variance(self, rate: float, power: float = _SHARED) -> float:
        """Compute v(p)."""
        ratio = rate * (1.0 - rate) / self.base
        return float(self.error.of_units * ratio**power + self.error.of_dyads * ratio)

    def interval(self, value: float, level: float) -> Interval:
        """Return the p with (p̂ − p)² ≤ t² v(p): Wilson's interval (1927) where V = 0.

        Persons who are alike to many skew p̂ to the right, so that below it V falls like D.
        """
        limit = student_quantile(self.error.freedom, level) ** 2

        def may_be(p: float) -> bool:
            return (value - p) ** 2 <= limit * self.variance(p, 1.0 if p < value else _SHARED)

        return find_end(value, 0.0, may_be), find_end(value, 1.0, may_be)


def find_end(inside: float, outside: float, holds: Callable[[float], bool]) -> float:
    """Find where a condition ends to hold, between a number where it does and another one."""
    if holds(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def gap_interval(
    first: float, of_first: Interval, second: float, of_second: Interval, correlation: float
) -> Interval:
    """Return the interval of first − second from those of the two (MOVER, Zou and Donner 2008)."""
    gap = first - second

    below = first - of_first[0], of_second[1] - second
    above = of_first[1] - first, second - of_second[0]
    low, high = (
        math.sqrt(max(one**2 + other**2 - 2.0 * correlation * one * other, 0.0))
        for one, other in (below, above)
    )
    return max(gap - low, -1.0), min(gap + high, 1.0)


@dataclass(frozen=True, eq=False)
class MeasuredRates:
    """FMR and FNMR of C cells at one threshold: FMR₁, FNMR₁, FMR₂, FNMR₂, …, with their errors.

    Attributes
    ----------
    value : (2C,) NaN where a cell has no pairs of the kind.
    errors : how they vary together.
    steady : (2C,) how each varies, with what few errors do not show, see `measure_rates`.
    """

    value: Floats
    errors: Errors = field(repr=False)
    steady: tuple[RateSpread, ...] = field(repr=False)

    def figure(self, j: int, level: float) -> PairFigure:
        """Describe rate j at a given threshold."""
        value = float(self.value[j])
        if not np.isfinite(value):
            return PairFigure(None)
        interval = self.steady[j].interval(value, level)
        stderr = math.sqrt(self.errors.combine(np.eye(self.value.size)[j]).variance)
        return PairFigure(value, interval, stderr)

    def figures(
        self, cells: Sequence[PairRates], row_jj: Floats, fmr: float | None, level: float
    ) -> list[PairFigure]:
        """Describe all rates, at a given threshold or at that estimated for FMR₀ = ``fmr``.

        Of an estimated threshold the distance of a bound from the rate has two parts: that at a
        given threshold, and how far the rate goes while the threshold goes through its own
        interval. They add up as the two errors are correlated (MOVER, Zou and Donner 2008).
        ``row_jj``: of `follow_threshold`.
        """
        axis_jj = np.eye(self.value.size)
        figures = [self.figure(j, level) for j in range(self.value.size)]
        if not fmr or fmr >= 1.0:  # beyond all scores the threshold moves nothing
            return figures
        ends = self._threshold_interval(cells[0], fmr, level)
        end_2j = np.array([rates_at(cells, np.full((len(cells), 2), end)) for end in ends])
        for j, figure in enumerate(figures):
            if j == 0 or figure.value is None or figure.interval is None:
                continue
            shared = self.errors.correlation(axis_jj[0], axis_jj[j]) * float(np.sign(row_jj[j, 0]))
            moved = (
                figure.value - float(end_2j[:, j].max()),
                figure.value - float(end_2j[:, j].min()),
            )
            low, high = gap_interval(figure.value, figure.interval, 0.0, moved, -shared)
            stderr = math.sqrt(self.errors.combine(row_jj[j]).variance)
            figures[j] = PairFigure(figure.value, (max(low, 0.0), high), stderr)
        return figures

    def _threshold_interval(self, rates: PairRates, fmr: float, level: float) -> Interval:
        """Return the thresholds that may have the false match rate ``fmr``.

        At the true one the observed rate varies about ``fmr`` like a gamma variable with the
        variance of that rate: the interval has the thresholds at which it is no unusual value.
        Where hardly any score is beyond, the tail is taken to be exponential.
        """
        part = float(scipy.special.ndtr(-student_quantile(self.steady[0].error.freedom, level)))
        shape = fmr**2 / self.steady[0].variance(fmr)
        few, many = (
            fmr / shape * float(scipy.special.gammaincinv(shape, p)) for p in (part, 1.0 - part)
        )
        high = rates.threshold_at(few)
        if rates.impostor.score.size - np.searchsorted(rates.impostor.score, high) < _FEWEST:
            high = max(high, _extrapolate(rates.impostor, rates.threshold_at(fmr), few))
        return rates.threshold_at(min(many, 1.0)), high

    def gap(
        self, first: PairFigure, second: PairFigure, first_j: Floats, second_j: Floats
    ) -> PairFigure:
        """Describe first − second, whose errors are those of two combinations of rates."""
        if first.value is None or second.value is None:
            return PairFigure(None)
        assert first.interval is not None
        assert second.interval is not None
        correlation = self.errors.correlation(first_j, second_j)
        interval = gap_interval(
            first.value, first.interval, second.value, second.interval, correlation
        )
        stderr = math.sqrt(self.errors.combine(first_j - second_j).variance)
        return PairFigure(first.value - second.value, interval, stderr)


def rates_at(cells: Sequence[PairRates], limit_c2: Floats) -> Floats:
    """Compute (2C,) FMR and FNMR of every cell, NaN where it has no pairs of the kind."""
    rate = [
        (rates.fmr(limits[0]), rates.fnmr(limits[1]))
        for rates, limits in zip(cells, limit_c2, strict=True)
    ]
    value_j = np.asarray(rate, dtype=np.float64).reshape(-1)
    empty = [(not rates.impostor.rows.size, not rates.genuine.rows.size) for rates in cells]
    return np.where(np.reshape(empty, -1), np.nan, value_j)


def measure_rates(
    sample: PairSample, cells: Sequence[PairRates], threshold: npt.ArrayLike
) -> MeasuredRates:
    """Measure FMR and FNMR of every cell at a threshold, or at (C, 2) one for each.

    Few errors hardly show how much persons differ: a person who is mistaken for many others may be
    among them, or not. So where a rate rests on k < 200 effective errors, its error is a mean of
    its own, weighted k/200, and of that at the milder threshold with max(30, 4 k) of them, relative
    to the rate. And the noise v of pairs is no less, relative to the rate y, than
    (v + E e²/2)/(y + E e/2), e the next error: as if half an error more had been seen, of a pair
    of persons drawn by its share (Fay and Feuer 1997 add one of the largest weight to the upper
    bound of a standardised rate, Fay and Kim 2017 half of it). Where pairs of persons have equal
    weights, and err independently, that is v. Of k < 200 effective errors 1 − k/200 of it is added.
    """
    limit_c2 = np.broadcast_to(np.asarray(threshold, dtype=np.float64), (len(cells), 2))
    value_j, errors = rates_at(cells, limit_c2), estimate_rate_errors(sample, cells, limit_c2)
    tails = [tail for rates in cells for tail in (rates.impostor, rates.genuine)]
    milder = [
        _milder(tail, limit, j % 2 == 0)
        for j, (tail, limit) in enumerate(zip(tails, limit_c2.reshape(-1).tolist(), strict=True))
    ]
    mild_c2 = np.array([limit for limit, _ in milder]).reshape(-1, 2)
    mild_j, mild_errors = rates_at(cells, mild_c2), errors
    if not np.array_equal(mild_c2, limit_c2):
        mild_errors = estimate_rate_errors(sample, cells, mild_c2)
    steady = []
    for j, axis_j in enumerate(np.eye(value_j.size)):
        own, mild = errors.combine(axis_j), mild_errors.combine(axis_j)
        binomial, of_mild = value_j[j] * (1 - value_j[j]), mild_j[j] * (1 - mild_j[j])
        spread = _spread(sample, tails[j], mild, of_mild)
        if binomial > 0 and of_mild > 0:
            known = min(milder[j][1] / _ENOUGH, 1.0)
            own = _mix(own, known, mild, binomial / of_mild)
            rare = min(value_j[j], 1 - value_j[j])
            one, square = mild_errors.next_error[:, j]
            least = (own.of_dyads + (1 - rare) * square / 2) * rare / (rare + one / 2)
            unseen = max(float(least) - own.of_dyads, 0.0)
            own = replace(own, of_dyads=own.of_dyads + (1.0 - known) * unseen)
            if own.variance > (_ROUNDING * binomial) ** 2:
                spread = RateSpread(own, float(binomial))
        steady.append(spread)
    return MeasuredRates(value_j, errors, tuple(steady))


def _spread(sample: PairSample, tail: ScoreTail, mild: RateError, base: float) -> RateSpread:
    """Take the variance from a milder threshold; n pairs have no less than n independent ones.

    Where pairs do not differ at all, each unit counts once.
    """
    if not tail.rows.size:
        return RateSpread(RateError(0.0, 1.0, 1.0, 1.0), 1.0)
    if base > 0 and mild.variance > (_ROUNDING * base) ** 2:
        least = max(base / tail.rows.size - mild.of_units, mild.of_dyads)
        return RateSpread(replace(mild, of_dyads=least), base)
    noise = 1.0 / effective_units(sample, tail)
    return RateSpread(RateError(0.0, noise, mild.units, mild.dyads), 1.0)


def _mix(own: RateError, share: float, mild: RateError, ratio: float) -> RateError:
    """Average two errors, the second scaled to another rate.

    Both are of the same persons, so that the errors of the two variances add up, not their squares.
    """
    rest = 1.0 - share
    return RateError(
        share * own.of_units + rest * mild.of_units * ratio**_SHARED,
        share * own.of_dyads + rest * mild.of_dyads * ratio,
        1.0 / (share / math.sqrt(own.units) + rest / math.sqrt(mild.units)) ** 2,
        own.dyads,
    )


def _extrapolate(tail: ScoreTail, threshold: float, fmr: float) -> float:
    """Find the threshold of a rate in an exponential tail, by the mean excess over a milder one."""
    mild, _ = _milder(tail, threshold, True)
    first = int(np.searchsorted(tail.score, mild))
    rate = float(tail.tail[first])
    if not 0 < fmr < rate:
        return threshold
    excess = float(-np.diff(tail.tail[first:]) @ (tail.score[first:] - mild)) / rate
    return mild + excess * math.log(rate / fmr)


def _milder(tail: ScoreTail, threshold: float, above: bool) -> tuple[float, float]:
    """Find the threshold with max(30, 4 k) effective errors, where this one has k < 200, and k.

    Of a rate above one half the pairs that do not err are counted instead.
    """
    n, below = tail.score.size, int(np.searchsorted(tail.score, threshold))
    above = above if (tail.tail[below] <= 0.5) == above else not above
    errors = n - below if above else below
    # Kish's number of the m most extreme pairs, m = 1 … n.
    weight_m = -np.diff(tail.tail)[:: -1 if above else 1]
    effective_m = np.cumsum(weight_m) ** 2 / np.maximum(np.cumsum(weight_m**2), 1e-300)
    known = float(effective_m[errors - 1]) if errors else 0.0
    if known >= _ENOUGH:
        return threshold, known
    enough_m = effective_m >= max(_LEAST, _BORROWED * known)
    wanted = min(int(np.argmax(enough_m)) + 1 if enough_m.any() else n, n // 2)
    if wanted <= errors:
        return threshold, known
    return float(tail.score[n - wanted] if above else tail.score[wanted]), known


def follow_threshold(cells: Sequence[PairRates], measured: MeasuredRates, fmr: float) -> Floats:
    """Count that the threshold of a wanted FMR was estimated from the pairs of cell 0: (2C, 2C).

    Row j holds the combination of rates whose error is that of rate j at the threshold t with
    FMR₀(t) = ``fmr``: rate_j + κ_j FMR₀, κ_j = −(d rate_j/dt)/(d FMR₀/dt). The ratio of slopes is
    taken over the thresholds at which FMR₀ is one standard error away (Woodruff 1952). Row 0 stays
    the error of FMR₀ at this threshold.
    """
    n_rates = measured.value.size
    row_jj = np.eye(n_rates)
    reach = math.sqrt(measured.errors.combine(row_jj[0]).variance)
    low, high = (cells[0].threshold_at(max(fmr + step, 0.0)) for step in (reach, -reach))
    fall = float(cells[0].fmr(low) - cells[0].fmr(high))
    if not fall > 0:
        return row_jj
    window = [np.full((len(cells), 2), limit) for limit in (low, high)]
    slope_j = np.nan_to_num((rates_at(cells, window[1]) - rates_at(cells, window[0])) / fall)
    row_jj[1:, 0] += slope_j[1:]
    return row_jj


def effective_units(sample: PairSample, tail: ScoreTail) -> float:
    """Compute Kish's number of units, each by the weight of the pairs that it is in."""
    weight = sample.weight[tail.rows]
    first, second = sample.first[tail.rows], sample.second[tail.rows]
    total_u = np.bincount(first, weights=weight, minlength=sample.stratum.size)
    other = first != second
    total_u += np.bincount(second[other], weights=weight[other], minlength=total_u.size)
    return float(total_u.sum() ** 2 / (total_u @ total_u))
