"""How often does a comparison of two images err on the target? `evaluate_pairs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.engine.arguments import Bins, OpenShare, checked
from unskew.errors import ConfigError, first_few
from unskew.evaluation.bootstrap import Sampled
from unskew.evaluation.matching import Judged, check_weights, choose_images
from unskew.evaluation.metrics import FEW_EFFECTIVE
from unskew.evaluation.pair_cells import OperatingPoint, PairCell, PairGap, PairJudge
from unskew.evaluation.pair_intervals import PairFigure
from unskew.evaluation.pair_rates import PairSample
from unskew.evaluation.pair_table import (
    JoinedPairs,
    PairCoverage,
    join_pairs,
    linked_images,
    read_pairs,
    weigh_pairs,
    withhold_counts,
)
from unskew.evaluation.predictions import attributes_of
from unskew.evaluation.subgroups import View, view_by, withhold_cells
from unskew.files.plain_json import json_value
from unskew.records import Ints
from unskew.records.clustered_mean import effective_size
from unskew.report.summary.privacy import SMALLEST_CELL
from unskew.splits.folds import join_units, unit_codes
from unskew.weigh.sampling_units import find_units

if TYPE_CHECKING:
    import pandas as pd

Within = Literal["both", "either"]
GenuineBy = Literal["person", "image"]
# False match rates at which thresholds are chosen, where neither they nor thresholds are given.
FALSE_MATCH_RATES = (1e-2, 1e-3)
# Every two subgroups are compared: with more there are too many gaps to read.
_MOST_SUBGROUPS = 60
# A threshold that fewer impostor pairs exceed is hardly known.
_FEW_MATCHES = 10


@dataclass(frozen=True)
class PairBreakdown:
    """The subgroups of one column.

    Attributes
    ----------
    column : its name, or several joined by ``*``.
    cells : one for each subgroup.
    gaps : every two subgroups, for each rate and threshold, the larger rate first.
    largest : for each rate and threshold the largest of these gaps, with an interval that counts
        that it was chosen.
    withheld : subgroups that are not shown, to protect privacy.
    """

    column: str
    cells: tuple[PairCell, ...]
    gaps: tuple[PairGap, ...]
    largest: tuple[PairGap, ...]
    withheld: int = 0


@dataclass(frozen=True)
class PairEvaluation:
    """A system that compares images, judged on the target.

    Attributes
    ----------
    split : whose images were compared.
    coverage : how many pairs, and which could not be used.
    overall : all pairs.
    breakdowns : by the columns asked for.
    within : a pair is in a subgroup if "both" of its images are, or "either".
    genuine_by : what a genuine pair counts by, its "person" or its "image"s.
    distance : whether scores are distances: a pair matches from the threshold down.
    level : of the intervals.
    few_effective : cells with fewer effective persons are flagged.
    private : what rests on fewer than ten persons is withheld.
    notes : sentences that a reader of the figures should know.
    origin : fingerprints of the files and versions of the software, where there are files.
    """

    split: str
    coverage: PairCoverage
    overall: PairCell
    breakdowns: tuple[PairBreakdown, ...]
    within: Within
    genuine_by: GenuineBy
    distance: bool
    level: float
    private: bool
    notes: tuple[str, ...]
    few_effective: float = FEW_EFFECTIVE
    origin: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold; what does not exist is None."""
        record: dict[str, Any] = json_value(asdict(self))
        return record

    @checked
    def breakdown(self, column: str) -> PairBreakdown:
        """Find the subgroups of a column."""
        by_column = {part.column: part for part in self.breakdowns}
        if column not in by_column:
            raise ConfigError(
                f"there is no breakdown by {column!r}; there are {first_few(list(by_column), 12)}.",
                column=column,
                allowed=list(by_column),
            )
        return by_column[column]

    def __repr__(self) -> str:
        count = self.coverage
        lines = [
            f"PairEvaluation: {count.genuine:,} genuine and {count.impostor:,} impostor pairs "
            f"({self.split})",
            f"  equal error rate {_figure_text(self.overall.equal_error)}",
        ]
        lines += [
            f"  threshold {point.threshold:.4g}: FMR {_figure_text(point.fmr)}, FNMR "
            f"{_figure_text(point.fnmr)}"
            for point in self.overall.points
        ]
        columns = [f"{part.column} ({len(part.cells)})" for part in self.breakdowns]
        return "\n".join([*lines, *([f"  by {first_few(columns, 8)}"] if columns else [])])


def _figure_text(figure: PairFigure) -> str:
    if figure.value is None:
        return "unknown"
    interval = "" if figure.interval is None else " [{:.3g}, {:.3g}]".format(*figure.interval)
    return f"{figure.value:.3g}{interval}"


