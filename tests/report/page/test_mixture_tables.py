"""The panel "Mixture" of the page."""

from __future__ import annotations

from dataclasses import replace

from report.page.samples import HOSTILE, make_summary, refused_summary, small_summary
from unskew.report.page.html import render_page
from unskew.report.page.mixture_tables import class_mixture, source_mixture
from unskew.report.summary.record import MixturePanel, MixtureRow


def _section(page: str) -> str:
    return page.split('<section id="mixture"')[1].split("</section>")[0]


def test_shares_of_today_and_of_the_weights_are_side_by_side() -> None:
    rows = (MixtureRow("north", None, 0.25, 0.75), MixtureRow("south", None, 0.75, 0.25))
    panel = MixturePanel(rows, (MixtureRow("north", "cat", 0.125, None),), (("label", 0.2),))
    section = _section(render_page(replace(small_summary(), mixture=panel)))
    for text in ("north", "25.0%", "75.0%", "20.0%"):
        assert text in section
    # North is shown three times as often as an average image, south a third as often.
    assert [row[-1].text for row in source_mixture(panel).rows] == ["3", "0.333"]
    # What is withheld stays so.
    assert [cell.text for cell in class_mixture(panel).rows[0]][-1] == "–"


def test_a_refused_run_has_no_ratio_and_no_name_is_markup() -> None:
    assert "<table" not in _section(render_page(refused_summary()))
    section = _section(render_page(make_summary(HOSTILE)))
    assert "<script" not in section
    assert "<img" not in section
    assert "<b>" not in section
