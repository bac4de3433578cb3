"""SVG by hand: elements, scales, axes, and a figure with its table.

Positions along x are percentages of the drawing's width, those along y are pixels: a drawing takes
whatever width it is given, and its text keeps its size, on a phone as on paper. Nothing here
carries a colour; classes do, and the style sheet knows light, dark and print.

Every figure carries its table, so that none can be shown without its numbers. Most are rows of
named things (sources, columns, levels): a label, marks on a common scale, and numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from unskew.report.page.tables import PageTable, shorten, show_name, show_number

# Curves are drawn in a box of this many units and stretched to the width there is.
BOX = 1000.0


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; children that are not markup are escaped, and so are attributes.

    ``class_`` gives class, ``x_y`` gives x-y.

    >>> tag("text", "<b>", x=1.5, class_="tick")
    Markup('<text x="1.5" class="tick">&lt;b&gt;</text>')
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(
        child if isinstance(child, Markup) else escape(show_name(child)) for child in children
    )
    return Markup(f"<{name}{shown}>{inside}</{name}>")


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(escape(show_name(value)))


def join(parts: Iterable[Markup]) -> Markup:
    """Return elements one after the other."""
    return Markup("").join(parts)


def x_position(value: float) -> str:
    """Return a position along x."""
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Scale:
    """From numbers to the unit interval; ``log`` for a logarithmic axis."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the position of ``value``, 0 at ``low`` and below, 1 at ``high`` and above."""
        low, high, value = (
            math.log10(max(number, 1e-300)) if self.log else number
            for number in (self.low, self.high, value)
        )
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def ticks(self, most: int = 5) -> list[float]:
        """Return round numbers between the ends, at most ``most`` of them."""
        if self.log:
            return _log_ticks(self.low, self.high, most)
        return _round_ticks(self.low, self.high, most)


def scale_of(
    values: Iterable[float | None],
    *,
    log: bool = False,
    symmetric: bool = False,
    include: Sequence[float] = (),
) -> Scale:
    """Return the scale that holds all of the values, with a little room; ``symmetric`` around 0."""
    known = [
        value
        for value in (*values, *include)
        if value is not None and math.isfinite(value) and (value > 0 or not log)
    ]
    if not known:
        return Scale(0.1, 10.0, log=True) if log else Scale(-1.0 if symmetric else 0.0, 1.0)
    low, high = min(known), max(known)
    if symmetric:
        reach = max(abs(low), abs(high), 1e-12) * 1.05
        return Scale(-reach, reach)
    if log:
        room = max((high / low) ** 0.04, 1.1)
        return Scale(low / room, high * room, log=True)
    room = 0.04 * (high - low) or 0.05 * abs(high) or 0.5
    return Scale(low if low == 0 else low - room, high + room)


def _round_ticks(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    # The widest of 1, 2, 5, 10 times a power of ten that leaves no more than ``most``.
    step = next(
        step * factor
        for factor in (1, 2, 5, 10, 20, 50)
        if _count_ticks(low, high, step * factor) <= most
    )
    first = math.ceil(low / step - 1e-9)
    return [float(f"{(first + k) * step:.12g}") for k in range(_count_ticks(low, high, step))]


def _count_ticks(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return 1, 2, 5 and powers of ten, only powers of ten where those are many."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    fine = [float(f"{factor}e{k}") for k in range(first - 1, last + 1) for factor in (1, 2, 5)]
    inside = [value for value in fine if low <= value <= high]
    if 2 <= len(inside) <= most:
        return inside
    if len(inside) < 2:
        return _round_ticks(low, high, 3)
    step = math.ceil((last - first + 1) / most)
    return [float(f"1e{k}") for k in range(first, last + 1) if (k - first) % step == 0]


def axis_ticks(
    scale: Scale,
    *,
    most: int = 5,
    shown: Iterable[str] | None = None,
    ticks: Sequence[float] | None = None,
) -> Markup:
    """Draw the numbers below an axis, in a drawing of their own, 20 pixels high."""
    values = scale.ticks(most) if ticks is None else ticks
    texts = [show_number(value) for value in values] if shown is None else list(shown)
    return join(_tick(scale.at(value), text) for value, text in zip(values, texts, strict=True))


def _tick(position: float, text: str) -> Markup:
    anchor = "start" if position < 0.04 else "end" if position > 0.96 else "middle"
    return tag(
        "line", x1=x_position(position), x2=x_position(position), y1=0, y2=4, class_="axis"
    ) + tag("text", text, x=x_position(position), y=16, class_="tick", text_anchor=anchor)


def grid_lines(positions: Iterable[float], class_: str = "grid") -> Markup:
    """Draw vertical lines over the full height, at parts of the width."""
    return join(
        tag(
            "line", x1=x_position(position), x2=x_position(position), y1=0, y2="100%", class_=class_
        )
        for position in positions
    )


def middle_text(text: str, x: float | str, y: float, class_: str, **more: object) -> Markup:
    """Write a text whose middle is at ``x``."""
    return tag("text", text, x=x, y=y, class_=class_, text_anchor="middle", **more)


def mark(kind: str, position: float, y: float) -> Markup:
    """Draw one of the page's marks (pool, debiased, target …), each with its own shape."""
    return tag("use", href=f"#m-{kind}", x=x_position(position), y=y)


def stretch_lines(
    points: Sequence[tuple[float, float]], class_: str, *, close: bool = False
) -> Markup:
    """Draw a polyline through points of the unit square, y upwards, in a `stretched` drawing."""
    if not points:
        return Markup("")
    path = "M" + "L".join(f"{BOX * x:.0f} {BOX * (1 - y):.0f}" for x, y in points)
    if close:
        path += f"L{BOX * points[-1][0]:.0f} {BOX:.0f}L{BOX * points[0][0]:.0f} {BOX:.0f}Z"
    return tag("path", d=path, class_=class_)


def stretched(*children: Markup, y: float, height: float) -> Markup:
    """Stretch what is drawn in the box of `stretch_lines` over the full width at ``y``."""
    box = f"0 0 {BOX:.0f} {BOX:.0f}"
    return tag(
        "svg",
        *children,
        y=y,
        width="100%",
        height=height,
        viewBox=box,
        preserveAspectRatio="none",
        class_="stretched",
    )


def canvas(*children: Markup, height: float, class_: str = "plot") -> Markup:
    """Return a drawing that fills its width."""
    return tag(
        "svg",
        *children,
        width="100%",
        height=height,
        class_=class_,
        aria_hidden="true",
        focusable="false",
    )


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


def interval_line(
    interval: tuple[float | None, float | None] | None,
    scale: Scale,
    class_: str = "interval",
    y: float = 13,
) -> Markup:
    """Draw an interval; nothing where an end is not known."""
    low, high = interval or (None, None)
    if low is None or high is None:
        return Markup("")
    return span_line(scale.at(low), scale.at(high), y, class_)


def value_mark(kind: str, value: float | None, scale: Scale, y: float = 13) -> Markup:
    """Draw a mark at a value; nothing where it is not known."""
    return Markup("") if value is None else mark(kind, scale.at(value), y)


def level_lines(levels: Iterable[tuple[float, str]], class_: str = "tick") -> Markup:
    """Draw lines across at heights y, each with its number above it."""
    return join(
        tag("line", x1="0%", x2="100%", y1=y, y2=y, class_="grid")
        + tag("text", text, x=0, y=y - 3, class_=class_)
        for y, text in levels
    )


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
