"""Tables of models: trained arms, the ways that one was chosen from, rehearsed sources."""

from __future__ import annotations

from functools import partial

from unskew.report.page.plots_forecast import show_error
from unskew.report.page.tables import (
    MISSING,
    PageTable,
    TableCell,
    TableColumn,
    count_cell,
    list_rows,
    name_cell,
    share_cell,
    shorten,
    table,
    words,
)
from unskew.report.summary.record import RehearsalPanel, RehearsedSource, TrainingPanel

_NO_INTERVAL = (None, None)


def training_table(panel: TrainingPanel) -> PageTable:
    """List the trained arms, each figure with its interval: main − arm comes last."""
    level = f"{100 * panel.level:g}%"
    spread = ("Spread of a training, points",) if len(panel.seeds) > 1 else ()
    mean = "" if panel.labels is None else f", mean of {panel.labels} labels"
    worst = "label: 100 × AUROC" if mean else "class"
    is_known = any(arm.calibration is not None for arm in panel.arms)
    error = (f"Calibration error ({level})",) if is_known else ()
    columns = ("Arm", f"Accuracy{mean} ({level})", *spread, f"Worst {worst} ({level})", *error)
    rows = [
        [
            name_cell(arm.name),
            _interval_cell(arm.accuracy, arm.accuracy_interval),
            *([_interval_cell(arm.spread, _NO_INTERVAL)] if spread else []),
            _interval_cell(arm.worst, arm.worst_interval, arm.worst_class),
            *([_interval_cell(arm.calibration, arm.calibration_interval)] if error else []),
            _interval_cell(arm.gain, arm.gain_interval, signed=True),
        ]
        for arm in panel.arms
    ]
    gain = TableColumn(f"{shorten(panel.main, 40)} − arm, points ({level})")
    return table("Models on held-out images, in %", (*columns, gain), rows)


def ways_table(panel: TrainingPanel) -> PageTable:
    """List the ways that the main arm was chosen from, on held-out images of train."""
    return list_rows(
        "Ways to learn from the weights, on images of train that were held out in turn",
        panel.ways,
        ("Way", lambda row: name_cell(f"{row.name} (chosen)" if row.is_chosen else row.name)),
        ("Accuracy", lambda row: share_cell(row.accuracy)),
        ("Gain, points", lambda row: _interval_cell(row.gain, _NO_INTERVAL, signed=True)),
        ("Standard error", lambda row: _interval_cell(row.stderr, _NO_INTERVAL)),
    )


def rehearsal_table(panel: RehearsalPanel) -> PageTable:
    """List the sources that were the target in turn: predicted and true accuracy of both arms."""
    columns = [
        (f"{arm}: {kind}", partial(_rehearsed_cell, arm=arm, kind=kind))
        for arm in ("naive", "debiased")
        for kind in ("predicted", "true")
    ]
    return list_rows(
        "Accuracy on each source, in %, ± one standard error",
        panel.sources,
        ("Source as the target", lambda row: name_cell(row.name)),
        ("Images", lambda row: count_cell(row.images)),
        *columns,
        ("Without weights, usual prediction", lambda row: _interval_cell(row.usual, _NO_INTERVAL)),
        (words("Did the prediction hold?"), lambda row: TableCell(_outcome(row))),
    )


def _rehearsed_cell(row: RehearsedSource, *, arm: str, kind: str) -> TableCell:
    rehearsed = getattr(row, arm)
    if rehearsed is None:
        return TableCell(MISSING)
    value = getattr(rehearsed, kind)
    return TableCell(show_error(value, getattr(rehearsed, f"{kind}_stderr")), value)


def _outcome(row: RehearsedSource) -> str:
    if row.obstacle is not None:
        return f"Not reached: {row.obstacle}"
    return {True: "yes", False: "no", None: "too few images to tell"}[row.holds]


def _interval_cell(
    value: float | None,
    interval: tuple[float | None, float | None],
    name: str | None = None,
    *,
    signed: bool = False,
) -> TableCell:
    """Show a share as ``84.1 (83.0 to 85.2)``, in percent or, signed, in points."""
    if value is None:
        return TableCell(MISSING)
    low, high = interval
    sign, ends = "+" if signed else "", ""
    if low is not None and high is not None:
        ends = f" ({100 * low:{sign}.1f} to {100 * high:{sign}.1f})"
    prefix = "" if name is None else f"{shorten(name, 40)}: "
    return TableCell(f"{prefix}{100 * value:{sign}.1f}{ends}", value)
