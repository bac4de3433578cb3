"""The summary itself."""

from __future__ import annotations

from unskew.report.summary.record import Summary


def test_its_repr_fits_a_few_lines_and_holds_the_verdict(summary: Summary) -> None:
    lines = repr(summary).splitlines()
    assert len(lines) <= 5
    assert summary.verdict.headline in repr(summary)
    assert "3 sources" in repr(summary)
