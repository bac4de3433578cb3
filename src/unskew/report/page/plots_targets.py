"""Several targets: their verdicts, each outcome by target, and how far their weights differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from unskew.report.page.svg import (
    MOST_DRAWN,
    Figure,
    Key,
    Row,
    Scale,
    draw_rows,
    mark,
    scale_of,
    share_ticks,
    span_line,
)
from unskew.report.page.tables import (
    MISSING,
    PageTable,
    TableCell,
    TableColumn,
    count_cell,
    error_cell,
    name_cell,
    share_cell,
    shorten,
    show_number,
    show_share,
    table,
)
from unskew.report.summary.record import (
    MarginSetPanel,
    MeanOnTarget,
    Number,
    OutcomeByTarget,
    TargetsPanel,
)

_VERDICTS = {"ok": "can be reached", "weak": "with care", "no": "cannot be reached"}


def target_table(panel: TargetsPanel) -> PageTable:
    """Tabulate verdict, size and uncovered mass of every target."""
    columns = (
        "Target",
        TableColumn("Verdict", numeric=False),
        "Not covered",
        "Effective images",
        "Effective groups",
        TableColumn("Why", numeric=False, wide=True),
        TableColumn("Population", numeric=False, wide=True),
    )
    rows = [
        [
            name_cell(f"{row.name} (main)" if row.is_main else row.name),
            TableCell(_VERDICTS[row.level]),
            share_cell(row.uncovered),
            count_cell(row.ess),
            count_cell(row.ess_groups),
            TableCell(row.message),
            TableCell(row.population or MISSING),
        ]
        for row in panel.rows
    ]
    marked = frozenset(k for k, row in enumerate(panel.rows) if row.level != "ok")
    return replace(table("Targets", columns, rows).without_empty(), marked=marked)


def moves_table(panel: TargetsPanel | MarginSetPanel) -> PageTable:
    """Tabulate the worst case of every outcome, and whether it hangs on the choice of target."""
    columns = (
        "Outcome",
        "Lowest mean",
        TableColumn("On target", numeric=False),
        "Highest mean",
        TableColumn("On target", numeric=False),
        "Difference",
        "Interval of it",
        TableColumn("Hangs on the choice", numeric=False),
    )
    rows = [
        [
            name_cell(outcome.outcome),
            _amount_cell(outcome, _value_of(outcome, outcome.lowest)),
            name_cell(outcome.lowest),
            _amount_cell(outcome, _value_of(outcome, outcome.highest)),
            name_cell(outcome.highest),
            _with_error(outcome, outcome.difference, outcome.stderr),
            TableCell(_ends(outcome, outcome.interval), outcome.difference),
            TableCell("yes" if outcome.hangs else "not visibly", float(outcome.hangs)),
        ]
        for outcome in panel.outcomes
    ]
    marked = frozenset(k for k, outcome in enumerate(panel.outcomes) if outcome.hangs)
    over = "targets" if isinstance(panel, TargetsPanel) else "set of margins"
    return replace(table(f"Worst case over the {over}", columns, rows), marked=marked)


def set_table(panel: MarginSetPanel) -> PageTable:
    """Tabulate the smallest and largest mass of every level."""
    rows = [
        [name_cell(level), share_cell(low), share_cell(high)] for level, low, high in panel.bounds
    ]
    return table("The set of margins", ("Level", "Smallest", "Largest"), rows)


def distance_table(panel: TargetsPanel) -> PageTable:
    """Tabulate the total variation between the weights of every two targets."""
    rows = [
        [name_cell(one), name_cell(other), share_cell(apart)]
        for one, other, apart in sorted(panel.distances, key=lambda pair: -(pair[2] or 0.0))
    ]
    columns = ("Target", TableColumn("And", numeric=False), "Weight on other images")
    return table("How far the weights differ", columns, rows)


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
    low, high = mean.interval
    marks = Markup("")
    if low is not None and high is not None:
        marks += span_line(scale.at(low), scale.at(high), 13, "interval")
    if mean.value is not None:
        marks += mark("debiased", scale.at(mean.value), 13)
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
