"""The ROC of all pairs, and of subgroups."""

from __future__ import annotations

import numpy as np

from evaluation.test_pair_rates import make_sample
from unskew.evaluation.pair_cells import OperatingPoint, PairJudge


def test_the_roc_falls_and_every_point_is_within_its_interval() -> None:
    sample = make_sample(30)
    judge = PairJudge(sample, [OperatingPoint(0.5)], 0.95)
    roc = judge.draw_roc()
    assert np.all(np.diff([point.fmr for point in roc]) >= 0)
    assert np.all(np.diff([point.fnmr for point in roc]) <= 0)
    assert all(point.interval[0] <= point.fnmr <= point.interval[1] for point in roc)
    assert all(judge.whole.fmr(point.threshold) == point.fmr for point in roc)


def test_three_subgroups_have_three_gaps_and_the_largest_counts_the_choice() -> None:
    sample = make_sample(30)
    rows = [np.flatnonzero((sample.first % 3 == k) & (sample.second % 3 == k)) for k in range(3)]
    cells, gaps, largest = PairJudge(sample, [OperatingPoint(0.5)], 0.95).judge("abc", rows)
    assert [cell.name for cell in cells] == ["all", "a", "b", "c"]
    assert len(gaps) == 6
    of_fmr = [gap for gap in gaps if gap.rate == "fmr"]
    widest = max(of_fmr, key=lambda gap: gap.figure.value)
    assert largest[0].figure.value == widest.figure.value
    assert largest[0].figure.interval[0] < widest.figure.interval[0]
    assert largest[0].figure.interval[1] > widest.figure.interval[1]
