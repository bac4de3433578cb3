"""Error rates of pairs in a terminal."""

from __future__ import annotations

import pytest

from evaluation.test_pairs import make_pairs
from unskew import evaluate_pairs
from unskew.cli.pair_tables import print_pair_evaluation
from unskew.cli.terminal import open_console


def test_every_rate_is_shown_with_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = evaluate_pairs(*make_pairs(persons=12), by=["gender"], fmr=[0.05], roc=False)
    print_pair_evaluation(open_console(), evaluation, None)
    printed = capsys.readouterr().out
    fnmr = evaluation.overall.points[0].fnmr
    low, high = fnmr.interval
    assert f"{100 * fnmr.value:.3g} %" in printed
    assert f"{100 * low:.3g} to {100 * high:.3g}" in printed
    assert all(cell.name in printed for cell in evaluation.breakdowns[0].cells)
