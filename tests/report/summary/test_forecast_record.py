"""The forecast in report.json."""

from __future__ import annotations

from report.page.samples import small_summary
from unskew.report.summary.plain import summary_from_json, summary_to_json


def test_the_panel_comes_back_from_report_json() -> None:
    summary = small_summary()
    assert summary.forecast is not None
    again = summary_from_json(summary_to_json(summary)).forecast
    assert again is not None
    assert [arm.name for arm in again.arms] == [arm.name for arm in summary.forecast.arms]
    assert again.recommendation == summary.forecast.recommendation
