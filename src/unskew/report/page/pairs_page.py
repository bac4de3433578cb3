"""The page of compared pairs, `pairs.html`: ROC, error rates and subgroups, from `pairs.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from unskew.report.page import svg, tables
from unskew.report.page.html import render_template

_HEIGHT = 260
_MOST_CURVES = 6
_NAMES = {"fmr": "False match rate", "fnmr": "False non-match rate"}

Record = Mapping[str, Any]


def render_pairs_page(record: Record) -> str:
    """Return the page of an evaluation of pairs, given as `pairs.json` holds it."""
    overall = record["overall"]
    figures = [("Equal error rate", show_rate(overall["equal_error"]))]
    figures += [
        (f"FNMR at {point_name(point)}", show_rate(point["fnmr"])) for point in overall["points"]
    ]
    return render_template(
        "pairs.html",
        record=record,
        figures=figures,
        points=_point_table(overall["points"], record["level"]),
        roc=plot_roc(record),
        subgroups=[
            (part, [plot_subgroups(part, at, rate) for at, rate in _choices(overall)], _gaps(part))
            for part in record["breakdowns"]
            if part["cells"]
        ],
    )


def point_name(point: Record) -> str:
    """Name a threshold, or the false match rate that it was chosen for."""
    if point["target_fmr"] is not None:
        return f"FMR {100 * point['target_fmr']:g}%"
    return f"threshold {tables.show_number(point['threshold'], 4)}"


def show_rate(figure: Record) -> str:
    """Show a rate with its interval: ``2.1% (1.7% to 2.6%)``."""
    return (
        tables.MISSING
        if figure["value"] is None
        else f"{tables.show_share(figure['value'])} ({_ends(figure)})"
    )


def _ends(figure: Record) -> str:
    if figure["interval"] is None:
        return tables.MISSING
    low, high = figure["interval"]
    return f"{tables.show_share(low)} to {tables.show_share(high)}"


def _choices(overall: Record) -> list[tuple[int, str]]:
    return [(at, rate) for at in range(len(overall["points"])) for rate in _NAMES]


def _rate_cells(figure: Record) -> list[tables.TableCell]:
    return [
        tables.TableCell(tables.show_share(figure["value"]), figure["value"]),
        tables.TableCell(_ends(figure), figure["value"]),
        tables.TableCell(tables.show_share(figure["unweighted"]), figure["unweighted"]),
    ]


def _point_table(points: Sequence[Record], level: float) -> tables.PageTable:
    interval = f"{100 * level:g}% interval"
    columns = ("At", "Threshold", "FMR", interval, "Unweighted", "FNMR", interval, "Unweighted")
    rows = (
        [
            tables.name_cell(point_name(point)),
            tables.number_cell(point["threshold"]),
            *_rate_cells(point["fmr"]),
            *_rate_cells(point["fnmr"]),
        ]
        for point in points
    )
    return tables.table("Error rates on the target", columns, rows)


def plot_roc(record: Record) -> svg.Figure:
    """Draw FNMR against FMR (logarithmic), with the band of all pairs, and some subgroups."""
    curves = {"all pairs": record["overall"]["roc"]}
    if record["breakdowns"]:
        cells = record["breakdowns"][0]["cells"]
        curves |= {cell["name"]: cell["roc"] for cell in cells[:_MOST_CURVES] if cell["roc"]}
    known = {name: [point for point in roc if point["fmr"] > 0] for name, roc in curves.items()}
    scale = svg.scale_of(
        [p["fmr"] for roc in known.values() for p in roc], log=True, include=(1.0,)
    )
    highs = [p["fnmr"] for roc in known.values() for p in roc]
    top = max([*highs, *(p["interval"][1] for p in known["all pairs"] if p["interval"]), 1e-6])
    classes = ["all", *(f"source-{at}" for at in range(_MOST_CURVES))]
    band = [p for p in known["all pairs"] if p["interval"]]
    paths = [
        _line([(p["fmr"], p["interval"][end]) for p in band], scale, top, "even") for end in (0, 1)
    ]
    paths += [
        _line([(p["fmr"], p["fnmr"]) for p in roc], scale, top, class_)
        for roc, class_ in zip(known.values(), classes, strict=False)
    ]
    levels = svg.Scale(0.0, top).ticks(4)
    lines = svg.level_lines(
        (16 + (_HEIGHT - 16) * (1 - level / top), tables.show_share(level)) for level in levels
    )
    ticks = scale.ticks()
    axis = svg.tag(
        "svg",
        svg.axis_ticks(scale, shown=map(tables.show_share, ticks)),
        y=_HEIGHT,
        height=20,
        width="100%",
    )
    drawing = svg.canvas(
        svg.grid_lines([scale.at(tick) for tick in ticks]),
        lines,
        svg.stretched(*paths, y=16, height=_HEIGHT - 16),
        axis,
        height=_HEIGHT + 20,
    )
    keys = [svg.Key("line-all", "All pairs"), svg.Key("line-even", "Its interval")]
    names = list(known)[1:]
    keys += [svg.Key(f"source-{at}", name) for at, name in enumerate(names)]
    best = show_rate(record["overall"]["equal_error"])
    return svg.Figure(
        title="False non-match rate against false match rate",
        drawing=drawing,
        label=f"ROC of {len(known)} sets of pairs on the target. Equal error rate {best}.",
        table=_roc_table(curves),
        meaning="The lower, the better. The false match rate is on a logarithmic axis, from that "
        "of a single pair to 1. Subgroups are those of the first column.",
        keys=tuple(keys),
        wide=True,
    )


def _line(
    points: Sequence[tuple[float, float]], scale: svg.Scale, top: float, class_: str
) -> Markup:
    places = [(scale.at(x), min(y / top, 1.0)) for x, y in points]
    return svg.stretch_lines(places, f"line {class_}")


def _roc_table(curves: Mapping[str, Sequence[Record]]) -> tables.PageTable:
    rows = (
        [
            tables.name_cell(name),
            tables.TableCell(tables.show_share(point["fmr"]), point["fmr"]),
            tables.TableCell(tables.show_share(point["fnmr"]), point["fnmr"]),
            tables.TableCell(_ends(point), point["fnmr"]),
            tables.number_cell(point["threshold"]),
        ]
        for name, roc in curves.items()
        for point in roc
    )
    return tables.table("The ROC", ("Pairs", "FMR", "FNMR", "Interval of FNMR", "Threshold"), rows)


def plot_subgroups(part: Record, at: int, rate: str) -> svg.Figure:
    """Draw one rate of every subgroup at one threshold, with intervals."""
    cells = part["cells"]
    figures = [cell["points"][at][rate] for cell in cells]
    scale = svg.scale_of(
        [end for figure in figures for end in (figure["interval"] or ())], include=(0.0,)
    )
    rows = [
        svg.Row(cell["name"], _interval_mark(figure, scale), tables.show_share(figure["value"]))
        for cell, figure in zip(cells, figures, strict=True)
    ]
    title = f"{_NAMES[rate]} at {point_name(cells[0]['points'][at])}"
    return svg.Figure(
        title=title,
        drawing=svg.draw_rows(rows, scale, ticks=svg.share_ticks(scale)),
        label=f"{title} of {len(cells)} subgroups by {part['column']}.",
        table=tables.table(
            f"{title}, by {part['column']}",
            ("Subgroup", "Genuine", "Impostor", "Persons", "Rate", "Interval", "Unweighted"),
            (
                [
                    tables.name_cell(cell["name"]),
                    tables.count_cell(cell["genuine"]),
                    tables.count_cell(cell["impostor"]),
                    tables.count_cell(cell["persons"]),
                    *_rate_cells(figure),
                ]
                for cell, figure in zip(cells, figures, strict=True)
            ),
        ),
    )


def _interval_mark(figure: Record, scale: svg.Scale) -> Markup:
    if figure["value"] is None:
        return Markup("")
    line = svg.interval_line(figure["interval"], scale, "interval of-debiased")
    return line + svg.value_mark("debiased", figure["value"], scale)


def _gaps(part: Record) -> tables.PageTable | None:
    """Tabulate the largest gap of each rate at each threshold."""
    if not part["largest"]:
        return None
    columns = (
        "Rate",
        tables.TableColumn("Larger", numeric=False),
        tables.TableColumn("Smaller", numeric=False),
        "Gap",
        "Interval",
        "Unweighted",
    )
    rows = (
        [
            tables.name_cell(f"{_NAMES[gap['rate']]} at {point_name(gap)}"),
            tables.name_cell(gap["first"]),
            tables.name_cell(gap["second"]),
            *_rate_cells(gap["figure"]),
        ]
        for gap in part["largest"]
    )
    note = (
        f"The largest of {tables.show_count(len(part['gaps']))} gaps; the interval counts that it "
        "was chosen. All of them are in pairs.json."
    )
    return tables.table(f"Largest gaps by {part['column']}", columns, rows, note=note)
