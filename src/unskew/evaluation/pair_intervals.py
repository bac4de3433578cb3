"""Intervals of error rates: score intervals, differences, and thresholds that were estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
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
# With fewer scores beyond it, a threshold is extrapolated.
_FEWEST = 5
_ROUNDING = 1e-12


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


def rate_interval(value: float, error: RateError, level: float) -> Interval:
    """Return the interval of a rate whose error has two parts: of dyads, and of units.

    Noise of dyads is that of counts: its interval is Wilson's (1927). What persons share multiplies
    a rate (some are alike to many others): its interval is symmetric in the logit. The squares of
    their distances from the rate add up (MOVER, Zou and Donner 2008).
    """
    binomial = value * (1.0 - value)
    n = binomial / error.of_dyads if error.of_dyads > 0 else math.inf
    one = count_interval(value, n, student_quantile(error.dyads, level))
    step = student_quantile(error.units, level) * math.sqrt(error.of_units) / binomial
    logit = math.log(value) - math.log1p(-value)
    other = (scipy.special.expit(logit - step), scipy.special.expit(logit + step))
    low = value - math.hypot(value - one[0], value - other[0])
    high = value + math.hypot(one[1] - value, other[1] - value)
    return max(low, 0.0), min(high, 1.0)


def count_interval(value: float, n: float, quantile: float) -> Interval:
    """Return Wilson's interval of a share of n: the p with (p̂ − p)² ≤ t² p (1 − p)/n."""
    if not n > 0:
        return 0.0, 1.0
    c = quantile**2 / n
    centre = (value + c / 2) / (1.0 + c)
    reach = math.sqrt(max(c * value * (1.0 - value) + c**2 / 4, 0.0)) / (1.0 + c)
    return (
        0.0 if value <= _ROUNDING else max(centre - reach, 0.0),
        1.0 if value >= 1.0 - _ROUNDING else min(centre + reach, 1.0),
    )


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
    more_of_units, more_of_dyads : (2C,) what a rate of few errors is short of, see `measure_rates`.
    size : (2C,) the number of independent pairs that would vary as these do: for rates of 0 and 1.
    """

    value: Floats
    errors: Errors = field(repr=False)
    more_of_units: Floats = field(repr=False)
    more_of_dyads: Floats = field(repr=False)
    size: Floats = field(repr=False)

    def figure(self, value: float, combination_j: Floats, level: float) -> PairFigure:
        """Describe a rate whose error is that of Σ_j a_j rate_j."""
        if not np.isfinite(value):
            return PairFigure(None)
        error = self.errors.combine(combination_j)
        stderr = math.sqrt(error.variance)
        binomial = value * (1.0 - value)
        if binomial <= _ROUNDING or error.variance <= (_ROUNDING * binomial) ** 2:
            quantile = student_quantile(error.dyads, level)
            size = float(self.size[combination_j != 0].min())
            return PairFigure(value, count_interval(value, size, quantile), stderr)
        whole = self._whole_error(error, combination_j)
        return PairFigure(value, rate_interval(value, whole, level), stderr)

    def _whole_error(self, error: RateError, combination_j: Floats) -> RateError:
        """Add what rates of few errors are short of."""
        square_j = combination_j**2
        return replace(
            error,
            of_units=error.of_units + float(square_j @ self.more_of_units),
            of_dyads=error.of_dyads + float(square_j @ self.more_of_dyads),
        )

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
        figures = [
            self.figure(float(value), axis_j, level)
            for value, axis_j in zip(self.value, axis_jj, strict=True)
        ]
        if not fmr:  # at a rate of 0 the threshold is above every score, and moves nothing
            return figures
        ends = self._threshold_interval(cells[0], fmr, level)
        end_2j = np.array([rates_at(cells, np.full((len(cells), 2), end)) for end in ends])
        for j, figure in enumerate(figures):
            if j == 0 or figure.value is None or figure.interval is None:
                continue
            shared = self._correlation(axis_jj[0], axis_jj[j]) * float(np.sign(row_jj[j, 0]))
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
        axis_j = np.eye(self.value.size)[0]
        error = self._whole_error(self.errors.combine(axis_j), axis_j)
        ratio = fmr / max(float(self.value[0]), _ROUNDING)
        units, dyads = error.of_units * ratio**2, error.of_dyads * ratio
        if not units + dyads > 0:
            dyads = fmr / float(self.size[0])
        square = units * student_quantile(error.units, level) ** 2
        square += dyads * student_quantile(error.dyads, level) ** 2
        part = float(scipy.special.ndtr(-math.sqrt(square / (units + dyads))))
        shape = fmr**2 / (units + dyads)
        few, many = (
            fmr / shape * float(scipy.special.gammaincinv(shape, p)) for p in (part, 1.0 - part)
        )
        high = rates.threshold_at(few)
        if rates.impostor.score.size - np.searchsorted(rates.impostor.score, high) < _FEWEST:
            high = max(high, _extrapolate(rates.impostor, rates.threshold_at(fmr), few))
        return rates.threshold_at(min(many, 1.0)), high

    def _correlation(self, first_j: Floats, second_j: Floats) -> float:
        """Compute the correlation of the errors of two combinations of rates."""
        both = math.prod(self.errors.combine(row_j).variance for row_j in (first_j, second_j))
        shared = self.errors.covariance(first_j, second_j)
        return float(np.clip(shared / math.sqrt(both), -1.0, 1.0)) if both > 0 else 0.0

    def gap(
        self, first: PairFigure, second: PairFigure, first_j: Floats, second_j: Floats
    ) -> PairFigure:
        """Describe first − second, whose errors are those of two combinations of rates."""
        if first.value is None or second.value is None:
            return PairFigure(None)
        assert first.interval is not None
        assert second.interval is not None
        correlation = self._correlation(first_j, second_j)
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
    sample: PairSample, cells: Sequence[PairRates], threshold: float
) -> MeasuredRates:
    """Measure FMR and FNMR of every cell at a threshold.

    Few errors hardly show how much persons differ: a person who is mistaken for many others may be
    among them, or not. So where a rate rests on k < 200 effective errors, the spread between
    persons is no less, relative to the rate, than at the milder threshold with max(30, 4 k) of
    them; and the noise of a pair no less than there. Nor is that noise v less, relative to the rate
    y, than (v + E s²/2)/(y + E s/2), s the share of a dyad drawn by its share: as if half an error
    more had been seen (Fay and Feuer 1997 add one of the largest weight to the upper bound of a
    standardised rate, Fay and Kim 2017 half of it). Where all shares are 1/n, that is v.
    """
    limit_c2 = np.full((len(cells), 2), threshold)
    value_j, errors = rates_at(cells, limit_c2), estimate_rate_errors(sample, cells, limit_c2)
    mild_c2 = np.array(
        [
            (_milder(rates.impostor, threshold, True), _milder(rates.genuine, threshold, False))
            for rates in cells
        ]
    )
    mild_j = rates_at(cells, mild_c2)
    mild_errors = errors
    if not np.array_equal(mild_c2, limit_c2):
        mild_errors = estimate_rate_errors(sample, cells, mild_c2)
    more, size = [], []
    for j, axis_j in enumerate(np.eye(value_j.size)):
        own, mild = errors.combine(axis_j), mild_errors.combine(axis_j)
        tail = cells[j // 2].genuine if j % 2 else cells[j // 2].impostor
        binomial, of_mild = value_j[j] * (1 - value_j[j]), mild_j[j] * (1 - mild_j[j])
        varies = of_mild > 0 and mild.variance > (_ROUNDING * of_mild) ** 2
        size.append(min(of_mild / mild.variance, tail.rows.size) if varies else 1.0)
        if not (binomial > 0 and of_mild > 0):
            more.append((0.0, 0.0))
            continue
        ratio = binomial / of_mild
        rare, (one, square) = min(value_j[j], 1 - value_j[j]), errors.next_error[:, j]
        next_error = (own.of_dyads + (1 - rare) * square / 2) * rare / (rare + one / 2)
        of_dyads = max(mild.of_dyads * ratio, next_error, own.of_dyads)
        of_units = max(mild.of_units * ratio**2, own.of_units)
        more.append((of_units - own.of_units, of_dyads - own.of_dyads))
    more_j2 = np.array(more)
    return MeasuredRates(value_j, errors, more_j2[:, 0], more_j2[:, 1], np.array(size))


def _extrapolate(tail: ScoreTail, threshold: float, fmr: float) -> float:
    """Find the threshold of a rate in an exponential tail, by the mean excess over a milder one."""
    mild = _milder(tail, threshold, True)
    first = int(np.searchsorted(tail.score, mild))
    rate = float(tail.tail[first])
    if not 0 < fmr < rate:
        return threshold
    excess = float(-np.diff(tail.tail[first:]) @ (tail.score[first:] - mild)) / rate
    return mild + excess * math.log(rate / fmr)


def _milder(tail: ScoreTail, threshold: float, above: bool) -> float:
    """Find the threshold with max(30, 4 k) effective errors, where this one has k < 200."""
    n, below = tail.score.size, int(np.searchsorted(tail.score, threshold))
    errors = n - below if above else below
    # Kish's number of the m most extreme pairs, m = 1 … n.
    weight_m = -np.diff(tail.tail)[:: -1 if above else 1]
    effective_m = np.cumsum(weight_m) ** 2 / np.maximum(np.cumsum(weight_m**2), 1e-300)
    known = float(effective_m[errors - 1]) if errors else 0.0
    if known >= _ENOUGH:
        return threshold
    enough_m = effective_m >= max(_LEAST, _BORROWED * known)
    wanted = min(int(np.argmax(enough_m)) + 1 if enough_m.any() else n, n // 2)
    if wanted <= errors:
        return threshold
    return float(tail.score[n - wanted] if above else tail.score[wanted])


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


def equal_error_figures(
    sample: PairSample, cells: Sequence[PairRates], level: float
) -> list[PairFigure]:
    """Describe the equal error rate of every cell: e = FMR(t) = FNMR(t).

    Its error is (g δFMR + f δFNMR)/(f + g), −f and g the slopes of the two rates at t, taken over
    the thresholds at which their difference is one standard error away from 0.
    """
    known = [rates.impostor.rows.size > 0 and rates.genuine.rows.size > 0 for rates in cells]
    place = [
        rates.equal_error() if ok else (0.0, np.nan) for rates, ok in zip(cells, known, strict=True)
    ]
    limit_c2 = np.array([(threshold, threshold) for threshold, _ in place])
    errors = estimate_rate_errors(sample, cells, limit_c2)
    size_j = np.array([_unit_size(sample, tail) for r in cells for tail in (r.impostor, r.genuine)])
    zero_j = np.zeros(2 * len(cells))
    measured = MeasuredRates(rates_at(cells, limit_c2), errors, zero_j, zero_j, size_j)
    figures = []
    for c, (rates, (_, rate)) in enumerate(zip(cells, place, strict=True)):
        if not known[c]:
            figures.append(PairFigure(None))
            continue
        gap_j = zero_j.copy()
        gap_j[[2 * c, 2 * c + 1]] = 1.0, -1.0
        fall, rise = _slopes(rates, math.sqrt(errors.combine(gap_j).variance))
        combination_j = zero_j.copy()
        combination_j[[2 * c, 2 * c + 1]] = rise / (fall + rise), fall / (fall + rise)
        figures.append(measured.figure(rate, combination_j, level))
    return figures


def _slopes(rates: PairRates, reach: float) -> tuple[float, float]:
    """Compute how much FMR falls, and FNMR rises, where their difference goes from + to − reach."""
    gap = rates.fmr(rates.thresholds) - rates.fnmr(rates.thresholds)
    last = gap.size - 1
    low = rates.thresholds[max(int(np.searchsorted(-gap, -reach, side="right")) - 1, 0)]
    high = rates.thresholds[min(int(np.searchsorted(-gap, reach, side="left")), last)]
    fall = float(rates.fmr(low) - rates.fmr(high))
    rise = float(rates.fnmr(high) - rates.fnmr(low))
    return (fall, rise) if fall + rise > 0 else (0.5, 0.5)


def _unit_size(sample: PairSample, tail: ScoreTail) -> float:
    """Compute Kish's number of the units behind pairs of one kind."""
    return effective_units(sample, tail) if tail.rows.size else 1.0


def effective_units(sample: PairSample, tail: ScoreTail) -> float:
    """Compute Kish's number of units, each by the weight of the pairs that it is in."""
    weight = sample.weight[tail.rows]
    first, second = sample.first[tail.rows], sample.second[tail.rows]
    total_u = np.bincount(first, weights=weight, minlength=sample.stratum.size)
    other = first != second
    total_u += np.bincount(second[other], weights=weight[other], minlength=total_u.size)
    return float(total_u.sum() ** 2 / (total_u @ total_u))
