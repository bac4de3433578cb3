"""Weights in figures: heights, places and the tables behind them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from report.page.samples import SAMPLES
from unskew.report.page.plots_weights import (
    MOST_BY,
    plot_concentration,
    plot_histogram,
    plot_spreads,
    quantile_table,
)
from unskew.report.summary.record import Histogram, Spread, WeightsPanel


@pytest.fixture(scope="module")
def panel() -> WeightsPanel:
    found = SAMPLES["five"]().weights
    assert found is not None
    return replace(
        found,
        images=70,
        zero_weights=0,
        histogram=Histogram((-1.0, 0.0, 0.5, 1.0), (40.0, 0.0, 20.0), {"a": (30.0, 0.0, 5.0)}),
    )


def _bars(drawing: str) -> list[dict[str, float]]:
    return [
        {name: float(value) for name, value in re.findall(r'(\w+)="([\d.]+)%?"', bar)}
        for bar in re.findall(r"<rect[^>]*>", drawing)
    ]


def test_bars_are_as_high_as_their_counts_and_as_wide_as_their_bins(panel: WeightsPanel) -> None:
    figure = plot_histogram(panel)
    assert figure is not None
    first, last = _bars(str(figure.drawing))
    assert first["height"] == pytest.approx(2 * last["height"])
    assert first["width"] == pytest.approx(2 * last["width"], abs=0.1)
    assert first["y"] + first["height"] == pytest.approx(last["y"] + last["height"])
    # Weight 1, log 0, is where the first bin ends: in the middle, next to room for the numbers.
    assert first["x"] + first["width"] == pytest.approx((first["x"] + 100) / 2, abs=0.1)
    assert first["x"] > 10
    assert 'class="guide"' in str(figure.drawing)
    assert 'class="guide"' not in str(
        plot_histogram(replace(panel, histogram=Histogram((1.0, 2.0), (3.0,)))).drawing
    )


def test_the_table_of_the_histogram_has_every_bin_and_weights_of_0(panel: WeightsPanel) -> None:
    table = plot_histogram(panel).table
    assert [column.name for column in table.columns] == ["Sample weight", "Images", "a"]
    assert [[cell.value for cell in row] for row in table.rows] == [
        [-1.0, 40.0, 30.0],
        [0.0, 0.0, 0.0],
        [0.5, 20.0, 5.0],
    ]
    assert table.rows[0][0].text == "0.1 to 1"
    zero = plot_histogram(replace(panel, zero_weights=10))
    assert (zero.table.rows[0][0].text, zero.table.rows[0][1].value) == ("0", 10)
    assert "10 images with weight 0 are not drawn" in zero.label


def test_withheld_bins_are_not_drawn_and_many_sources_not_listed(panel: WeightsPanel) -> None:
    withheld = Histogram((-1.0, 0.0, 1.0), (None, 12.0))
    figure = plot_histogram(replace(panel, histogram=withheld))
    assert len(_bars(str(figure.drawing))) == 1
    assert figure.table.rows[0][1].value is None
    by = {f"s{k}": (1.0, 1.0) for k in range(MOST_BY + 1)}
    many = plot_histogram(replace(panel, histogram=Histogram((-1.0, 0.0, 1.0), (9.0, 9.0), by)))
    assert len(many.table.columns) == 2
    assert plot_histogram(replace(panel, histogram=Histogram((), ()))) is None


def test_the_concentration_s_table_holds_its_points(panel: WeightsPanel) -> None:
    points = ((0.0, 0.0), (0.25, 0.7), (1.0, 1.0))
    figure = plot_concentration(replace(panel, concentration=points, top_percent_share=0.125))
    assert figure is not None
    assert [tuple(cell.value for cell in row) for row in figure.table.rows] == list(points)
    assert "12.5%" in figure.label
    assert plot_concentration(replace(panel, concentration=((0.0, 0.0),))) is None


def test_spreads_are_drawn_where_their_median_is_known() -> None:
    known = Spread("a", 30, 0.2, 0.5, 1.0, 2.0, 5.0, 9.0)
    withheld = Spread("b", 12, None, None, None, None, None, None)
    private = Spread("c", 40, None, 0.5, 1.0, 2.0, None, None)
    figure = plot_spreads([known, withheld, private], "source")
    assert figure is not None
    drawing = str(figure.drawing)
    assert drawing.count("whisker") == 1
    assert len(re.findall(r'class="[^"]*\bbox\b', drawing)) == 2
    assert "2 sources" in figure.label
    # All of them are in the table.
    assert [row[0].text for row in figure.table.rows] == ["a", "b", "c"]
    assert [cell.value for cell in figure.table.rows[0][1:]] == [30, 0.2, 0.5, 1.0, 2.0, 5.0, 9.0]
    assert plot_spreads([withheld], "label") is None
    assert plot_spreads([], "label") is None


def test_quantiles_are_listed_as_they_are(panel: WeightsPanel) -> None:
    table = quantile_table(replace(panel, quantiles={"5%": 0.25, "50%": None}))
    assert table is not None
    assert [(row[0].text, row[1].value) for row in table.rows] == [("5%", 0.25), ("50%", None)]
    assert quantile_table(replace(panel, quantiles={})) is None
