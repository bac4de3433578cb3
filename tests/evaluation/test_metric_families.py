"""The metrics that suit the truth, in cells."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.judging import judge, make_sets, values
from unskew.evaluation.metric_families import make_metrics
from unskew.evaluation.metrics import Answers, Cells, Truth


def test_cells_are_the_metrics_of_their_images() -> None:
    table, predictions, _ = make_sets()
    evaluation = judge(table, predictions)
    for cell in evaluation.breakdown("source").cells:
        inside = (table["source"] == cell.name).to_numpy()
        own = values(judge(table[inside], predictions[inside]))
        assert {name: figure.value for name, figure in cell.figures.items()} == pytest.approx(own)


def test_the_truth_decides_on_the_metrics() -> None:
    cells = Cells(np.zeros(2, dtype=np.int64), 1, np.arange(2), 2, np.ones(2))
    number = make_metrics(cells, Truth(value=np.arange(2.0)), [Answers(value=np.ones(2))])
    assert set(number.effective()) == {"mae", "rmse", "r2"}
    sets = Truth(("a",), present=np.eye(2, 1, dtype=np.bool_))
    answers = Answers(np.ones((2, 1), dtype=np.int64), np.full((2, 1), 0.9))
    assert "subset_accuracy" in make_metrics(cells, sets, [answers]).effective()
