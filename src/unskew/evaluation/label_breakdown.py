"""The breakdown by label, in which an image counts for every label; labels that are withheld."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unskew.errors import ConfigError
from unskew.evaluation.cells import Cell, CellJudge, JudgedImages
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.multi_label import LabelMetrics, ask_each_label
from unskew.evaluation.subgroups import View
from unskew.report.summary.privacy import SMALLEST_CELL, count_units, hidden_cells


def judge_labels(judge: CellJudge, name: str, worst: MetricValue | None) -> tuple[Cell, ...]:
    """Judge every label on all images; sizes are those of the images that have the label.

    The AUROC of the ``worst`` label has the interval of an extreme, as over all labels.
    """
    images, drawing = judge.images, judge.drawing
    assert images.truth.present is not None
    labels, n = images.truth.classes, images.weight.size
    M = len(labels)
    asked = [ask_each_label(images.truth, model) for model in images.answers]
    wide = JudgedImages(
        np.repeat(images.source, M),
        np.repeat(images.weight, M),
        None if images.group is None else np.repeat(images.group, M),
        None if images.unit is None else np.repeat(images.unit, M),
        asked[0][0],
        [tuple(answers) for _, answers in asked],
    )
    units = replace(drawing.units, unit_n=np.repeat(drawing.units.unit_n, M))
    own = CellJudge(wide, replace(drawing, units=units), judge.private, LabelMetrics)
    code_w = images.truth.present_code.ravel()
    view = View(name, labels, np.where(code_w >= 0, np.tile(np.arange(M), n), -1))
    ((cells, _),) = own.judge([view])
    judge.unranked += own.unranked
    have = replace(view, code=np.where(code_w == 1, view.code, -1))
    sizes = own.count_cells(have, own.inside(have))
    return tuple(
        _with_worst_interval(
            replace(
                size,
                name=cell.name,
                weight_share=M * size.weight_share,
                figures=cell.figures,
                second=cell.second,
                difference=cell.difference,
            ),
            worst,
        )
        for cell, size in zip(cells, sizes, strict=True)
    )


def _with_worst_interval(cell: Cell, worst: MetricValue | None) -> Cell:
    if worst is None or worst.where != cell.name or "auroc" not in cell.figures:
        return cell
    own = replace(cell.figures["auroc"], interval=worst.interval, stderr=worst.stderr)
    return replace(cell, figures={**cell.figures, "auroc": own})


def withhold_labels(images: JudgedImages) -> tuple[JudgedImages, int]:
    """Leave out the labels that 1 to 9 groups (images) have, or lack: (images, how many)."""
    present_nm, known_nm, code_nm = (
        images.truth.present,
        images.truth.known,
        images.truth.present_code,
    )
    assert present_nm is not None
    shown = [
        m
        for m in range(present_nm.shape[1])
        if not hidden_cells(count_units(images.group, code_nm[:, m], 2)).any()
    ]
    if not shown:
        raise ConfigError(
            f'privacy = "aggregate" shows nothing about fewer than {SMALLEST_CELL} images or '
            "groups, and every label has fewer that have it, or that lack it.",
            limit=SMALLEST_CELL,
        )
    truth = replace(
        images.truth,
        classes=tuple(images.truth.classes[m] for m in shown),
        present=present_nm[:, shown],
        known=None if known_nm is None else known_nm[:, shown],
    )
    answers = [
        tuple(
            replace(
                one,
                predicted=None if one.predicted is None else one.predicted[:, shown],
                probability=None if one.probability is None else one.probability[:, shown],
            )
            for one in model
        )
        for model in images.answers
    ]
    return replace(images, truth=truth, answers=answers), present_nm.shape[1] - len(shown)
