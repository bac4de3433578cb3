"""Ranges of target means when selection differs from the model."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.figures import Figure, Key, Row, draw_rows, span_line
from unskew.report.page.numbers import MISSING, shorten, show_number
from unskew.report.page.svg import join, mark, scale_of, tag
from unskew.report.page.tables import (
    PageTable,
    TableCell,
    TableColumn,
    name_cell,
    number_cell,
    table,
)
from unskew.report.summary.record import SensitivityRow

_MOST_OUTCOMES = 12


def plot_sensitivity(rows: Sequence[SensitivityRow]) -> Figure:
    """Draw the range of target means if selection differs from the model by a hidden factor.

    Each outcome has its own axis.
    """
    outcomes = list(dict.fromkeys(row.outcome for row in rows))
    drawn = [
        tag("p", tag("bdi", shorten(outcome, 90)), class_="outcome")
        + _draw_ranges([row for row in rows if row.outcome == outcome])
        for outcome in outcomes[:_MOST_OUTCOMES]
    ]
    scopes = "; ".join(dict.fromkeys(row.scope for row in rows if row.scope))
    return Figure(
        title="If selection differs from the model by a hidden factor",
        drawing=join(drawn),
        label=f"Range of {len(outcomes)} target means when a hidden selection factor may vary.",
        table=_range_table(rows),
        meaning="No data can show how likely all sources together are to miss a kind of image. If "
        f"that chance varied within the factor{f' ({scopes})' if scopes else ''}, the estimate "
        "could be anywhere in the range; a conclusion that holds across it does not depend on the "
        "assumption.",
        keys=(
            Key("debiased", "Estimate"),
            Key("interval", "Range"),
            Key("interval-second", "Range with sampling error (95%)"),
        ),
    )


def _range_table(rows: Sequence[SensitivityRow]) -> PageTable:
    columns = (
        "Outcome",
        "Factor",
        TableColumn("Varies", numeric=False),
        "Estimate",
        "Lowest",
        "Highest",
        "Interval from",
        "Interval to",
    )
    cells = (
        [name_cell(row.outcome), number_cell(row.factor), TableCell(row.scope or MISSING)]
        + [number_cell(value) for value in (row.value, row.low, row.high, *row.interval)]
        for row in rows
    )
    return table("Sensitivity of target means", columns, cells).without_empty()


def _draw_ranges(rows: Sequence[SensitivityRow]) -> Markup:
    scale = scale_of(
        [value for row in rows for value in (row.value, row.low, row.high, *row.interval)]
    )
    drawn = []
    for row in rows:
        marks = Markup("")
        for (low, high), y, class_ in (
            ((row.low, row.high), 10, "interval"),
            (row.interval, 19, "interval second"),
        ):
            if low is not None and high is not None:
                marks += span_line(scale.at(low), scale.at(high), y, class_)
        if row.value is not None:
            marks += mark("debiased", scale.at(row.value), 10)
        text = f"{show_number(row.low)} to {show_number(row.high)}"
        drawn.append(Row(name=f"factor {show_number(row.factor)}", marks=marks, text=text))
    return draw_rows(drawn, scale)
