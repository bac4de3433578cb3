"""The figures of every set of pairs: all of them, and those of each subgroup; the gaps between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from unskew.evaluation.metrics import FEW_EFFECTIVE
from unskew.evaluation.pair_equal_error import equal_error_figures
from unskew.evaluation.pair_intervals import (
    MeasuredRates,
    PairFigure,
    effective_units,
    follow_threshold,
    measure_rates,
    rates_at,
)
from unskew.evaluation.pair_rates import PairRates, PairSample, make_rates
from unskew.records import Floats, Ints
from unskew.report.summary.privacy import SMALLEST_CELL

RATES = ("fmr", "fnmr")
# False match rates at which the ROC is drawn, in every decade.
_GRID = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


@dataclass(frozen=True)
class PairPoint:
    """Both error rates at one threshold; ``target_fmr`` is the rate that it was chosen for."""

    threshold: float
    target_fmr: float | None
    fmr: PairFigure
    fnmr: PairFigure


@dataclass(frozen=True)
class RocPoint:
    """A point of the ROC: FNMR at a false match rate, with its interval where there is one."""

    fmr: float
    fnmr: float
    threshold: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class PairCell:
    """The pairs of one subgroup, or all of them.

    Attributes
    ----------
    name : of the subgroup.
    genuine, impostor : number of pairs; None where privacy withholds it.
    persons : Kish's effective number of units (persons) behind the weaker of the two kinds.
    few : are they fewer than 30? Then figures and intervals are rough.
    equal_error : the equal error rate.
    points : FMR and FNMR at every threshold.
    roc : the receiver operating characteristic.
    """

    name: str
    genuine: int | None
    impostor: int | None
    persons: float | None
    few: bool
    equal_error: PairFigure
    points: tuple[PairPoint, ...]
    roc: tuple[RocPoint, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class PairGap:
    """The difference of a rate between two subgroups, first − second, at one threshold.

    Of the largest of several gaps the interval counts that it was chosen: it is that of all gaps
    together (Bonferroni).
    """

    rate: str
    first: str
    second: str
    threshold: float
    target_fmr: float | None
    figure: PairFigure


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold; ``target_fmr`` is the false match rate that it was chosen for, if any."""

    threshold: float
    target_fmr: float | None = None


