"""Ranges of target means are those of `weights.sensitivity`."""

from __future__ import annotations

import pytest

import unskew
from summary_pools import QUICK, mixed_frame, strata_weights
from unskew.diagnosis.pool_diagnostics import diagnose


def test_ranges_of_the_users_own_outcomes() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(groups=True))
    weights = strata_weights(pool)
    value = (pool.frame["y"] > 0).to_numpy().astype(float)
    diagnostics = diagnose(pool, weights, outcomes={"y is positive": value}, **QUICK)
    cell = weights.estimation.fitted.strata.target.code  # type: ignore[union-attr]
    expected = weights.sensitivity(value, 2.0, cell=cell)
    row = diagnostics.sensitivity[-1]
    assert (row.outcome, row.factor) == ("y is positive", 2.0)
    assert (row.low, row.high) == (
        pytest.approx(expected.low, rel=1e-9),
        pytest.approx(expected.high, rel=1e-9),
    )
