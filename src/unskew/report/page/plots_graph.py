"""The overlap graph of a few sources."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.figures import Figure, Key
from unskew.report.page.numbers import shorten, show_count
from unskew.report.page.overlap_tables import weak_link_table
from unskew.report.page.svg import join, tag
from unskew.report.page.tables import table
from unskew.report.summary.record import OverlapPanel

# A circle of more sources than this is a ball of wool; the weakest links are then listed instead.
MOST_IN_GRAPH = 12


def plot_graph(panel: OverlapPanel) -> Figure | None:
    """Draw the overlap graph of up to a dozen sources on a circle, its weakest link marked."""
    size = len(panel.names)
    if panel.link_count is None or not 2 <= size <= MOST_IN_GRAPH:
        return None
    position = _circle(size)
    link = panel.weakest_link
    weak = None if link is None else (panel.names.index(link[0]), panel.names.index(link[1]))
    edges = join(
        _edge(panel, k, other, position, weak) for k in range(size) for other in range(k + 1, size)
    )
    nodes = join(
        _node(shorten(name, 16), at) for name, at in zip(panel.names, position, strict=True)
    )
    note = _weak_note(panel, weak, position)
    # Room for a label above the first and below the last.
    top, bottom = min(y for _, y in position) - 32, max(y for _, y in position) + 34
    drawn = tag(
        "svg",
        edges,
        nodes,
        note,
        viewBox=f"0 {top:.0f} 460 {bottom - top:.0f}",
        class_="graph",
        aria_hidden="true",
        focusable="false",
    )
    return Figure(
        title="Which sources are linked",
        drawing=drawn,
        label=_graph_label(panel),
        table=weak_link_table(panel) or table("Links", ("Source",), []),
        meaning="Two sources are linked when each could have taken images of the other. The "
        "sources can be compared only if links lead from every source to every other; the weakest "
        "link limits how well.",
        keys=(
            Key("edge", "Linked (the wider, the more images)"),
            Key("edge-one", "One way only"),
            *weak_key(panel, "edge-weak"),
        ),
    )


def _graph_label(panel: OverlapPanel) -> str:
    if len(panel.components) > 1:
        parts = "; ".join(
            ", ".join(shorten(name, 30) for name in part) for part in panel.components
        )
        return (
            f"Overlap graph of {len(panel.names)} sources, which falls into "
            f"{len(panel.components)} parts: {parts}."
        )
    if panel.weakest_link is None:
        return f"Overlap graph of {len(panel.names)} sources."
    first, second = (shorten(name, 30) for name in panel.weakest_link)
    return (
        f"Overlap graph of {len(panel.names)} sources; the weakest link is {first} to "
        f"{second}, "
        f"{show_count(panel.weakest_count)} images."
    )


def _circle(size: int) -> list[tuple[float, float]]:
    """Return positions on an ellipse, the first on top, clockwise."""
    turns = [2 * math.pi * k / size for k in range(size)]
    return [(230 + 98 * math.sin(turn), 165 - 115 * math.cos(turn)) for turn in turns]


def _edge(
    panel: OverlapPanel,
    k: int,
    other: int,
    position: Sequence[tuple[float, float]],
    weak: tuple[int, int] | None,
) -> Markup:
    assert panel.link_count is not None
    there, back = panel.link_count[k][other] or 0.0, panel.link_count[other][k] or 0.0
    if not there and not back:
        return Markup("")
    (x1, y1), (x2, y2) = position[k], position[other]
    if weak is not None and {k, other} == set(weak):
        class_ = "edge-weak"
    else:
        class_ = "edge" if there and back else "edge-one"
    # Width by the order of magnitude of the weaker direction.
    width = 1.0 + 1.1 * math.log10(1.0 + (min(there, back) or max(there, back)))
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, stroke_width=width)


def _node(text: str, at: tuple[float, float]) -> Markup:
    x, y = at
    side = x - 230
    anchor = "middle" if abs(side) < 1 else "start" if side > 0 else "end"
    shift_x = 0.0 if anchor == "middle" else math.copysign(12.0, side)
    shift_y = (-14.0 if y < 165 else 24.0) if anchor == "middle" else 4.0 + 0.06 * (y - 165)
    return tag("circle", cx=x, cy=y, r=6.5, class_="node") + tag(
        "text", text, x=x + shift_x, y=y + shift_y, class_="label", text_anchor=anchor, font_size=14
    )


def _weak_note(
    panel: OverlapPanel, weak: tuple[int, int] | None, position: Sequence[tuple[float, float]]
) -> Markup:
    if weak is None or panel.weakest_count is None:
        return Markup("")
    (x1, y1), (x2, y2) = position[weak[0]], position[weak[1]]
    # A little off the middle, where the other lines cross.
    x, y = x1 + 0.38 * (x2 - x1), y1 + 0.38 * (y2 - y1)
    return tag(
        "text",
        f"{show_count(panel.weakest_count)} images",
        x=x,
        y=y - 6,
        class_="halo weak-text",
        text_anchor="middle",
        font_size=12,
    )


def weak_key(panel: OverlapPanel, mark: str) -> tuple[Key, ...]:
    """Explain the mark of the weakest link, where there is one."""
    return () if panel.weakest_link is None else (Key(mark, "Weakest link"),)
