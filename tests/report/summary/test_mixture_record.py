"""The mixture in report.json."""

from __future__ import annotations

import pytest

from report.page.samples import small_summary
from unskew.report.summary.plain import summary_from_json, summary_to_json


def test_the_panel_comes_back_from_report_json() -> None:
    summary = small_summary()
    assert summary.mixture is not None
    again = summary_from_json(summary_to_json(summary))
    assert again.mixture is not None
    assert again.mixture.bias_left == summary.mixture.bias_left
    for own, back in zip(summary.mixture.classes, again.mixture.classes, strict=True):
        assert (back.source, back.label) == (own.source, own.label)
        # report.json keeps ten digits.
        assert back.weighted == pytest.approx(own.weighted, rel=1e-9)