@checked
def evaluate_pairs(
    weights_table: pd.DataFrame,
    pairs: pd.DataFrame | str | PathLike[str],
    *,
    thresholds: Sequence[float] = (),
    fmr: Sequence[OpenShare] | None = None,
    by: Sequence[str] = (),
    within: Within = "both",
    genuine_by: GenuineBy | None = None,
    distance: bool = False,
    attributes: pd.DataFrame | None = None,
    bins: Bins | None = None,
    split: str | None = None,
    allow_extra: bool = False,
    private: bool = False,
    level: OpenShare = 0.95,
    roc: bool = True,
) -> PairEvaluation:
    """Estimate the error rates of comparisons (face verification) on the target, with intervals.

    A pair matches where score ≥ t. FMR(t) = Σ w 1[match]/Σ w over impostor pairs, FNMR(t) =
    Σ w 1[no match]/Σ w over genuine ones. An impostor pair has the weight w = d π_i π_j: two
    independent draws from the target, d the pair's own ``weight``. A genuine pair is of one person,
    who is drawn once: by "person" w = d π_i π_j/π̂_g, π̂_g the weight of the person; by "image"
    w = d π_i π_j. Facts: with equal weights the rates are the plain ones; only ratios of weights
    matter; the order of rows, and of the two images, does not.

    Intervals count that pairs which share a person (``group``; images with the same ``content``,
    and whatever genuine pairs tie together) depend on each other: the variance of an incomplete
    U-statistic over persons, drawn within their sources. Weights are taken as known.

    Parameters
    ----------
    weights_table : `unskew.read_weights_table` of a run: id and sample_weight (or weight), and
        source, group, split.
    pairs : table or file: id_a, id_b, same (true or false), score (the larger, the more alike), and
        ``weight`` (1/probability) where pairs were sampled with unequal probabilities.
    thresholds : judge at these.
    fmr : and at the thresholds with these false match rates on the target; their intervals count
        that the threshold is estimated. Default: 1e-2 and 1e-3, without ``thresholds``.
    by : columns of ``attributes`` or of the weights: figures of each subgroup, and the gaps between
        them; ``gender*nationality``: by every combination.
    within : a pair is in a subgroup if "both" of its images are, or "either".
    genuine_by : "person" or "image". Default: by person where the weights have groups.
    distance : scores are distances, the smaller the more alike.
    attributes, bins, split, allow_extra, private, level : as in `evaluate_predictions`.
    roc : also compute intervals along the ROC.
    """
    table = check_weights(weights_table)
    judged = choose_images(table, split)
    joined = join_pairs(table, judged, read_pairs(pairs), allow_extra=allow_extra)
    images = judged.frame if attributes is None else attributes_of(judged, attributes)
    unit_n, has_groups = _units(judged, images, joined)
    genuine_by = genuine_by or ("person" if has_groups else "image")
    sample = _sample(judged, joined, unit_n, genuine_by, distance)
    views = _views(judged, images, joined, by, bins or {})
    coverage = joined.coverage
    if private:
        _check_private(sample.stratum.size)
        views, coverage = withhold_cells(views, unit_n), withhold_counts(coverage)
    sign = -1.0 if distance else 1.0
    judge = PairJudge(sample, (), level, private, sign)
    judge.points = _points(judge, thresholds, fmr)
    (overall,), _, _ = judge.judge((), ())
    breakdowns = tuple(_break_down(judge, view, joined, within) for view in views)
    notes = (
        *judged.notes,
        *coverage.notes(),
        *_unit_notes(sample, has_groups, genuine_by, judged),
        *_point_notes(judge, overall),
        *(note for part in breakdowns for note in _subgroup_notes(part, within)),
    )
    return PairEvaluation(
        split=judged.split,
        coverage=coverage,
        overall=replace(overall, roc=judge.draw_roc()) if roc else overall,
        breakdowns=breakdowns,
        within=within,
        genuine_by=genuine_by,
        distance=distance,
        level=level,
        private=private,
        notes=notes,
    )


def _units(judged: Judged, images: pd.DataFrame, joined: JoinedPairs) -> tuple[Ints, bool]:
    """Find the unit of every image, (n,): ((n,), whether groups say who is who)."""
    import pandas as pd

    frame = judged.frame
    has_groups = "group" in frame.columns and not frame["group"].isna().all()
    columns = {"group": frame["group"].to_numpy()} if has_groups else {}
    if "content" in images.columns:
        columns["content"] = images["content"].to_numpy()
    known = unit_codes(pd.DataFrame(columns)) if columns else None
    return join_units(len(frame), known, linked_images(joined, len(frame))), has_groups


def _sample(
    judged: Judged, joined: JoinedPairs, unit_n: Ints, genuine_by: GenuineBy, distance: bool
) -> PairSample:
    """Weigh the pairs, and give every unit in them a number."""
    used = np.unique(np.concatenate([joined.first, joined.second]))
    source_n = judged.frame["source"].to_numpy(dtype=object)[used].astype(str)
    names, source = np.unique(source_n, return_inverse=True)
    rows = Sampled(
        tuple(names.tolist()), source.astype(np.int32), judged.weight[used], unit_n[used]
    )
    units = find_units(rows)
    code_n = np.zeros(len(judged.frame), dtype=np.int64)
    code_n[used] = units.unit_n
    # Only ratios matter; products of huge weights would not be numbers any more.
    weight_n = judged.weight / judged.weight.max()
    weight_p = weigh_pairs(joined, weight_n, unit_n if genuine_by == "person" else None)
    score_p = -joined.score if distance else joined.score
    first_p, second_p = code_n[joined.first], code_n[joined.second]
    return PairSample(score_p, joined.same, weight_p, first_p, second_p, units.stratum_m)


