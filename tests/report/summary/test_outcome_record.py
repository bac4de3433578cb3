"""A target mean as plain values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of
from unskew.report.summary.plain import summary_from_json, summary_to_json


def test_outcomes_survive_json() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    summary = summary_of(pool, strata_weights(pool), outcomes=["flag", "y"])
    assert summary_from_json(summary_to_json(summary)).outcomes == summary.outcomes
    assert len(summary.outcomes) == 2


def test_a_long_name_is_cut_alike_wherever_it_is() -> None:
    frame = mixed_frame(900)
    names = {f"camera {k}": f"camera {k} " + "of a very long name " * 8 for k in range(3)}
    frame["source"] = frame["source"].cat.rename_categories(names)
    code = np.arange(900) % 3
    value = (np.random.default_rng(0).random(900) < np.array([0.3, 0.3, 0.7])[code]) * 1.0
    pool = unskew.Pool.from_frame(frame)
    (panel,) = summary_of(pool, strata_weights(pool), outcomes={"sick": value}).outcomes
    assert panel.odd_source is not None
    assert panel.odd_source in [row.name for row in panel.by_source]
    assert panel.odd_source in [row.name for row in panel.without]
    assert replace(panel, odd_source=None) != panel
