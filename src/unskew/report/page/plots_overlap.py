"""The links between sources: heat map, graph and tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.overlap_tables import Matrix, matrix_table, sources_in_map, weak_link_table
from unskew.report.page.svg import Figure, Key, join, middle_text, tag
from unskew.report.page.tables import MISSING, shorten, show_count, table
from unskew.report.summary.record import Number, OverlapPanel

# Steps of the heat map's colour: shares from which each begins. Among many sources even the closest
# share little.
# Up to this many sources, coarse steps of colour are enough.
_FEW = 12
_STEPS_FEW = (1e-12, 0.01, 0.05, 0.1, 0.2, 0.4, 0.7)
_STEPS_MANY = (1e-12, 0.001, 0.005, 0.01, 0.02, 0.05, 0.2)
# A heat map up to this wide may shrink on a phone and stay legible; a wider one scrolls.
_NARROW = 400


def plot_heat(panel: OverlapPanel) -> Figure | None:
    """Draw the overlap matrix (before a solution: the common mass) as a heat map."""
    full, meaning = _heat_values(panel)
    if full is None:
        return None
    kept = sources_in_map(panel)
    names = [panel.names[k] for k in kept]
    values = [[full[k][other] for other in kept] for k in kept]
    shown = ""
    if len(names) < len(panel.names):
        shown = f" ({len(names)} of {len(panel.names)}: those on the weakest links)"
    return Figure(
        title=(
            "How far the sources mix"
            if panel.matrix is not None
            else "Images that two sources could both have taken"
        )
        + shown,
        drawing=_heat_drawing(names, values, panel.weakest_link),
        label=f"Heat map of the overlap of {len(names)} sources.",
        table=matrix_table("Overlap of the sources", names, values),
        meaning=meaning,
        keys=(
            *(Key(f"heat-{step}", text) for step, text in enumerate(_step_texts(len(names)))),
            *weak_key(panel, "heat-weak"),
        ),
        wide=len(names) > 7,
    )


def _heat_values(panel: OverlapPanel) -> tuple[Matrix | None, str]:
    if panel.matrix is not None:
        return panel.matrix, (
            "Row by row: the chance that an image drawn as the row's source draws could be taken "
            "for one of the column's. "
            "Strong colour off the diagonal is good: the sources see the same kinds of images."
        )
    return (
        panel.common_mass,
        "The share of all pooled images that both sources could have taken; 0 is no link.",
    )


def _steps(size: int) -> tuple[float, ...]:
    return _STEPS_FEW if size <= _FEW else _STEPS_MANY


def _step_texts(size: int) -> list[str]:
    edges = [f"{100 * step:g}" for step in _steps(size)[1:]]
    between = [f"{low}–{high}%" for low, high in itertools.pairwise(edges)]
    return ["0", f"below {edges[0]}%", *between, f"from {edges[-1]}%"]


def _step(value: Number, size: int) -> int:
    return 0 if value is None else sum(value >= step for step in _steps(size))


def _heat_drawing(names: Sequence[str], values: Matrix, weakest: tuple[str, str] | None) -> Markup:
    """Draw cells as one path per colour, a few characters each, so that thousands stay small."""
    size = len(names)
    cell = min(40 if size > 4 else 56, max(14, 620 // size))
    longest = 22 if cell >= 40 else 18
    texts = [shorten(name, longest) for name in names]
    font = 12 if cell >= 18 else 11
    side = 8 + 0.62 * font * max(len(text) for text in texts)
    slanted = cell >= 40
    top = side * 0.72 + 14 if slanted else side
    paths: dict[int, list[str]] = {}
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            paths.setdefault(_step(value, size), []).append(
                f"M{side + column * cell:.0f} {top + row * cell:.0f}h{cell}v{cell}h-{cell}z"
            )
    cells = join(
        tag("path", d="".join(parts), class_=f"heat heat-{step}")
        for step, parts in sorted(paths.items())
    )
    numbers = _heat_numbers(values, side, top, cell) if cell >= 40 else Markup("")
    width = _heat_width(texts, side, cell, font) if slanted else side + size * cell + 4
    height = top + size * cell + 4
    drawn = tag(
        "svg",
        cells,
        numbers,
        _heat_outline(names, weakest, side, top, cell),
        _heat_labels(texts, side, top, cell, font, slanted=slanted),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        class_="heat-map few" if width <= _NARROW else "heat-map",
        aria_hidden="true",
        focusable="false",
    )
    return tag(
        "div",
        drawn,
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Heat map; scrolls sideways where it is wide",
    )


def _heat_width(texts: Sequence[str], side: float, cell: int, font: int) -> float:
    """Return the right end of the last cell, or of the slanted label that reaches furthest."""
    reach = [
        side + (k + 0.5) * cell + 0.62 * font * math.sqrt(0.5) * len(text) + 8
        for k, text in enumerate(texts)
    ]
    return max(side + len(texts) * cell + 4, *reach)


def _heat_outline(
    names: Sequence[str], weakest: tuple[str, str] | None, side: float, top: float, cell: int
) -> Markup:
    """Draw a frame around the weakest link."""
    if weakest is None or not set(weakest) <= set(names):
        return Markup("")
    row, column = names.index(weakest[0]), names.index(weakest[1])
    return tag(
        "rect",
        x=side + column * cell + 1,
        y=top + row * cell + 1,
        width=cell - 2,
        height=cell - 2,
        class_="heat-weak",
    )


def _heat_numbers(values: Matrix, side: float, top: float, cell: int) -> Markup:
    return join(
        middle_text(
            _whole_percent(value),
            side + (column + 0.5) * cell,
            top + (row + 0.5) * cell + 4,
            f"heat-text on-{_step(value, len(values))}",
        )
        for row, line in enumerate(values)
        for column, value in enumerate(line)
    )


def _whole_percent(value: Number) -> str:
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if value < 0.01:
        return "<1%"
    return f"{100 * value:.0f}%"


def _heat_labels(
    texts: Sequence[str], side: float, top: float, cell: int, font: int, *, slanted: bool
) -> Markup:
    turn = -45 if slanted else -90
    drawn = []
    for k, text in enumerate(texts):
        middle = (k + 0.5) * cell
        x = side + middle + (0 if slanted else 4)
        at = {"x": side - 6, "y": top + middle + 4}
        drawn.append(tag("text", text, **at, class_="label", text_anchor="end", font_size=font))
        move = f"translate({x:.1f} {top - 6:.1f}) rotate({turn})"
        drawn.append(tag("text", text, transform=move, class_="label", font_size=font))
    return join(drawn)


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
        f"Overlap graph of {len(panel.names)} sources; the weakest link is {first} to {second}, "
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
    text = f"{show_count(panel.weakest_count)} images"
    return middle_text(text, x, y - 6, "halo weak-text", font_size=12)


def weak_key(panel: OverlapPanel, mark: str) -> tuple[Key, ...]:
    """Explain the mark of the weakest link, where there is one."""
    return () if panel.weakest_link is None else (Key(mark, "Weakest link"),)
