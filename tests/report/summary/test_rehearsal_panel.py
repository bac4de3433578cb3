"""A rehearsal on the page and in report.json."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from report.page.samples import small_summary
from unskew.errors import DataError
from unskew.report.page.html import render_page
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.rehearsal_panel import show_rehearsal

HOSTILE = "<b>a|b</b>"


def _source(name: str, images: int, **more: Any) -> dict[str, Any]:
    arms = {
        arm: {"value": value, "stderr": 0.01234}
        for arm, value in (("naive", 0.7), ("debiased", 0.8))
    }
    return {
        "source": name,
        "images": images,
        "judged": images,
        "obstacle": None,
        "predicted": arms,
        "true": arms,
        "usual": 0.91,
        "holds": True,
        "notes": [],
        **more,
    }


RECORD = {
    "verdict": "transfers in part",
    "message": "Predictions hold on 1 of 2 sources.",
    "learner": "a linear probe",
    "sources": [
        _source("north", 120, holds=False, notes=["odd images"]),
        _source(HOSTILE, 80),
        _source("tiny", 7, notes=["tiny is small"]),
        _source("far", 90, obstacle="17 images have no like", usual=None, predicted={}, true={}),
    ],
}


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


def test_a_private_page_shows_no_small_source_and_no_count() -> None:
    panel = show_rehearsal(RECORD, "aggregate")
    assert [source.name for source in panel.sources] == ["north", HOSTILE, "far"]
    assert "1 of 2" not in panel.message
    assert panel.notes == ("north: odd images",)
    assert panel.sources[2].obstacle is not None
    assert "17" not in panel.sources[2].obstacle
    assert panel.sources[0].debiased is not None
    assert panel.sources[0].debiased.predicted_stderr == 0.0123


@pytest.mark.parametrize("wrong", [{}, {**RECORD, "sources": [{"source": "a"}]}])
def test_what_is_no_rehearsal_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        show_rehearsal(wrong)
