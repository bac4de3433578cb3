"""Several targets: their verdicts, each outcome by target, and how far their weights differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unskew.report.page.svg import (
    MOST_DRAWN,
    Figure,
    Key,
    Row,
    Scale,
    draw_rows,
    interval_line,
    scale_of,
    share_ticks,
    value_mark,
)
from unskew.report.page.tables import (
    MISSING,
    PageTable,
    TableCell,
    count_cell,
    error_cell,
    list_rows,
    name_cell,
    share_cell,
    shorten,
    show_number,
    show_share,
    table,
    words,
)
from unskew.report.summary.record import MeanOnTarget, Number, OutcomeByTarget, TargetsPanel

_VERDICTS = {"ok": "can be reached", "weak": "with care", "no": "cannot be reached"}


def target_table(panel: TargetsPanel) -> PageTable:
    """Tabulate verdict, size and uncovered mass of every target."""
    return list_rows(
        "Targets",
        panel.rows,
        ("Target", lambda row: name_cell(f"{row.name} (main)" if row.is_main else row.name)),
        (words("Verdict"), lambda row: TableCell(_VERDICTS[row.level])),
        ("Not covered", lambda row: share_cell(row.uncovered)),
        ("Effective images", lambda row: count_cell(row.ess)),
        ("Effective groups", lambda row: count_cell(row.ess_groups)),
        (words("Why", wide=True), lambda row: TableCell(row.message)),
        (words("Population", wide=True), lambda row: TableCell(row.population or MISSING)),
        marked=lambda row: row.level != "ok",
    ).without_empty()


def moves_table(panel: TargetsPanel) -> PageTable:
    """Tabulate the worst case of every outcome, and whether it hangs on the choice of target."""
    return list_rows(
        "Worst case over the targets",
        panel.outcomes,
        ("Outcome", lambda row: name_cell(row.outcome)),
        ("Lowest mean", lambda row: _amount_cell(row, _value_of(row, row.lowest))),
        (words("On target"), lambda row: name_cell(row.lowest)),
        ("Highest mean", lambda row: _amount_cell(row, _value_of(row, row.highest))),
        (words("On target"), lambda row: name_cell(row.highest)),
        ("Difference", lambda row: _with_error(row, row.difference, row.stderr)),
        ("Interval of it", lambda row: TableCell(_ends(row, row.interval), row.difference)),
        (
            words("Hangs on the choice"),
            lambda row: TableCell("yes" if row.hangs else "not visibly", float(row.hangs)),
        ),
        marked=lambda row: row.hangs,
    )


def distance_table(panel: TargetsPanel) -> PageTable:
    """Tabulate the total variation between the weights of every two targets."""
    return list_rows(
        "How far the weights differ",
        sorted(panel.distances, key=lambda pair: -(pair[2] or 0.0)),
        ("Target", lambda pair: name_cell(pair[0])),
        (words("And"), lambda pair: name_cell(pair[1])),
        ("Weight on other images", lambda pair: share_cell(pair[2])),
    )


def plot_targets(outcome: OutcomeByTarget) -> Figure:
    """Draw the mean of one outcome on every target, with its interval."""
    ends = [end for mean in outcome.means for end in (mean.value, *mean.interval)]
    scale = scale_of(ends)
    shown = outcome.means[:MOST_DRAWN]
    percent = f"{100 * outcome.level:g}%"
    return Figure(
        title=outcome.outcome,
        drawing=draw_rows(
            [_target_row(outcome, mean, scale) for mean in shown],
            scale,
            ticks=share_ticks(scale) if outcome.is_share else None,
        ),
        label=f"{shorten(outcome.outcome, 60)}: mean and {percent} interval on "
        f"{len(outcome.means)} targets.",
        table=_means_table(outcome, percent),
        meaning=f"Lines are {percent} intervals. All targets are weighted from the same images, so "
        "intervals may overlap although the difference is clear; the table above tests it.",
        keys=(Key("debiased", "Mean on the target"),),
    )


def _target_row(outcome: OutcomeByTarget, mean: MeanOnTarget, scale: Scale) -> Row:
    marks = interval_line(mean.interval, scale) + value_mark("debiased", mean.value, scale)
    return Row(
        mean.name, marks, f"{_amount(outcome, mean.value)} ({_ends(outcome, mean.interval)})"
    )


def _means_table(outcome: OutcomeByTarget, percent: str) -> PageTable:
    columns = ("Target", "Mean", "Standard error", f"{percent} from", f"{percent} to")
    rows = [
        [
            name_cell(mean.name),
            _amount_cell(outcome, mean.value),
            error_cell(mean.stderr, lambda error: _amount(outcome, error)),
            *(_amount_cell(outcome, end) for end in mean.interval),
        ]
        for mean in outcome.means
    ]
    return table(f"By target: {outcome.outcome}", columns, rows)


def _value_of(outcome: OutcomeByTarget, name: str) -> Number:
    return next((mean.value for mean in outcome.means if mean.name == name), None)


def _amount(outcome: OutcomeByTarget, value: Number) -> str:
    return show_share(value) if outcome.is_share else show_number(value)


def _amount_cell(outcome: OutcomeByTarget, value: Number) -> TableCell:
    return TableCell(_amount(outcome, value), value)


def _with_error(outcome: OutcomeByTarget, value: Number, stderr: Number) -> TableCell:
    cell = _amount_cell(outcome, value)
    error = "" if stderr is None else f" ± {_amount(outcome, stderr)}"
    return replace(cell, text=cell.text + error)


def _ends(outcome: OutcomeByTarget, interval: Sequence[Number]) -> str:
    if None in interval:
        return MISSING
    return " to ".join(_amount(outcome, end) for end in interval)
