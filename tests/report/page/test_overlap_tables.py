"""Links between the sources as tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from report.page.samples import SAMPLES
from unskew.report.page.overlap_tables import (
    MOST_IN_MAP,
    common_table,
    constant_table,
    link_table,
    sources_in_map,
    strength_text,
    weak_link_table,
    weakest_links,
)
from unskew.report.page.tables import PageTable
from unskew.report.summary.record import OverlapPanel

PANEL = OverlapPanel(
    names=("a", "b", "c"),
    verdict="ok",
    message="All 3 sources are linked.",
    matrix=((0.5, 0.3, 0.2), (0.4, 0.6, 0.0), (0.3, 0.0, 0.7)),
    link_count=((40.0, 30.0, 7.0), (5.0, 50.0, 0.0), (12.0, None, 60.0)),
    common_mass=((1.0, 0.25, 0.125), (0.25, 1.0, 0.0), (0.125, 0.0, 1.0)),
    components=(("a", "b", "c"),),
    weakest_link=("a", "c"),
    weakest_count=7.0,
    kappa=0.03,
    epsilon=None,
    spectral_gap=0.2,
    sigma2=0.01,
    thresholds={"weakest_count": 10.0, "sigma2": 0.001},
)


def _values(table: PageTable | None) -> list[list[float | None]]:
    assert table is not None
    return [[cell.value for cell in row[1:]] for row in table.rows]


def test_the_named_link_comes_first_then_those_with_the_fewest_images() -> None:
    assert weakest_links(PANEL) == [(0, 2, 7.0), (1, 0, 5.0), (2, 0, 12.0), (0, 1, 30.0)]
    assert weakest_links(PANEL, most=2) == weakest_links(PANEL)[:2]
    assert weakest_links(replace(PANEL, weakest_link=None))[0] == (1, 0, 5.0)
    assert weakest_links(replace(PANEL, link_count=None)) == []


def test_the_table_of_weak_links_names_who_could_have_taken_whose_images() -> None:
    table = weak_link_table(PANEL)
    assert table is not None
    assert [(row[0].text, row[1].text, row[2].value, row[3].value) for row in table.rows] == [
        ("a", "c", 7.0, 0.2),
        ("b", "a", 5.0, 0.4),
        ("c", "a", 12.0, 0.3),
        ("a", "b", 30.0, 0.3),
    ]
    without = weak_link_table(replace(PANEL, matrix=None))
    assert without is not None
    assert all(row[3].value is None for row in without.rows)
    assert weak_link_table(replace(PANEL, link_count=None)) is None


def test_matrices_are_shown_as_they_are() -> None:
    assert _values(link_table(PANEL)) == [list(row) for row in PANEL.link_count or ()]
    assert _values(common_table(PANEL)) == [list(row) for row in PANEL.common_mass or ()]
    for table in (link_table(PANEL), common_table(PANEL)):
        assert table is not None
        assert [row[0].text for row in table.rows] == ["a", "b", "c"]
        assert [column.name for column in table.columns] == ["Source", "a", "b", "c"]
    assert link_table(replace(PANEL, link_count=None)) is None
    assert common_table(replace(PANEL, common_mass=None)) is None
    assert common_table(replace(PANEL, matrix=None)) is None


def test_constants_that_are_unknown_are_left_out_and_limits_stand_beside_them() -> None:
    rows = {row[0].text: (row[1].value, row[2].value) for row in constant_table(PANEL).rows}
    assert rows == {
        "Weakest link, images": (7.0, 10.0),
        "Weakest pair, κ": (0.03, None),
        "Mixing (spectral gap)": (0.2, None),
        "Curvature, σ₂": (0.01, 0.001),
    }


def test_the_weakest_link_in_a_sentence() -> None:
    assert strength_text(PANEL) == "7 images of c could have been taken by a."
    assert strength_text(replace(PANEL, weakest_link=None)) == ""


def test_of_many_sources_those_at_weak_links_are_kept() -> None:
    assert sources_in_map(PANEL) == [0, 1, 2]
    size = MOST_IN_MAP + 20
    link = np.zeros((size, size))
    link[size - 1, size - 3] = 2.0
    many = replace(
        PANEL,
        names=tuple(f"s{k}" for k in range(size)),
        link_count=tuple(map(tuple, link.tolist())),
        weakest_link=None,
    )
    kept = sources_in_map(many)
    assert kept == [*range(MOST_IN_MAP - 2), size - 3, size - 1]
    table = link_table(many)
    assert table is not None
    assert len(table.rows) == MOST_IN_MAP
    assert table.rows[-1][0].text == f"s{size - 1}"


def test_the_sample_s_links_are_on_its_page() -> None:
    panel = SAMPLES["five"]().overlap
    assert panel is not None
    assert panel.link_count is not None
    off = np.array(panel.link_count, dtype=float)
    np.fill_diagonal(off, 0)
    found = weakest_links(panel, most=1000)
    assert len(found) == np.count_nonzero(off)
    assert found[0][2] == off[off > 0].min() == panel.weakest_count
