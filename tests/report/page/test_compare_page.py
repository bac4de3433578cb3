"""The comparison of two runs: names are escaped, and what a run lacks is said."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

import unskew
from summary_pools import summary_of
from unskew.report.page.compare_page import WeightAgreement, render_comparison

EVIL = "<img src=x onerror=alert(1)>"


def test_names_are_escaped_and_what_is_missing_is_said() -> None:
    frame = pd.DataFrame({"source": [EVIL, "b"] * 20, "label": [EVIL, "y", EVIL, EVIL] * 10})
    pool = unskew.Pool.from_frame(frame)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    summary = summary_of(pool, weights)
    agreement = WeightAgreement(40, 0, 0, 0.25, None)
    settings = ((EVIL, EVIL, None),)
    page = render_comparison((EVIL, "b"), (summary, summary), settings, agreement)
    assert EVIL not in page
    assert "(not set)" in page
    assert "25.0% of the weight" in page
    assert "Neither run has a forecast" in page
    bare = replace(summary, balance=(), sources=(), weights=None)
    page = render_comparison(("a", "b"), (bare, bare), (), None)
    assert "Both runs have the same settings" in page
    assert "has no weights" in page