def _views(
    judged: Judged,
    images: pd.DataFrame,
    joined: JoinedPairs,
    by: Sequence[str],
    bins: Mapping[str, Sequence[float]],
) -> list[View]:
    """Break down the images in pairs by every column of ``by``; others have code −1."""
    used_n = np.zeros(len(judged.frame), dtype=np.bool_)
    used_n[joined.first] = used_n[joined.second] = True
    tables = [judged.frame] if images is judged.frame else [judged.frame, images]
    views = []
    for name in dict.fromkeys(by):
        view = view_by(name, tables, bins, used_n)
        if len(view.levels) > _MOST_SUBGROUPS:
            raise ConfigError(
                f"--by {name}: there are {len(view.levels)} subgroups, too many to compare every "
                f"two of them (at most {_MOST_SUBGROUPS}).",
                option="by",
                column=name,
                count=len(view.levels),
                limit=_MOST_SUBGROUPS,
            )
        code_n = np.full(used_n.size, -1, dtype=np.int64)
        code_n[used_n] = view.code
        views.append(replace(view, code=code_n))
    return views


def _check_private(n_units: int) -> None:
    if n_units < SMALLEST_CELL:
        raise ConfigError(
            f'privacy = "aggregate" shows nothing about fewer than {SMALLEST_CELL} persons; '
            f"{n_units} are compared.",
            count=n_units,
            limit=SMALLEST_CELL,
        )


def _points(
    judge: PairJudge, thresholds: Sequence[float], fmr: Sequence[float] | None
) -> tuple[OperatingPoint, ...]:
    if fmr is None:
        fmr = () if len(thresholds) else FALSE_MATCH_RATES
    chosen = [OperatingPoint(judge.whole.threshold_at(rate), rate) for rate in fmr]
    return (*(OperatingPoint(judge.sign * float(t)) for t in thresholds), *chosen)


def _break_down(judge: PairJudge, view: View, joined: JoinedPairs, within: Within) -> PairBreakdown:
    first_p, second_p = view.code[joined.first], view.code[joined.second]
    is_in = np.logical_and if within == "both" else np.logical_or
    rows = [
        np.flatnonzero(is_in(first_p == level, second_p == level))
        for level in range(len(view.levels))
    ]
    (_, *cells), gaps, largest = judge.judge(view.levels, rows)
    return PairBreakdown(view.name, tuple(cells), gaps, largest, view.withheld)


def _unit_notes(
    sample: PairSample, has_groups: bool, genuine_by: GenuineBy, judged: Judged
) -> list[str]:
    """Say what a person is here, and what genuine pairs count by."""
    notes = []
    if not has_groups:
        notes.append(
            "The weights have no groups: images are of one person where genuine pairs tie them "
            "together, else of different persons. Intervals are too short where they are not; "
            "name the person as group."
        )
    if np.ptp(judged.weight[judged.weight > 0]) > 1e-9 * judged.weight.max():
        notes.append(
            "Genuine pairs count by the weight of their person."
            if genuine_by == "person"
            else "Genuine pairs count by the product of the weights of their images: persons of "
            'twice the weight count four times. If whole persons were weighted, use "person" '
            "(--genuine-by person)."
        )
    within = int(np.count_nonzero(~sample.genuine & (sample.first == sample.second)))
    if within:
        notes.append(
            f"{within:,} impostor pairs are of images in one group, or tied together by genuine "
            "pairs or copies. If they show one person, their same is wrong."
        )
    return notes


def _point_notes(judge: PairJudge, overall: PairCell) -> list[str]:
    notes = []
    if overall.equal_error.value is not None and overall.equal_error.value > 0.5:
        notes.append(
            "Genuine pairs score lower than impostor pairs."
            + (
                " Are these similarities? Leave out --distance."
                if judge.sign < 0
                else " Are these distances? Add --distance (distance=True)."
            )
        )
    rows = judge.whole.impostor.rows
    for point in judge.points:
        weight = judge.sample.weight[rows[judge.sample.score[rows] >= point.threshold]]
        if point.target_fmr is not None and effective_size(weight) < _FEW_MATCHES:
            notes.append(
                f"The threshold for a false match rate of {100 * point.target_fmr:g} % is hardly "
                "known: fewer than ten effective impostor pairs reach it. Compare more of them, or "
                "choose a larger rate."
            )
    return notes


def _subgroup_notes(part: PairBreakdown, within: Within) -> list[str]:
    """Name the subgroups that lack a kind of pairs."""
    notes = []
    for kind, rate in (("genuine", "FNMR"), ("impostor", "FMR")):
        lacking = [cell.name for cell in part.cells if not getattr(cell, kind)]
        if lacking:
            where = "within" if within == "both" else "with an image of"
            notes.append(
                f"By {part.column}: no {kind} pair is {where} {first_few(lacking)}, so there is no "
                f"{rate} (nor an equal error rate)."
            )
    return notes
