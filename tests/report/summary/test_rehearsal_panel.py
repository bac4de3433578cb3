"""What a page shows of a rehearsal, and what a private one withholds."""

from __future__ import annotations

from typing import Any

import pytest

from unskew.errors import DataError
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
