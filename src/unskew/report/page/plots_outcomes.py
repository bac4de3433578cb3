"""Target means: both intervals, a forest plot of the sources, and the others without each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from unskew.report.page import svg, tables
from unskew.report.summary.record import Number, OutcomePanel, OutcomeSource

AGREED = "If the sources agree"
NEW_SOURCE = "A source like none of these"
_HEADS = {"agreed": AGREED, "new source": NEW_SOURCE, "all sources": "From one source to the other"}
_VERDICTS = {"agree": "agree", "disagree": "disagree", "not compared": "cannot be compared"}
LEVELS = {"agree": "ok", "disagree": "weak", "not compared": ""}


def outcome_amount(panel: OutcomePanel, value: Number) -> str:
    """Show a share in percent, another mean as a number."""
    return tables.show_share(value) if panel.is_share else tables.show_number(value)


def outcome_interval(panel: OutcomePanel, interval: tuple[Number, Number] | None) -> str:
    """Show an interval, as in ``33.5% to 36.1%``; where there is none, that it cannot be said."""
    if interval is None:
        return "cannot say"
    if None in interval:
        return tables.MISSING
    return " to ".join(outcome_amount(panel, end) for end in interval)


def outcome_table(outcomes: Sequence[OutcomePanel]) -> tables.PageTable:
    """Tabulate both intervals of every outcome, and which comes first."""
    return tables.list_rows(
        "Target means, with both intervals",
        outcomes,
        ("Outcome", lambda row: tables.name_cell(row.outcome)),
        ("Mean of all", lambda row: _value_cell(row, row.value, row.stderr)),
        (AGREED, lambda row: tables.TableCell(outcome_interval(row, row.agreed), row.value)),
        (
            NEW_SOURCE,
            lambda row: tables.TableCell(outcome_interval(row, row.new_source), row.value),
        ),
        (
            tables.words("Comes first", wide=True),
            lambda row: tables.TableCell(
                f"{_HEADS[row.heads]}: {outcome_interval(row, row.interval)}"
            ),
        ),
        (tables.words("The sources"), lambda row: tables.TableCell(_VERDICTS[row.verdict])),
        marked=lambda row: row.verdict == "disagree",
    )


def plot_forest(panel: OutcomePanel) -> svg.Figure | None:
    """Draw what each source says alone, the agreed mean, and the interval for another source."""
    if len(panel.by_source) < 2:
        return None
    scale = _scale(panel)
    rows = [_source_row(panel, row, scale) for row in panel.by_source[: svg.MOST_DRAWN - 2]]
    rows.append(
        svg.Row(
            AGREED,
            svg.interval_line(panel.agreed, scale, "interval")
            + svg.value_mark("debiased", panel.value, scale),
            _text(panel, panel.value, panel.agreed),
        )
    )
    rows.append(
        svg.Row(
            NEW_SOURCE,
            svg.interval_line(panel.new_source, scale, "interval second"),
            outcome_interval(panel, panel.new_source),
        )
    )
    compared = sum(row.value is not None for row in panel.by_source)
    percent = f"{100 * panel.level:g}%"
    return svg.Figure(
        title="What each source says alone, after weighting",
        drawing=svg.draw_rows(
            rows,
            scale,
            guides=() if panel.value is None else (panel.value,),
            ticks=svg.share_ticks(scale) if panel.is_share else None,
        ),
        label=f"{tables.shorten(panel.outcome, 60)}: {percent} intervals of {compared} sources, of "
        f"the mean of all if they agree ({outcome_interval(panel, panel.agreed)}), and for a "
        f"source like none of these ({outcome_interval(panel, panel.new_source)}).",
        table=_forest_table(panel, percent),
        meaning=f"Lines are {percent} intervals. The last one is about what one more source would "
        "measure, and counts the spread between these; with few sources it is wide, with two it "
        "cannot be given.",
        keys=(
            svg.Key("baseline", "One source alone"),
            svg.Key("debiased", "Mean of all"),
            svg.Key("interval-second", NEW_SOURCE),
        ),
    )


def without_table(panel: OutcomePanel) -> tables.PageTable | None:
    """Tabulate the others without each source in turn; None with fewer than three sources."""
    if not panel.without:
        return None
    return tables.list_rows(
        f"Without each source in turn: {panel.outcome}",
        panel.without,
        ("Left out", lambda row: tables.name_cell(row.name)),
        ("Mean of the others", lambda row: _value_cell(panel, row.value, row.stderr)),
        (
            "Their spread" + (" (logit scale)" if panel.scale == "logit" else ""),
            lambda row: tables.number_cell(row.between_sd),
        ),
        ("p-value of agreement", lambda row: tables.p_value_cell(row.p_value)),
        (
            tables.words("The others"),
            lambda row: tables.TableCell(
                "disagree" if row.disagree else "agree", float(row.disagree)
            ),
        ),
        marked=lambda row: row.name == panel.odd_source,
    ).without_empty()


def _scale(panel: OutcomePanel) -> svg.Scale:
    ends = [panel.value, *panel.agreed, *(panel.new_source or ())]
    return svg.scale_of(
        [*ends, *(end for row in panel.by_source for end in (row.value, *row.interval))]
    )


def _source_row(panel: OutcomePanel, row: OutcomeSource, scale: svg.Scale) -> svg.Row:
    if row.value is None:
        return svg.Row(row.name, Markup(""), "withheld" if row.withheld else "not compared")
    marks = svg.interval_line(row.interval, scale, "interval of-baseline") + svg.value_mark(
        "baseline", row.value, scale
    )
    return svg.Row(row.name, marks, _text(panel, row.value, row.interval))


def _text(panel: OutcomePanel, value: Number, interval: tuple[Number, Number]) -> str:
    return f"{outcome_amount(panel, value)} ({outcome_interval(panel, interval)})"


def _value_cell(panel: OutcomePanel, value: Number, stderr: Number) -> tables.TableCell:
    cell = tables.share_cell(value) if panel.is_share else tables.number_cell(value)
    if stderr is None:
        return cell
    return replace(cell, text=f"{cell.text} ± {outcome_amount(panel, stderr)}")


def _forest_table(panel: OutcomePanel, percent: str) -> tables.PageTable:
    columns = (
        "Source",
        "Estimate",
        "Standard error",
        f"{percent} from",
        f"{percent} to",
        "Images",
        "Share of the target it sees",
    )

    def cells(
        name: str, value: Number, stderr: Number, ends: tuple[Number, Number] | None
    ) -> list[tables.TableCell]:
        return [
            tables.name_cell(name),
            tables.TableCell(outcome_amount(panel, value), value),
            tables.error_cell(stderr, lambda error: outcome_amount(panel, error)),
            *(tables.TableCell(outcome_amount(panel, end), end) for end in ends or (None, None)),
        ]

    rows = [
        [
            *cells(row.name, row.value, row.stderr, row.interval),
            tables.count_cell(row.images),
            tables.share_cell(row.share),
        ]
        for row in panel.by_source
    ]
    last = [tables.count_cell(None), tables.share_cell(None)]
    rows.append([*cells(AGREED, panel.value, panel.stderr, panel.agreed), *last])
    rows.append([*cells(NEW_SOURCE, None, None, panel.new_source), *last])
    return tables.table(f"By source: {panel.outcome}", columns, rows).without_empty()
