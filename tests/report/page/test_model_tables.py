"""Tables of models and rehearsed sources."""

from __future__ import annotations

from report.summary.test_rehearsal_panel import RECORD
from unskew.report.page.model_tables import rehearsal_table
from unskew.report.summary.rehearsal_panel import show_rehearsal


def test_a_source_says_whether_its_prediction_held_or_why_there_is_none() -> None:
    table = rehearsal_table(show_rehearsal(RECORD))
    outcomes = [row[-1].text for row in table.rows]
    assert outcomes == ["no", "yes", "yes", "Not reached: 17 images have no like"]
    assert [cell.text for cell in table.rows[3][2:7]] == ["–"] * 5
