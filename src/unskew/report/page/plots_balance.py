"""How far columns are from the target, before and after weighting."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.figures import Figure, Key, Row, draw_rows, joined_marks, span_line
from unskew.report.page.numbers import MISSING
from unskew.report.page.svg import mark, scale_of
from unskew.report.page.tables import (
    PageTable,
    TableCell,
    name_cell,
    number_cell,
    share_cell,
    signed_cell,
    table,
)
from unskew.report.summary.record import BalanceRow

# A standardised difference below this is commonly taken as negligible (Austin 2009, Statistics in
# Medicine 28:3083).
NEGLIGIBLE = 0.1


def plot_balance(rows: Sequence[BalanceRow], title: str, meaning: str) -> Figure:
    """Draw the love plot: standardised differences from the target, largest first."""
    ordered = sorted(rows, key=lambda row: -max(abs(row.before or 0.0), abs(row.after or 0.0)))
    scale = scale_of(
        [value for row in ordered for value in (row.before, row.after)],
        symmetric=True,
        include=(-0.15, 0.15),
    )
    drawn = []
    for row in ordered:
        marks = joined_marks((("pool", row.before), ("debiased", row.after)), scale)
        text = f"{_hundredths(row.before)} → {_hundredths(row.after)}"
        drawn.append(Row(name=balance_name(row), marks=marks, text=text))
    return Figure(
        title=title,
        drawing=draw_rows(drawn, scale, guides=(-NEGLIGIBLE, 0.0, NEGLIGIBLE)),
        label="Standardised difference from the target before and after weighting, for "
        f"{len(rows)} columns or levels.",
        table=balance_table(title, ordered),
        meaning=meaning,
        keys=(
            Key("pool", "Before: pool as collected"),
            Key("debiased", "After: debiased"),
            Key("guide", "0, and ±0.1 (negligible)"),
        ),
    )


def balance_table(caption: str, rows: Sequence[BalanceRow]) -> PageTable:
    """Tabulate the numbers of a love plot."""
    return table(
        caption,
        ("Column", "Pool", "Debiased", "Target", "Difference before", "Difference after"),
        (
            [
                name_cell(balance_name(row)),
                *_means(row),
                signed_cell(row.before),
                signed_cell(row.after),
            ]
            for row in rows
        ),
        note="Levels: share of the images; numbers: their mean. Differences are in standard "
        "deviations of the pool.",
    )


def plot_moves(rows: Sequence[BalanceRow], title: str, meaning: str) -> Figure:
    """Draw how far weighting moved columns without a known target, in standard deviations."""
    ordered = sorted(rows, key=lambda row: -abs(row.after or 0.0))
    scale = scale_of([row.after for row in ordered], symmetric=True, include=(-0.15, 0.15))
    drawn = []
    for row in ordered:
        marks = Markup("")
        if row.after is not None:
            marks = span_line(scale.at(0.0), scale.at(row.after), 13, "move") + mark(
                "debiased", scale.at(row.after), 13
            )
        drawn.append(Row(balance_name(row), marks, _hundredths(row.after)))
    return Figure(
        title=title,
        drawing=draw_rows(drawn, scale, guides=(-NEGLIGIBLE, 0.0, NEGLIGIBLE)),
        label=f"Change under weighting of {len(rows)} columns or levels outside the target, in "
        "standard deviations of the pool.",
        table=table(
            title,
            ("Column", "Pool", "Debiased", "Change, in standard deviations"),
            (
                [name_cell(balance_name(row)), *_means(row)[:2], signed_cell(row.after)]
                for row in ordered
            ),
        ),
        meaning=meaning,
        keys=(Key("debiased", "Change under weighting"), Key("guide", "0, and ±0.1 (small)")),
    )


def balance_name(row: BalanceRow) -> str:
    """Return ``species = fox``, or the column's name alone."""
    return row.column if row.level is None else f"{row.column} = {row.level}"


def _means(row: BalanceRow) -> list[TableCell]:
    show = number_cell if row.level is None else share_cell
    return [show(row.pool), show(row.weighted), show(row.target)]


def _hundredths(value: float | None) -> str:
    """Show a standardised difference to the precision that matters."""
    return (
        MISSING
        if value is None
        else f"{value:+.2f}".replace("-", "−").replace("+0.00", "0.00").replace("−0.00", "0.00")
    )
