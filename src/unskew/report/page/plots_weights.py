"""The weights: histogram, concentration, and quantiles by source and by class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from unskew.report.page import svg, tables
from unskew.report.summary.record import Histogram, Spread, WeightsPanel

_HEIGHT = 190
_MARGIN = 0.14
# A table with more columns than this is no help; by source and by class there are the quantiles.
MOST_BY = 12


def plot_histogram(panel: WeightsPanel) -> svg.Figure | None:
    """Draw the number of images by sample weight, log₁₀ on the axis."""
    edges, counts = panel.histogram.edges, panel.histogram.count
    if len(edges) < 2:
        return None
    # Room for the numbers of the levels, left of the first bar.
    scale = svg.Scale(edges[0] - _MARGIN * (edges[-1] - edges[0]), edges[-1])
    top = max((count for count in counts if count is not None), default=1.0) or 1.0
    ticks = _decades(scale)
    drawing = svg.canvas(
        svg.grid_lines([scale.at(tick) for tick in ticks]),
        _levels(svg.Scale(0.0, top).ticks(4), top, tables.show_count),
        _bars(panel.histogram, scale, top),
        _average_line(scale),
        _axis(scale, ticks, [tables.show_number(10.0**tick) for tick in ticks]),
        height=_HEIGHT + 20,
    )
    apart = ""
    if panel.zero_weights:
        apart = f" {tables.show_count(panel.zero_weights)} images with weight 0 are not drawn."
    return svg.Figure(
        title="Images by weight",
        drawing=drawing,
        label=f"Histogram of {tables.show_count(panel.images)} sample weights on a logarithmic "
        f"axis.{apart}",
        table=_histogram_table(panel),
        meaning="Weight 1 is the average image. The further the bars spread, the fewer images "
        "carry the result." + apart,
        keys=(svg.Key("bar", "Images"), svg.Key("guide", "Average weight (1)")),
    )


def _decades(scale: svg.Scale) -> list[float]:
    """Return ticks on a log₁₀ axis: decades, or 1, 2, 5 of them where there is less than one."""
    ticks = svg.Scale(10.0**scale.low, 10.0**scale.high, log=True).ticks()
    return [math.log10(tick) for tick in ticks if tick > 0]


def _bars(histogram: Histogram, scale: svg.Scale, top: float) -> Markup:
    bars = []
    for (low, high), count in zip(
        itertools.pairwise(histogram.edges), histogram.count, strict=True
    ):
        if count:
            height = max(1.0, (_HEIGHT - 16) * count / top)
            width = svg.x_position(scale.at(high) - scale.at(low))
            x, y = svg.x_position(scale.at(low)), _HEIGHT - height
            bars.append(svg.tag("rect", x=x, width=width, y=y, height=height, class_="bar"))
    return svg.join(bars)


def _axis(scale: svg.Scale, ticks: Sequence[float], shown: Sequence[str]) -> Markup:
    numbers = svg.axis_ticks(scale, ticks=ticks, shown=shown)
    return svg.tag("svg", numbers, y=_HEIGHT, width="100%", height=20)


def _average_line(scale: svg.Scale) -> Markup:
    return svg.grid_lines([scale.at(0.0)], "guide") if scale.low <= 0 <= scale.high else Markup("")


def _levels(values: Sequence[float], top: float, show: Callable[[float], str]) -> Markup:
    """Draw lines across at positive values, with their numbers above them."""
    return svg.level_lines(
        ((_HEIGHT - (_HEIGHT - 16) * value / top, show(value)) for value in values if value > 0),
        "tick halo",
    )


def _histogram_table(panel: WeightsPanel) -> tables.PageTable:
    edges, by = panel.histogram.edges, panel.histogram.by
    by = by if len(by) <= MOST_BY else {}
    rows = [
        [
            tables.TableCell(
                f"{tables.show_number(10.0**low)} to {tables.show_number(10.0**high)}", low
            ),
            tables.count_cell(panel.histogram.count[k]),
            *(tables.count_cell(counts[k]) for counts in by.values()),
        ]
        for k, (low, high) in enumerate(itertools.pairwise(edges))
    ]
    if panel.zero_weights:
        rows.insert(
            0,
            [
                tables.TableCell("0", -400.0),
                tables.count_cell(panel.zero_weights),
                *(tables.TableCell("") for _ in by),
            ],
        )
    return tables.table("Images by sample weight", ("Sample weight", "Images", *by), rows)


def plot_concentration(panel: WeightsPanel) -> svg.Figure | None:
    """Draw the share of the weight that the heaviest images carry."""
    points = panel.concentration
    if len(points) < 2:
        return None
    curve = svg.stretch_lines([(0.0, 0.0), *points], "line debiased")
    even = svg.stretch_lines([(0.0, 0.0), (1.0, 1.0)], "line even")
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    drawing = svg.canvas(
        svg.grid_lines(ticks),
        svg.stretched(even, curve, y=16, height=_HEIGHT - 16),
        _levels((0.5, 1.0), 1.0, "{:.0%}".format),
        _axis(svg.Scale(0.0, 1.0), ticks, [f"{tick:.0%}" for tick in ticks]),
        height=_HEIGHT + 20,
    )
    return svg.Figure(
        title="Weight carried by the heaviest images",
        drawing=drawing,
        label="Concentration curve: the heaviest 1% of the images carry "
        f"{tables.show_share(panel.top_percent_share)} of the weight.",
        table=tables.table(
            "Concentration",
            ("Heaviest images", "Share of the weight"),
            ([tables.TableCell(tables.show_share(x), x), tables.share_cell(y)] for x, y in points),
        ),
        meaning="Along the axis the images, heaviest first. The heaviest 1% carry "
        f"{tables.show_share(panel.top_percent_share)} of the weight; "
        "with equal weights it would be 1%.",
        keys=(
            svg.Key("line-debiased", "Share of the weight"),
            svg.Key("line-even", "Equal weights"),
        ),
    )


def plot_spreads(spreads: Sequence[Spread], of: str) -> svg.Figure | None:
    """Draw quantiles of the sample weight by source or by class, on a logarithmic axis."""
    known = [spread for spread in spreads if spread.median is not None]
    if not known:
        return None
    drawn = [(row.low, row.high, row.largest, row.median) for row in known]
    scale = svg.scale_of([value for values in drawn for value in values], log=True, include=(1.0,))
    rows = [
        svg.Row(spread.name, _box(spread, scale), tables.show_number(spread.median))
        for spread in known
    ]
    return svg.Figure(
        title=f"Weights by {of}",
        drawing=svg.draw_rows(rows, scale, guides=(1.0,)),
        label=f"Quantiles of the sample weights of {len(known)} "
        f"{'sources' if of == 'source' else f'{of} levels'} on a logarithmic axis.",
        table=tables.list_rows(
            f"Quantiles of the sample weight by {of}",
            spreads,
            (of.capitalize(), lambda row: tables.name_cell(row.name)),
            ("Images", lambda row: tables.count_cell(row.images)),
            ("5%", lambda row: tables.number_cell(row.low)),
            ("25%", lambda row: tables.number_cell(row.lower)),
            ("Median", lambda row: tables.number_cell(row.median)),
            ("75%", lambda row: tables.number_cell(row.upper)),
            ("95%", lambda row: tables.number_cell(row.high)),
            ("Largest", lambda row: tables.number_cell(row.largest)),
        ),
        meaning="On the right the median. Above 1: images of which the target has more than the "
        "pool.",
        keys=(
            svg.Key("box", "Middle half"),
            svg.Key("whisker", "5% to 95%"),
            svg.Key("median", "Median"),
            svg.Key("largest", "Largest"),
        ),
    )


def _box(spread: Spread, scale: svg.Scale) -> Markup:
    return (
        svg.interval_line((spread.low, spread.high), scale, "whisker")
        + svg.interval_line((spread.lower, spread.upper), scale, "box")
        + svg.value_mark("median", spread.median, scale)
        + svg.value_mark("largest", spread.largest, scale)
    )


def quantile_table(panel: WeightsPanel) -> tables.PageTable | None:
    """Tabulate quantiles of all sample weights."""
    if not panel.quantiles:
        return None
    return tables.table(
        "Quantiles of the sample weight",
        ("Quantile", "Sample weight"),
        (
            [tables.TableCell(name), tables.number_cell(value)]
            for name, value in panel.quantiles.items()
        ),
    )
