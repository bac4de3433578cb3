"""Several targets: their verdicts, each outcome by target, and how far their weights differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unskew.report.page import svg, tables
from unskew.report.summary.record import (
    MarginSetPanel,
    MeanOnTarget,
    Number,
    OutcomeByTarget,
    TargetsPanel,
)

_VERDICTS = {"ok": "can be reached", "weak": "with care", "no": "cannot be reached"}


def target_table(panel: TargetsPanel) -> tables.PageTable:
    """Tabulate verdict, size and uncovered mass of every target."""
    return tables.list_rows(
        "Targets",
        panel.rows,
        ("Target", lambda row: tables.name_cell(f"{row.name} (main)" if row.is_main else row.name)),
        (tables.words("Verdict"), lambda row: tables.TableCell(_VERDICTS[row.level])),
        ("Not covered", lambda row: tables.share_cell(row.uncovered)),
        ("Effective images", lambda row: tables.count_cell(row.ess)),
        ("Effective groups", lambda row: tables.count_cell(row.ess_groups)),
        (tables.words("Why", wide=True), lambda row: tables.TableCell(row.message)),
        (
            tables.words("Population", wide=True),
            lambda row: tables.TableCell(row.population or tables.MISSING),
        ),
        marked=lambda row: row.level != "ok",
    ).without_empty()


def moves_table(panel: TargetsPanel | MarginSetPanel) -> tables.PageTable:
    """Tabulate the worst case of every outcome, and whether it hangs on the choice of target."""
    over = "targets" if isinstance(panel, TargetsPanel) else "set of margins"
    return tables.list_rows(
        f"Worst case over the {over}",
        panel.outcomes,
        ("Outcome", lambda row: tables.name_cell(row.outcome)),
        ("Lowest mean", lambda row: _amount_cell(row, _value_of(row, row.lowest))),
        (tables.words("On target"), lambda row: tables.name_cell(row.lowest)),
        ("Highest mean", lambda row: _amount_cell(row, _value_of(row, row.highest))),
        (tables.words("On target"), lambda row: tables.name_cell(row.highest)),
        ("Difference", lambda row: _with_error(row, row.difference, row.stderr)),
        ("Interval of it", lambda row: tables.TableCell(_ends(row, row.interval), row.difference)),
        (
            tables.words("Hangs on the choice"),
            lambda row: tables.TableCell("yes" if row.hangs else "not visibly", float(row.hangs)),
        ),
        marked=lambda row: row.hangs,
    )


def set_table(panel: MarginSetPanel) -> tables.PageTable:
    """Tabulate the smallest and largest mass of every level."""
    return tables.list_rows(
        "The set of margins",
        panel.bounds,
        ("Level", lambda bound: tables.name_cell(bound[0])),
        ("Smallest", lambda bound: tables.share_cell(bound[1])),
        ("Largest", lambda bound: tables.share_cell(bound[2])),
    )


def distance_table(panel: TargetsPanel) -> tables.PageTable:
    """Tabulate the total variation between the weights of every two targets."""
    return tables.list_rows(
        "How far the weights differ",
        sorted(panel.distances, key=lambda pair: -(pair[2] or 0.0)),
        ("Target", lambda pair: tables.name_cell(pair[0])),
        (tables.words("And"), lambda pair: tables.name_cell(pair[1])),
        ("Weight on other images", lambda pair: tables.share_cell(pair[2])),
    )


def plot_targets(outcome: OutcomeByTarget) -> svg.Figure:
    """Draw the mean of one outcome on every target, with its interval."""
    ends = [end for mean in outcome.means for end in (mean.value, *mean.interval)]
    scale = svg.scale_of(ends)
    shown = outcome.means[: svg.MOST_DRAWN]
    percent = f"{100 * outcome.level:g}%"
    return svg.Figure(
        title=outcome.outcome,
        drawing=svg.draw_rows(
            [_target_row(outcome, mean, scale) for mean in shown],
            scale,
            ticks=svg.share_ticks(scale) if outcome.is_share else None,
        ),
        label=f"{tables.shorten(outcome.outcome, 60)}: mean and {percent} interval on "
        f"{len(outcome.means)} targets.",
        table=_means_table(outcome, percent),
        meaning=f"Lines are {percent} intervals. All targets are weighted from the same images, so "
        "intervals may overlap although the difference is clear; the table above tests it.",
        keys=(svg.Key("debiased", "Mean on the target"),),
    )


def _target_row(outcome: OutcomeByTarget, mean: MeanOnTarget, scale: svg.Scale) -> svg.Row:
    marks = svg.interval_line(mean.interval, scale) + svg.value_mark("debiased", mean.value, scale)
    return svg.Row(
        mean.name, marks, f"{_amount(outcome, mean.value)} ({_ends(outcome, mean.interval)})"
    )


def _means_table(outcome: OutcomeByTarget, percent: str) -> tables.PageTable:
    columns = ("Target", "Mean", "Standard error", f"{percent} from", f"{percent} to")
    rows = [
        [
            tables.name_cell(mean.name),
            _amount_cell(outcome, mean.value),
            tables.error_cell(mean.stderr, lambda error: _amount(outcome, error)),
            *(_amount_cell(outcome, end) for end in mean.interval),
        ]
        for mean in outcome.means
    ]
    return tables.table(f"By target: {outcome.outcome}", columns, rows)


def _value_of(outcome: OutcomeByTarget, name: str) -> Number:
    return next((mean.value for mean in outcome.means if mean.name == name), None)


def _amount(outcome: OutcomeByTarget, value: Number) -> str:
    return tables.show_share(value) if outcome.is_share else tables.show_number(value)


def _amount_cell(outcome: OutcomeByTarget, value: Number) -> tables.TableCell:
    return tables.TableCell(_amount(outcome, value), value)


def _with_error(outcome: OutcomeByTarget, value: Number, stderr: Number) -> tables.TableCell:
    cell = _amount_cell(outcome, value)
    error = "" if stderr is None else f" ± {_amount(outcome, stderr)}"
    return replace(cell, text=cell.text + error)


def _ends(outcome: OutcomeByTarget, interval: Sequence[Number]) -> str:
    if None in interval:
        return tables.MISSING
    return " to ".join(_amount(outcome, end) for end in interval)
