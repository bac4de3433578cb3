"""The record of what was diagnosed."""

from __future__ import annotations

import unskew
from summary_pools import mixed_frame, strata_weights
from unskew.diagnosis.pool_diagnostics import diagnose


def test_its_repr_fits_a_few_lines() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(120))
    lines = repr(diagnose(pool, strata_weights(pool))).splitlines()
    assert len(lines) <= 5
    assert max(map(len, lines)) < 250
    assert "3 sources" in lines[0]
    assert "p = " in lines[1]
