"""The overlap matrix of the sources as a heat map."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from markupsafe import Markup

from unskew.report.page.figures import Figure, Key
from unskew.report.page.numbers import MISSING, shorten
from unskew.report.page.overlap_tables import Matrix, matrix_table, sources_in_map
from unskew.report.page.plots_graph import weak_key
from unskew.report.page.svg import join, tag
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
    """Draw the overlap matrix (before a solution: the common mass) as a heat map.

    Of very many sources, those on the weakest links are shown.
    """
    full, meaning = _heat_values(panel)
    if full is None:
        return None
    kept = sources_in_map(panel)
    names = [panel.names[k] for k in kept]
    values = [[full[k][other] for other in kept] for k in kept]
    shown = (
        f" ({len(names)} of {len(panel.names)}: those on the weakest links)"
        if len(names) < len(panel.names)
        else ""
    )
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
        tag(
            "text",
            _whole_percent(value),
            x=side + (column + 0.5) * cell,
            y=top + (row + 0.5) * cell + 4,
            class_=f"heat-text on-{_step(value, len(values))}",
            text_anchor="middle",
        )
        for row, line in enumerate(values)
        for column, value in enumerate(line)
    )


def _whole_percent(value: Number) -> str:
    return (
        MISSING
        if value is None
        else "0"
        if value == 0
        else "<1%"
        if value < 0.01
        else f"{100 * value:.0f}%"
    )


def _heat_labels(
    texts: Sequence[str], side: float, top: float, cell: int, font: int, *, slanted: bool
) -> Markup:
    turn = -45 if slanted else -90
    drawn = []
    for k, text in enumerate(texts):
        middle = (k + 0.5) * cell
        x = side + middle + (0 if slanted else 4)
        drawn.append(
            tag(
                "text",
                text,
                x=side - 6,
                y=top + middle + 4,
                class_="label",
                text_anchor="end",
                font_size=font,
            )
        )
        drawn.append(
            tag(
                "text",
                text,
                transform=f"translate({x:.1f} {top - 6:.1f}) rotate({turn})",
                class_="label",
                font_size=font,
            )
        )
    return join(drawn)
