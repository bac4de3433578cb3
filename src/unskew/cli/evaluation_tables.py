"""An evaluation as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unskew.cli.terminal import (
    effective,
    number,
    percent,
    print_pairs,
    print_paragraph,
    print_place,
    print_table,
    visible,
)
from unskew.evaluation.predictions import Evaluation

if TYPE_CHECKING:
    from rich.console import Console

    from unskew.evaluation.cells import Cell
    from unskew.evaluation.metric_value import MetricValue
    from unskew.evaluation.predictions import Breakdown
    from unskew.records import Estimate, RobustEstimate
    from unskew.training.arm_scores import Scores

# Metrics as a person reads them, and whether they are shares.
METRICS = {
    "accuracy": ("accuracy", True),
    "balanced_accuracy": ("balanced accuracy", True),
    "worst_class": ("worst class", True),
    "auroc": ("AUROC", False),
    "sensitivity": ("sensitivity", True),
    "specificity": ("specificity", True),
    "subset_accuracy": ("all labels right", True),
    "label_accuracy": ("label accuracy", True),
    "macro_auroc": ("AUROC, mean of labels", False),
    "worst_label": ("worst label's AUROC", False),
    "micro_auroc": ("AUROC, labels pooled", False),
    "average_precision": ("average precision", False),
    "macro_average_precision": ("average precision, mean of labels", False),
    "micro_average_precision": ("average precision, labels pooled", False),
    "f1": ("F1", False),
    "macro_f1": ("F1, mean of labels", False),
    "micro_f1": ("F1, labels pooled", False),
    "log_loss": ("log-loss", False),
    "calibration_error": ("calibration error", True),
    "mae": ("mean absolute error", False),
    "rmse": ("root mean squared error", False),
    "r2": ("R²", False),
}
# Of these, the ones that a breakdown has room for; with two models there is less.
_IN_BREAKDOWNS = ("accuracy", "auroc", "sensitivity", "specificity", "mae", "r2")
_IN_LABEL_BREAKDOWNS = (
    *("label_accuracy", "macro_auroc", "auroc", "average_precision", "f1", "calibration_error"),
)
_COMPARED = ("accuracy", "mae")
_COMPARED_LABELS = ("auroc", "macro_auroc")
_ARM_METRICS = ("accuracy", "worst_class", "label_accuracy", "macro_auroc", "worst_label")
_CLASS_NAMES = {"y": "class", "label": "class"}


def print_judged(
    console: Console, judged: Evaluation | Scores, written: Path | None, title: str
) -> None:
    """Print an evaluation; or, of several arms, all of them, the main one in detail, and main
    against each of the others.
    """
    if isinstance(judged, Evaluation):
        print_evaluation(console, judged, written, title)
        return
    if len(judged.evaluations) > 1:
        _print_arms(console, judged, title)
    pairs = tuple(judged.gains.values())
    print_evaluation(
        console, judged.evaluation, written, f"{title}: {judged.main}", pairs, has_weights=False
    )


def _print_arms(console: Console, scores: Scores, title: str) -> None:
    """Print every arm, and main − arm."""
    names = [name for name in _ARM_METRICS if name in scores.evaluation.overall.figures]
    heads, several = [METRICS[name][0] for name in names], len(scores.seeds) > 1
    heads += [f"spread of {len(scores.seeds)} seeds"] if several else []
    rows = []
    for arm, evaluation in scores.evaluations.items():
        figures = evaluation.overall.figures
        row = [arm, *[_with_interval(figures.get(name), METRICS[name][1]) for name in names]]
        spread = scores.accuracy(arm).spread
        row += ["–" if spread is None else f"{100 * spread:.1f} pt"] if several else []
        gap = scores.gain(arm) if arm in scores.gains else None
        rows.append([*row, _with_interval(gap, True, signed=True)])
    heads.append(f"{scores.main} − arm ({METRICS[scores.metric][0]})")
    print_table(console, f"{title}, every arm", ["arm", *heads], rows)


def _print_gains(console: Console, part: Breakdown, models: Sequence[str]) -> None:
    """Print both models in every cell, and the paired difference."""
    other, main = models
    of_labels = any("label_accuracy" in cell.figures for cell in part.cells)
    metric = "label_accuracy" if of_labels else "accuracy"
    known = [cell for cell in part.cells if metric in cell.figures and cell.second]
    if not known or part.column == "source":
        return
    rows = [
        [
            cell.name + ("*" if cell.few else ""),
            number(cell.images),
            _amount((cell.second or {})[metric].value, True),
            _amount(cell.figures[metric].value, True),
            _with_interval((cell.difference or {}).get(metric), True, signed=True),
        ]
        for cell in known
    ]
    column = _CLASS_NAMES.get(part.column, part.column)
    column = "label" if of_labels and column == "class" else column
    print_table(
        console,
        f"{visible(main)} against {visible(other)}, accuracy by {visible(column)}",
        [column, "images", main, other, f"{main} − {other}"],
        rows,
    )


def print_evaluation(
    console: Console,
    evaluation: Evaluation,
    written: Path | None,
    title: str = "On the target",
    pairs: Sequence[Evaluation] = (),
    *,
    has_weights: bool = True,
) -> None:
    """Print the metrics of one model or two: over all, by source, by class and by columns.

    ``pairs`` are comparisons with other models, shown by class and by columns. Where images have no
    weights, the unweighted figures are no others.
    """
    covered, cell = evaluation.coverage, evaluation.overall
    groups = "" if cell.ess_groups is None else f", {effective(cell.ess_groups)} effective groups"
    print_paragraph(
        console,
        f"{evaluation.task.capitalize()}, {visible(evaluation.split)}: {number(covered.judged)} of "
        f"{number(covered.images)} images judged, {effective(cell.ess)} effective "
        f"images{groups}.{_trainings(evaluation)}\n",
    )
    interval = f"{100 * evaluation.level:g} % interval"
    columns = ["metric", "weighted", interval, "unweighted", "effective"]
    if not has_weights:
        columns = ["metric", "value", interval, "effective"]
    first, second = models = (*evaluation.models, "second")[:2]
    columns += [] if cell.second is None else [second, f"{second} − {first}", interval]
    rows = [_metric_row(cell, name, has_weights) for name in METRICS if name in cell.figures]
    print_table(console, title, columns, rows)
    if evaluation.augmented:
        print_table(
            console,
            "With the model's answers on images of the target",
            ["metric", "augmented", interval, "weights alone"],
            [_augmented_row(name, figure) for name, figure in evaluation.augmented.items()],
        )
    for name, estimate in evaluation.compared.items():
        _print_agreement(console, name, estimate, interval)
    for part in evaluation.breakdowns:
        _print_breakdown(console, part, models if cell.second is not None else ())
    for pair in pairs:
        for part in pair.breakdowns:
            _print_gains(console, part, pair.models)
    figures = [*cell.figures.values()]
    cells = [cell for part in evaluation.breakdowns for cell in part.cells]
    if any(figure.few for figure in figures) or any(cell.few for cell in cells):
        print_paragraph(
            console,
            f"* fewer than {evaluation.few_effective:g} effective images (groups, where there are "
            "any): too few to say much.",
        )
    print_pairs(console, [("·", note) for note in evaluation.notes])
    if written is not None:
        print_place(console, written)


def _trainings(evaluation: Evaluation) -> str:
    if evaluation.trainings == 1:
        return ""
    return (
        f" Figures are means over {evaluation.trainings} trainings, and intervals count training "
        "noise."
    )


def _print_agreement(console: Console, name: str, estimate: Estimate, interval: str) -> None:
    """Print whether the sources agree on a metric; where they do not, what each says."""
    agreement = estimate.agreement
    assert agreement is not None
    label, share = METRICS[name]
    if not agreement.disagree:
        print_paragraph(console, f"{label.capitalize()}: {visible(agreement.message)}\n")
        return
    rows = [
        [source, number(own.images), _amount(_known(own.value), share), _ends(own.interval, share)]
        for source, own in agreement.by_source.items()
    ]
    agreed, another = _ends(estimate.agreed, share), estimate.new_source
    rows.append(["all, if they agreed", "", _amount(estimate.value, share), agreed])
    last = "cannot say" if another is None else _ends(another, share)
    rows.append(["a source like none of these", "", "", last])
    title = f"The sources disagree on {label}, each weighted to the target by itself"
    print_table(console, title, ["source", "images", label, interval], rows)
    odd = agreement.odd_source
    culprit = "" if odd is None else f"Without {visible(odd)} the others agree. "
    quoted = "each source by itself" if another is None else "the last line"
    print_paragraph(
        console,
        f"{culprit}Find out how the sources differ (labels, devices); until then quote {quoted}.\n",
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ends(interval: tuple[float, float], share: bool) -> str:
    low, high = (_amount(_known(end), share).removesuffix(" %") for end in interval)
    return "–" if low == high == "–" else f"{low} to {high}"


def _print_breakdown(console: Console, part: Breakdown, models: Sequence[str]) -> None:
    """Print the cells of a column; of two ``models``, also their difference."""
    has_second = len(models) == 2
    wanted: Sequence[str] = _COMPARED if has_second else _IN_BREAKDOWNS
    column = _CLASS_NAMES.get(part.column, part.column)
    of_labels = any("label_accuracy" in cell.figures for cell in part.cells)
    if of_labels:
        wanted = _COMPARED_LABELS if has_second else _IN_LABEL_BREAKDOWNS
        column = "label" if column == "class" else column
    names = [name for name in wanted if any(name in cell.figures for cell in part.cells)]
    heads = [METRICS[name][0] for name in names]
    heads += [f"{models[1]} − {models[0]}"] * len(names) if has_second else []
    if part.cells:
        print_table(
            console,
            f"By {visible(column)}",
            (column, "images", "weight", "effective", *heads),
            [_cell_row(cell, names) for cell in part.cells],
        )
    if part.worst is not None and not has_second:
        worst = f"{visible(part.worst.where)}, {_with_interval(part.worst, not of_labels)}"
        print_paragraph(console, f"Worst: {worst}.\n")
    if part.withheld:
        print_paragraph(
            console,
            f"By {visible(part.column)}: {part.withheld} withheld, which have fewer than ten or "
            "would reveal those that do.\n",
        )


def _augmented_row(name: str, figure: RobustEstimate) -> list[str]:
    label, share = METRICS[name]
    alone = None if figure.weighted is None else figure.weighted.value
    low, high = (_amount(limit, share).removesuffix(" %") for limit in figure.interval)
    return [label, _amount(figure.value, share), f"{low} to {high}", _amount(alone, share)]


def _metric_row(cell: Cell, name: str, has_weights: bool = True) -> list[str]:
    figure = cell.figures[name]
    label, share = METRICS[name]
    label += ("" if figure.where is None else f" ({figure.where})") + ("*" if figure.few else "")
    row = [
        label,
        _amount(figure.value, share),
        _interval(figure, share),
        *([_amount(figure.unweighted, share)] if has_weights else []),
        effective(figure.effective),
    ]
    if cell.second is not None and cell.difference is not None:
        other, gap = cell.second.get(name), cell.difference.get(name)
        row += [
            "–" if other is None else _amount(other.value, share),
            _signed(gap, share),
            _interval(gap, share),
        ]
    return row


def _cell_row(cell: Cell, names: Sequence[str]) -> list[str]:
    row = [cell.name + ("*" if cell.few else ""), number(cell.images), percent(cell.weight_share)]
    row.append(effective(cell.ess if cell.ess_groups is None else cell.ess_groups))
    row += [_with_interval(cell.figures.get(name), METRICS[name][1]) for name in names]
    if cell.difference is not None:
        row += [
            _with_interval(cell.difference.get(name), METRICS[name][1], signed=True)
            for name in names
        ]
    return row


def show_metric(figure: MetricValue, name: str) -> str:
    """Show a metric with its interval: ``81.2 % (78.0 to 84.1)``."""
    return _with_interval(figure, METRICS[name][1])


def _with_interval(figure: MetricValue | None, share: bool, signed: bool = False) -> str:
    if figure is None or figure.value is None:
        return "–"
    value = _signed(figure, share) if signed else _amount(figure.value, share)
    return value if figure.interval is None else f"{value} ({_interval(figure, share)})"


def _amount(value: float | None, share: bool, plus: str = "") -> str:
    if value is None:
        return "–"
    if share:
        return f"{round(100 * value, 1) + 0.0:{plus}.1f} %"  # no minus before 0.0
    return f"{value:{plus}.3f}" if abs(value) < 100 else f"{value:{plus}.4g}"


def _signed(figure: MetricValue | None, share: bool) -> str:
    # Shares differ by points, not by percent.
    return "–" if figure is None else _amount(figure.value, share, "+").replace(" %", " pt")


def _interval(figure: MetricValue | None, share: bool) -> str:
    if figure is None or figure.interval is None:
        return "–"
    low, high = (_amount(limit, share).removesuffix(" %") for limit in figure.interval)
    return f"{low} to {high}"
