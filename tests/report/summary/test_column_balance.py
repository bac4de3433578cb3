"""What weighting does not correct is shown apart."""

from __future__ import annotations

from unskew.report.summary.record import Summary


def test_fitted_columns_are_apart_from_the_others(summary: Summary) -> None:
    assert {row.column for row in summary.balance if row.fitted} == {"label"}
    assert {row.column for row in summary.not_corrected.columns} == {"x", "y", "country", "flag"}
    assert all(row.target is None and row.before == 0.0 for row in summary.not_corrected.columns)