class PairJudge:
    """Judges sets of pairs at the same thresholds.

    Parameters
    ----------
    sample : all pairs.
    points : the thresholds.
    level : coverage of the intervals.
    private : withhold rates that rest on fewer than ten units, and the ROC of subgroups.
    sign : −1 where scores are negated distances; thresholds are shown as distances then.
    """

    def __init__(
        self,
        sample: PairSample,
        points: Sequence[OperatingPoint],
        level: float,
        private: bool = False,
        sign: float = 1.0,
    ) -> None:
        self.sample, self.points, self.level = sample, points, level
        self.private, self.sign = private, sign
        self.whole = make_rates(sample, np.arange(sample.score.size))

    def judge(
        self, names: Sequence[str], rows: Sequence[Ints]
    ) -> tuple[tuple[PairCell, ...], tuple[PairGap, ...], tuple[PairGap, ...]]:
        """Judge the pairs in ``rows``: (cells, all gaps between them, the largest of each rate)."""
        cells = [self.whole, *(self._shown(rates) for rates in map(self._rates, rows))]
        plain = [self._plain(rates) for rates in cells]
        points: list[list[PairPoint]] = [[] for _ in cells]
        gaps: list[PairGap] = []
        largest: list[PairGap] = []
        for point in self.points:
            measured = measure_rates(self.sample, cells, point.threshold)
            row_jj = np.eye(measured.value.size)
            if point.target_fmr is not None:
                row_jj = follow_threshold(cells, measured, point.target_fmr)
            figures = measured.figures(cells, row_jj, point.target_fmr, self.level)
            alike_j = rates_at(plain, np.full((len(cells), 2), point.threshold))
            figures = [
                replace(figure, unweighted=None if figure.value is None else float(alike))
                for figure, alike in zip(figures, alike_j, strict=True)
            ]
            for c, of_cell in enumerate(points):
                both = figures[2 * c], figures[2 * c + 1]
                of_cell.append(PairPoint(self.sign * point.threshold, point.target_fmr, *both))
            own, together = self._gaps(names, measured, cells, row_jj, figures, point)
            gaps, largest = gaps + own, largest + together
        described = self._cells(("all", *names), cells, plain, points)
        return described, tuple(gaps), tuple(largest)

    def _rates(self, rows: Ints) -> PairRates:
        return make_rates(self.sample, rows)

    def _plain(self, rates: PairRates) -> PairRates:
        rows = np.concatenate([rates.impostor.rows, rates.genuine.rows])
        return make_rates(self.sample, rows, np.ones(self.sample.weight.size))

    def _shown(self, rates: PairRates) -> PairRates:
        """Return the rates that privacy allows to show: those of ten units or more."""
        if not self.private:
            return rates
        nothing = np.zeros(0, dtype=np.int64)
        rows = [
            tail.rows if _count_units(self.sample, tail.rows) >= SMALLEST_CELL else nothing
            for tail in (rates.impostor, rates.genuine)
        ]
        return make_rates(self.sample, np.concatenate(rows))

    def _gaps(
        self,
        names: Sequence[str],
        measured: MeasuredRates,
        cells: Sequence[PairRates],
        row_jj: Floats,
        figures: Sequence[PairFigure],
        point: OperatingPoint,
    ) -> tuple[list[PairGap], list[PairGap]]:
        """Compare every two subgroups: (each gap by itself, the largest of each rate)."""
        gaps, largest = [], []
        for kind, rate in enumerate(RATES):
            known = [
                (name, 2 * c + kind)
                for c, name in enumerate(names, start=1)
                if figures[2 * c + kind].value is not None
            ]
            both = list(combinations(known, 2))
            if not both:
                continue
            strict = [
                replace(figure, unweighted=own.unweighted)
                for figure, own in zip(
                    measured.figures(
                        cells, row_jj, point.target_fmr, 1.0 - (1.0 - self.level) / len(both)
                    ),
                    figures,
                    strict=True,
                )
            ]
            compared = [
                [self._gap(rate, one, other, measured, row_jj, each, point) for one, other in both]
                for each in (figures, strict)
            ]
            gaps += compared[0]
            widest = int(np.argmax([abs(gap.figure.value or 0.0) for gap in compared[1]]))
            largest.append(compared[1][widest])
        return gaps, largest

    def _gap(
        self,
        rate: str,
        one: tuple[str, int],
        other: tuple[str, int],
        measured: MeasuredRates,
        row_jj: Floats,
        figures: Sequence[PairFigure],
        point: OperatingPoint,
    ) -> PairGap:
        """Subtract the smaller of two rates from the larger one."""
        values = [figures[j].value or 0.0 for _, j in (one, other)]
        (first, i), (second, j) = (one, other) if values[0] >= values[1] else (other, one)
        figure = measured.gap(figures[i], figures[j], row_jj[i], row_jj[j])
        plain = figures[i].unweighted, figures[j].unweighted
        if plain[0] is not None and plain[1] is not None:
            figure = replace(figure, unweighted=plain[0] - plain[1])
        threshold = self.sign * point.threshold
        return PairGap(rate, first, second, threshold, point.target_fmr, figure)

    def _cells(
        self,
        names: Sequence[str],
        cells: Sequence[PairRates],
        plain: Sequence[PairRates],
        points: Sequence[Sequence[PairPoint]],
    ) -> tuple[PairCell, ...]:
        described = []
        equal = equal_error_figures(self.sample, cells, self.level)
        for c, (name, rates) in enumerate(zip(names, cells, strict=True)):
            tails = (rates.genuine, rates.impostor)
            sizes = [
                None if self.private and c and not tail.rows.size else tail.rows.size
                for tail in tails
            ]
            units = [effective_units(self.sample, tail) for tail in tails if tail.rows.size]
            figure = equal[c]
            if figure.value is not None:
                figure = replace(figure, unweighted=plain[c].equal_error()[1])
            persons = min(units) if len(units) == 2 else None
            if self.private and persons is not None:
                persons = float(f"{persons:.2g}")
            roc = self._roc(rates) if len(units) == 2 and not (self.private and c) else ()
            described.append(
                PairCell(
                    name,
                    sizes[0],
                    sizes[1],
                    persons,
                    persons is None or persons < FEW_EFFECTIVE,
                    figure,
                    tuple(points[c]),
                    roc,
                )
            )
        return tuple(described)

    def draw_roc(self) -> tuple[RocPoint, ...]:
        """Return the ROC of all pairs, every point with the interval of FNMR at its FMR."""
        points = []
        for point in self._roc(self.whole):
            threshold = self.sign * point.threshold
            measured = measure_rates(self.sample, [self.whole], threshold)
            row_jj = follow_threshold([self.whole], measured, point.fmr)
            figure = measured.figures([self.whole], row_jj, point.fmr, self.level)[1]
            points.append(replace(point, interval=figure.interval))
        return tuple(points)

    def _roc(self, rates: PairRates) -> tuple[RocPoint, ...]:
        """Read the ROC at false match rates of a grid, down to that of a single pair."""
        smallest = 1.0 / rates.impostor.rows.size
        decades = range(int(np.floor(np.log10(smallest))), 0)
        wanted = [factor * 10.0**decade for decade in decades for factor in _GRID]
        points: dict[float, RocPoint] = {}
        for target in [*(rate for rate in wanted if rate >= smallest), 1.0]:
            threshold = rates.threshold_at(target)
            fmr, fnmr = float(rates.fmr(threshold)), float(rates.fnmr(threshold))
            points.setdefault(threshold, RocPoint(fmr, fnmr, self.sign * threshold))
        return tuple(sorted(points.values(), key=lambda point: (point.fmr, -point.fnmr)))


def _count_units(sample: PairSample, rows: Ints) -> int:
    return int(np.unique(np.concatenate([sample.first[rows], sample.second[rows]])).size)
