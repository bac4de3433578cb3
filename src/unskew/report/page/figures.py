"""Figures of the page: a drawing, its legend, and the table behind it.

Every figure carries its table, so that none can be shown without its numbers. Most are rows of
named things (sources, columns, levels): a label, marks on a common scale, and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unskew.report.page.numbers import shorten
from unskew.report.page.svg import (
    Scale,
    axis_ticks,
    canvas,
    grid_lines,
    join,
    mark,
    tag,
    x_position,
)
from unskew.report.page.tables import PageTable

# More rows than this are unreadable as a picture; the table behind it has them all.
MOST_DRAWN = 60


@dataclass(frozen=True)
class Key:
    """A line of a legend: the mark's name (see `unskew.report.page.svg.mark`) and its meaning."""

    mark: str
    text: str


@dataclass(frozen=True)
class Figure:
    """A drawing, its description for screen readers, and the table behind it."""

    title: str
    drawing: Markup
    label: str
    table: PageTable
    meaning: str = ""
    keys: tuple[Key, ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Row:
    """One line of a figure: name, marks, and its numbers as text on the right."""

    name: str
    marks: Markup
    text: str


SERIES = (
    Key("pool", "Pool as collected"),
    Key("debiased", "Debiased (weighted)"),
    Key("target", "Target"),
)


def draw_rows(
    rows: Sequence[Row],
    scale: Scale,
    *,
    guides: Iterable[float] = (),
    ticks: Sequence[str] | None = None,
) -> Markup:
    """Draw rows below one another on a common axis, with a line through each of the ``guides``."""
    positions = [scale.at(value) for value in scale.ticks()]
    lines = grid_lines(positions) + grid_lines([scale.at(value) for value in guides], "guide")
    drawn = [draw_row(row, lines) for row in rows[:MOST_DRAWN]]
    foot = draw_row(Row("", axis_ticks(scale, shown=ticks), ""), Markup(""), height=20)
    return tag("div", *drawn, foot, class_="rows" if len(rows) <= 16 else "rows dense")


def draw_row(row: Row, lines: Markup, height: int = 26) -> Markup:
    """Draw one line: the name, the marks over ``lines``, the numbers."""
    name = tag("span", tag("bdi", shorten(row.name, 60)), class_="row-name")
    return tag(
        "div",
        name,
        canvas(lines, row.marks, height=height, class_="track"),
        tag("span", row.text, class_="row-text"),
        class_="row",
    )


def span_line(low: float, high: float, y: float, class_: str) -> Markup:
    """Draw a horizontal line between two parts of the width."""
    return tag("line", x1=x_position(low), x2=x_position(high), y1=y, y2=y, class_=class_)


def joined_marks(values: Iterable[tuple[str, float | None]], scale: Scale, y: float = 13) -> Markup:
    """Draw a mark for each (kind, value) that is known, and a line that joins them."""
    positions = [(kind, scale.at(value)) for kind, value in values if value is not None]
    marks = join(mark(kind, position, y) for kind, position in positions)
    if len(positions) < 2:
        return marks
    ends = [position for _, position in positions]
    return span_line(min(ends), max(ends), y, "move") + marks


def share_ticks(scale: Scale) -> list[str]:
    """Return the ticks of an axis of shares, in percent."""
    return [f"{100 * value:.6g}%" for value in scale.ticks()]
