"""Small multiples: distributions of columns, and ω along a feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from unskew.report.page import svg, tables
from unskew.report.summary.record import Curve, DistributionPanel, Number

_HEIGHT = 120
# Lines of more sources than this cannot be distinguished; shades by row can.
MOST_LINES = 6
MOST_LEVELS = 14
# A table by source with more cells than this is left to report.json; a curve with more points or
# sources is thinned.
_MOST_CELLS = 300
_MOST_POINTS = 41


def plot_distribution(panel: DistributionPanel) -> svg.Figure:
    """Draw one column: steps for numbers, marks by level for categories."""
    drawing = _draw_numbers(panel) if panel.edges else _draw_levels(panel)
    what = {"label": "class", "attribute": "attribute", "feature": "feature of the images"}[
        panel.role
    ]
    return svg.Figure(
        title=panel.column,
        drawing=drawing,
        label=f"Distribution of {tables.shorten(panel.column)} in the pool, "
        f"debiased{' and in the target' if panel.target is not None else ''}.",
        table=_distribution_table(panel),
        meaning=_distribution_words(panel, what),
        keys=svg.SERIES if panel.target is not None else svg.SERIES[:2],
    )


def _distribution_words(panel: DistributionPanel, what: str) -> str:
    fitted = "fitted" if panel.fitted else "not fitted"
    target = "" if panel.target is not None else "; target unknown"
    words = f"{what.capitalize()}, {fitted}{target}."
    if panel.missing:
        words += f" {tables.show_count(panel.missing)} images without a value are left out."
    return words + (" An image may have several levels." if panel.multiple else "")


def _series(panel: DistributionPanel) -> list[tuple[str, Sequence[Number]]]:
    series = [("pool", panel.pool), ("debiased", panel.weighted), ("target", panel.target)]
    return [
        (kind, values)
        for kind, values in series
        if values is not None and any(value is not None for value in values)
    ]


def _draw_numbers(panel: DistributionPanel) -> Markup:
    """Draw steps whose area is the share; a bin that is withheld is a gap, not a zero."""
    scale = svg.Scale(panel.edges[0], panel.edges[-1])
    bins = [
        (low, high, (high - low) or 1.0)
        for low, high in zip(panel.edges[:-1], panel.edges[1:], strict=True)
    ]
    series = _series(panel)
    top = max(
        (
            value / width
            for _, values in series
            for value, (_, _, width) in zip(values, bins, strict=True)
            if value
        ),
        default=1.0,
    )
    paths = []
    for kind, values in series:
        pieces: list[list[tuple[float, float]]] = [[]]
        for value, (low, high, width) in zip(values, bins, strict=True):
            if value is None:
                pieces.append([])
            else:
                pieces[-1] += [(scale.at(x), 0.97 * value / width / top) for x in (low, high)]
        paths += [
            svg.stretch_lines(
                piece, "area pool" if kind == "pool" else f"line {kind}", close=kind == "pool"
            )
            for piece in pieces
        ]
    axis = svg.tag("svg", svg.axis_ticks(scale, most=4), y=_HEIGHT, width="100%", height=20)
    lines = svg.grid_lines([scale.at(tick) for tick in scale.ticks(4)])
    base = svg.tag("line", x1="0%", x2="100%", y1=_HEIGHT, y2=_HEIGHT, class_="axis")
    return svg.canvas(
        lines, svg.stretched(*paths, y=0, height=_HEIGHT), base, axis, height=_HEIGHT + 20
    )


def _draw_levels(panel: DistributionPanel) -> Markup:
    series = _series(panel)
    order = sorted(
        range(len(panel.levels)),
        key=lambda k: -max((values[k] or 0.0 for _, values in series), default=0.0),
    )[:MOST_LEVELS]
    scale = svg.Scale(
        0.0,
        max((values[k] or 0.0 for _, values in series for k in order), default=1.0) * 1.04 or 1.0,
    )
    rows = []
    for k in sorted(order):
        marks = svg.joined_marks(((kind, values[k]) for kind, values in series), scale)
        rows.append(svg.Row(panel.levels[k], marks, tables.show_share(panel.weighted[k])))
    drawn = svg.draw_rows(rows, scale, ticks=svg.share_ticks(scale))
    left_out = len(panel.levels) - len(order)
    return drawn + (
        svg.tag("p", f"and {left_out} smaller levels, in the table", class_="small")
        if left_out
        else Markup("")
    )


def _distribution_table(panel: DistributionPanel) -> tables.PageTable:
    length = len(panel.levels) or len(panel.edges) - 1
    by = panel.by_source if length * len(panel.by_source) <= _MOST_CELLS else {}
    names = panel.levels or tuple(
        f"{tables.show_number(low)} to {tables.show_number(high)}"
        for low, high in zip(panel.edges[:-1], panel.edges[1:], strict=True)
    )
    first = [
        tables.name_cell(name) if panel.levels else tables.TableCell(name, panel.edges[k])
        for k, name in enumerate(names)
    ]
    columns = ["Level" if panel.levels else "From, to", "Pool", "Debiased"]
    series: list[Sequence[Number]] = [panel.pool, panel.weighted]
    if panel.target is not None:
        columns, series = [*columns, "Target"], [*series, panel.target]
    columns, series = [*columns, *by], [*series, *by.values()]
    counts = [[tables.count_cell(value)] for value in panel.count] or [[] for _ in first]
    if panel.count:
        columns.append("Images")
    rows = (
        [cell, *(tables.share_cell(values[k]) for values in series), *counts[k]]
        for k, cell in enumerate(first)
    )
    return tables.table(f"Distribution of {tables.shorten(panel.column)}", columns, rows, most=120)


def plot_omega(curve: Curve) -> svg.Figure:
    """Draw fitted ω of every source along one feature.

    Lines for a few sources, shades for many, rows of numbers for categories.
    """
    curve = _thinned(curve)
    names = list(curve.omega)
    many = _shaded(curve)
    return svg.Figure(
        title=curve.feature,
        drawing=_draw_shades(curve) if many else _draw_lines(curve),
        label=f"Fitted biasing functions of {len(names)} sources along "
        f"{tables.shorten(curve.feature)}, each scaled to maximum 1.",
        table=_curve_table(curve),
        keys=_shade_keys()
        if many
        else tuple(svg.Key(f"source-{k}", name) for k, name in enumerate(names)),
        wide=many and len(names) > 2 * MOST_LINES,
    )


def _thinned(curve: Curve) -> Curve:
    """Keep no more points and sources of a curve than a page can show."""
    step = -(-len(curve.at) // _MOST_POINTS) or 1
    omega = dict(list(curve.omega.items())[: svg.MOST_DRAWN])
    if curve.levels:
        return replace(curve, omega=omega)
    kept = sorted({*range(0, len(curve.at), step), len(curve.at) - 1})
    return replace(
        curve,
        at=tuple(curve.at[k] for k in kept),
        omega={name: tuple(values[k] for k in kept) for name, values in omega.items()},
    )


def split_curves(curves: Sequence[Curve]) -> tuple[list[Curve], list[Curve]]:
    """Return the curves drawn as lines, and those drawn as shades."""
    curves = curves[: 24 if curves and len(curves[0].omega) <= 2 * MOST_LINES else 8]
    return [curve for curve in curves if not _shaded(curve)], [
        curve for curve in curves if _shaded(curve)
    ]


def _shaded(curve: Curve) -> bool:
    return len(curve.omega) > MOST_LINES or bool(curve.levels)


def _shade_keys() -> tuple[svg.Key, ...]:
    return tuple(
        svg.Key(f"heat-{step}", text)
        for step, text in (
            (0, "0: never selected"),
            (3, "about 0.4"),
            (6, "about 0.9"),
            (7, "1: most likely"),
        )
    )


def _draw_lines(curve: Curve) -> Markup:
    scale = svg.Scale(curve.at[0], curve.at[-1])
    paths = [
        svg.stretch_lines(
            [
                (scale.at(x), 0.95 * y)
                for x, y in zip(curve.at, values, strict=True)
                if y is not None
            ],
            f"line source-{k}",
        )
        for k, values in enumerate(curve.omega.values())
    ]
    levels = svg.level_lines(
        ((14 + _HEIGHT * (1 - 0.95 * value), tables.show_number(value)) for value in (0.5, 1.0)),
        "tick halo",
    )
    axis = svg.tag("svg", svg.axis_ticks(scale, most=4), y=_HEIGHT + 14, width="100%", height=20)
    base = svg.tag("line", x1="0%", x2="100%", y1=_HEIGHT + 14, y2=_HEIGHT + 14, class_="axis")
    lines = svg.grid_lines([scale.at(tick) for tick in scale.ticks(4)])
    return svg.canvas(
        lines, svg.stretched(*paths, y=14, height=_HEIGHT), levels, base, axis, height=_HEIGHT + 34
    )


def _draw_shades(curve: Curve) -> Markup:
    """Draw a strip per source, darker where ω is larger."""
    count = len(curve.levels) or len(curve.at)
    numbers = 0 < len(curve.levels) <= MOST_LINES
    strips = []
    for name, values in curve.omega.items():
        cells, start = [], 0
        for k in range(1, count + 1):
            if k == count or numbers or _shade(values[k]) != _shade(values[start]):
                extent = {
                    "x": svg.x_position(start / count),
                    "width": svg.x_position((k - start) / count),
                }
                cells.append(
                    svg.tag(
                        "rect",
                        **extent,
                        y=3,
                        height=20,
                        class_=f"heat heat-{_shade(values[start])}",
                    )
                )
                start = k
        strips.append(
            svg.Row(name, svg.join(cells) + (_shade_numbers(values) if numbers else Markup("")), "")
        )
    drawn = [svg.draw_row(row, Markup("")) for row in strips] + [
        svg.draw_row(svg.Row("", _shade_axis(curve), ""), Markup(""), height=20)
    ]
    shown = svg.tag(
        "div", *drawn, class_="rows strips" if len(strips) <= 16 else "rows strips dense"
    )
    if curve.levels and not _levels_fit(curve):
        shown += svg.tag("p", f"Left to right: {', '.join(curve.levels[:40])}.", class_="small")
    return shown


def _shade_numbers(values: Sequence[Number]) -> Markup:
    return svg.join(
        svg.middle_text(
            tables.show_number(value, 2),
            svg.x_position((k + 0.5) / len(values)),
            17,
            f"heat-text on-{_shade(value)}",
        )
        for k, value in enumerate(values)
    )


def _shade_axis(curve: Curve) -> Markup:
    if not curve.levels:
        return svg.axis_ticks(svg.Scale(curve.at[0], curve.at[-1]), most=4)
    if not _levels_fit(curve):
        return Markup("")
    return svg.join(
        svg.middle_text(
            tables.shorten(level), svg.x_position((k + 0.5) / len(curve.levels)), 14, "tick"
        )
        for k, level in enumerate(curve.levels)
    )


def _levels_fit(curve: Curve) -> bool:
    """Tell whether the levels' names have room below their cells, on a phone too."""
    return max(len(tables.shorten(level)) for level in curve.levels) < 30 / len(curve.levels)


def _shade(value: Number) -> int:
    """Return 0 where ω is 0, then one of seven steps."""
    return 0 if not value else min(7, 1 + int(7 * value))


def _curve_table(curve: Curve) -> tables.PageTable:
    at = list(curve.levels) or [tables.show_number(value, 4) for value in curve.at]
    first = [
        tables.name_cell(text) if curve.levels else tables.TableCell(text, curve.at[k])
        for k, text in enumerate(at)
    ]
    rows = (
        [cell, *(tables.number_cell(values[k]) for values in curve.omega.values())]
        for k, cell in enumerate(first)
    )
    return tables.table(
        f"Fitted ω along {tables.shorten(curve.feature)}",
        (curve.feature, *curve.omega),
        rows,
        most=120,
    )
