"""The strata by hand."""

from __future__ import annotations

import pytest

import unskew
from unskew.report.summary.record import Summary


def test_weighted_shares_of_strata_are_the_target(summary: Summary) -> None:
    by_name = {row.stratum: row for row in summary.strata}
    assert by_name["label = cat"].weighted == pytest.approx(0.3, abs=1e-9)
    assert by_name["label = dog"].weighted == pytest.approx(0.7, abs=1e-9)
    assert [row.target for row in summary.strata] == [0.7, 0.3]
    label = summary.distributions[0]
    assert label.column == "label"
    assert label.target is not None
    assert label.weighted == pytest.approx(label.target, abs=1e-9)
    after = [row.after for row in summary.balance if row.column == "label"]
    assert after == pytest.approx([0.0, 0.0], abs=1e-9)


def test_a_stratum_row_by_hand(
    pool: unskew.Pool, weights: unskew.Weights, summary: Summary
) -> None:
    cat = (pool.frame["label"] == "cat").to_numpy()
    row = next(row for row in summary.strata if row.stratum == "label = cat")
    assert row.images == cat.sum()
    assert row.groups == pool.frame.loc[cat, "group"].nunique()
    assert row.pool == pytest.approx(cat.mean(), rel=1e-9)
    assert row.sources == pool.names
    # Equal weights within a stratum: every image counts fully.
    assert row.ess == pytest.approx(cat.sum(), rel=1e-9)
    assert row.largest_weight == pytest.approx(0.3 / cat.mean(), rel=1e-9)
