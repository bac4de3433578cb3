"""A rehearsal on the page and in report.json."""

from __future__ import annotations

from dataclasses import replace

from report.page.samples import small_summary
from report.summary.test_rehearsal_panel import RECORD
from unskew.report.page.html import render_page
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.rehearsal_panel import show_rehearsal


def test_the_sources_are_on_the_page_and_no_name_is_markup() -> None:
    assert 'id="rehearsal"' not in render_page(small_summary())
    summary = replace(small_summary(), rehearsal=show_rehearsal(RECORD))
    again = summary_from_json(summary_to_json(summary))
    assert again.rehearsal == summary.rehearsal
    page = render_page(again)
    section = page.split('<section id="rehearsal"')[1].split("</section>")[0]
    assert '<a href="#rehearsal">Rehearsal</a>' in page
    facts = ("70.0 ± 1.2", "80.0 ± 1.2", "91.0", "north: odd images", "17 images have no like")
    for fact in facts:
        assert fact in section
    assert "<b>" not in section
