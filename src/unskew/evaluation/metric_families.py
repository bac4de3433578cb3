"""The metrics of any task: classes, numbers, or sets of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unskew.evaluation.metrics import Answers, Cells, ClassMetrics, NumberMetrics, Truth
from unskew.evaluation.multi_label import LabelMetrics, LabelSetMetrics
from unskew.records import Floats

Metrics = ClassMetrics | NumberMetrics | LabelMetrics | LabelSetMetrics


def make_metrics(cells: Cells, truth: Truth, answers: Sequence[Answers]) -> Metrics:
    """Make the metrics that suit the truth: sets of labels, numbers or classes."""
    if truth.present is not None:
        return LabelSetMetrics(cells, truth, answers)
    kind = NumberMetrics if truth.code is None else ClassMetrics
    return kind(cells, truth, answers)


def figures_of_data(metrics: Metrics) -> dict[str, Floats]:
    """Compute {metric: (C,)} on the images themselves: every unit counts once."""
    figures = metrics.figures(np.ones((metrics.cells.n_units, 1)), metrics.can_rank(0))
    return {name: value_cb[:, 0] for name, value_cb in figures.items()}


def join_replicates(blocks: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Join blocks of replicates: {metric: (C, B)}."""
    return {name: np.concatenate([block[name] for block in blocks], axis=1) for name in blocks[0]}
