"""The equal error rate of compared pairs, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unskew.evaluation.pair_intervals import (
    MeasuredRates,
    PairFigure,
    find_end,
    measure_rates,
    student_quantile,
)
from unskew.evaluation.pair_rates import PairRates, PairSample
from unskew.records import Floats

# Points of the curve at least, and the largest correlation.
_POINTS, _MOST_ALIKE = 2000, 0.99


def equal_error_figures(
    sample: PairSample, cells: Sequence[PairRates], level: float
) -> list[PairFigure]:
    """Describe the equal error rate of every cell: e = FMR(t) = FNMR(t).

    Its error is (g δFMR + f δFNMR)/(f + g), −f and g the slopes of the two rates at t. The interval
    is a score interval: e is in it if at some threshold both may be e, r′ Σ⁻¹ r ≤ t² e (1 − e)
    with r = (FMR − e, FNMR − e), and Σ the covariance of the rates in parts of p (1 − p). Where one
    of the two is known far better, e follows the other along the curve.
    """
    known = [rates.impostor.rows.size > 0 and rates.genuine.rows.size > 0 for rates in cells]
    place = [
        rates.equal_error() if ok else (0.0, np.nan) for rates, ok in zip(cells, known, strict=True)
    ]
    measured = measure_rates(sample, cells, [(threshold, threshold) for threshold, _ in place])
    return [
        _figure(rates, measured, c, place[c][1], level) if known[c] else PairFigure(None)
        for c, rates in enumerate(cells)
    ]


def _figure(
    rates: PairRates, measured: MeasuredRates, c: int, rate: float, level: float
) -> PairFigure:
    axis_2j = np.eye(measured.value.size)[[2 * c, 2 * c + 1]]
    gap_t = rates.fmr(rates.thresholds) - rates.fnmr(rates.thresholds)
    part_2 = _parts(
        rates, gap_t, math.sqrt(measured.errors.combine(axis_2j[0] - axis_2j[1]).variance)
    )
    stderr = math.sqrt(measured.errors.combine(part_2 @ axis_2j).variance)
    spreads = [measured.steady[j] for j in (2 * c, 2 * c + 1)]
    # Variances in parts of p (1 − p), and the degrees of freedom of the combination.
    scale_2 = np.array([spread.error.variance / spread.base for spread in spreads])
    share_2 = part_2**2 * scale_2
    freedom = share_2.sum() ** 2 / sum(
        share**2 / spread.error.freedom for share, spread in zip(share_2, spreads, strict=True)
    )
    rho = min(max(measured.errors.correlation(*axis_2j), -_MOST_ALIKE), _MOST_ALIKE)
    limit = student_quantile(float(freedom), level) ** 2 * (1.0 - rho**2)
    # The curve between two thresholds is a line.
    at = np.arange(gap_t.size)
    fmr_t, fnmr_t = rates.fmr(rates.thresholds), rates.fnmr(rates.thresholds)
    if gap_t.size < _POINTS:
        fine = np.linspace(0, gap_t.size - 1, _POINTS)
        fmr_t, fnmr_t = (np.interp(fine, at, rate_t) for rate_t in (fmr_t, fnmr_t))

    def may_be(e: float) -> bool:
        r, s = (fmr_t - e) / math.sqrt(scale_2[0]), (fnmr_t - e) / math.sqrt(scale_2[1])
        return float((r**2 + s**2 - 2 * rho * r * s).min()) <= limit * e * (1.0 - e)

    low, high = (find_end(rate, end, may_be) for end in (0.0, 1.0))
    return PairFigure(rate, (low, high), stderr)


def _parts(rates: PairRates, gap_t: Floats, reach: float) -> Floats:
    """Compute (g, f)/(f + g): slopes where FMR − FNMR goes from + to − ``reach``."""
    low = rates.thresholds[max(int(np.searchsorted(-gap_t, -reach, side="right")) - 1, 0)]
    high = rates.thresholds[min(int(np.searchsorted(-gap_t, reach, side="left")), gap_t.size - 1)]
    fall = float(rates.fmr(low) - rates.fmr(high))
    rise = float(rates.fnmr(high) - rates.fnmr(low))
    return np.array([rise, fall]) / (fall + rise) if fall + rise > 0 else np.array([0.5, 0.5])
