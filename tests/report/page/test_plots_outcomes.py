"""Both intervals, the forest plot, and the others without each source."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from report.page.samples import FIVE, outcome_panel, page_of
from unskew.report.page.plots_outcomes import (
    AGREED,
    NEW_SOURCE,
    outcome_amount,
    outcome_interval,
    outcome_table,
    plot_forest,
    without_table,
)

APART = outcome_panel("share of juveniles", FIVE, odd="Night camera")


def _texts(rows: tuple[tuple, ...]) -> list[list[str]]:
    return [[cell.text for cell in row] for row in rows]


def test_the_forest_has_a_row_for_each_source_and_for_both_intervals() -> None:
    figure = plot_forest(APART)
    assert figure is not None
    drawing = str(figure.drawing)
    names = re.findall(r'row-name"><bdi>([^<]*)<', drawing)
    assert names == [*FIVE, AGREED, NEW_SOURCE, ""]
    assert drawing.count("#m-baseline") == 5
    assert drawing.count("#m-debiased") == 1
    assert drawing.count('class="interval second"') == 1
    # The interval for another source is the widest.
    ends = re.findall(r'x1="([\d.]+)%" x2="([\d.]+)%" y1="13" y2="13" class="interval', drawing)
    widths = [float(high) - float(low) for low, high in ends]
    assert widths[-1] == max(widths)
    table = _texts(figure.table.rows)
    assert [row[0] for row in table] == [*FIVE, AGREED, NEW_SOURCE]
    assert table[-1][-4:-2] == ["21.0%", "71.0%"]
    assert "21.0% to 71.0%" in figure.label


def test_two_sources_cannot_say_and_one_has_no_forest() -> None:
    two = outcome_panel("share", FIVE[:2], odd=FIVE[1])
    figure = plot_forest(two)
    assert figure is not None
    assert "cannot say" in str(figure.drawing)
    assert "interval second" not in str(figure.drawing)
    assert without_table(two) is None
    assert plot_forest(outcome_panel("share", FIVE[:1])) is None


def test_a_source_without_an_estimate_says_why() -> None:
    first, second, *others = APART.by_source
    nothing = {"value": None, "stderr": None, "interval": (None, None)}
    sources = (replace(first, **nothing), replace(second, withheld=True, **nothing), *others)
    figure = plot_forest(replace(APART, by_source=sources))
    assert figure is not None
    texts = re.findall(r'row-text">([^<]*)<', str(figure.drawing))
    assert texts[:2] == ["not compared", "withheld"]
    assert _texts(figure.table.rows)[0][1] == "–"


def test_more_sources_than_a_picture_holds_leave_room_for_both_intervals() -> None:
    figure = plot_forest(outcome_panel("share", [f"site {k}" for k in range(90)]))
    assert figure is not None
    assert NEW_SOURCE in str(figure.drawing)
    assert len(figure.table.rows) == 92


def test_the_source_without_which_the_others_agree_is_marked() -> None:
    table = without_table(APART)
    assert table is not None
    assert [row[0].text for row in table.rows] == list(FIVE)
    assert table.marked == {4}
    assert [row[-1].text for row in table.rows] == [*["disagree"] * 4, "agree"]


def test_the_overview_says_which_interval_comes_first() -> None:
    table = outcome_table([APART, outcome_panel("share of animals at night", FIVE)])
    first, second = _texts(table.rows)
    assert table.marked == {0}
    assert NEW_SOURCE in first[4]
    assert "21.0% to 71.0%" in first[4]
    assert AGREED in second[4]
    assert "41.0% to 45.0%" in second[4]


def test_numbers_and_shares() -> None:
    number = replace(APART, is_share=False)
    assert outcome_amount(number, 0.43) == "0.43"
    assert outcome_amount(APART, 0.43) == "43.0%"
    assert outcome_interval(APART, None) == "cannot say"
    assert outcome_interval(APART, (None, None)) == "–"


@pytest.mark.parametrize(
    ("name", "found"), [("five", "What each source says alone"), ("refused", "no weights")]
)
def test_the_page_has_the_panel(name: str, found: str) -> None:
    section = re.search(r'<section id="outcomes".*?</section>', page_of(name), flags=re.DOTALL)
    assert section is not None
    assert found in section[0]
    if name == "five":
        assert section[0].count("<figure") == 2
        assert "Without each source in turn" in section[0]
