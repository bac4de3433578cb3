"""`diagnose`: what cannot be computed is noted, never raised."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from summary_pools import QUICK, mixed_frame, strata_weights, summary_of
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.errors import ConfigError, DataError
from unskew.report.summary.summarize import summarize_run


def test_errors_of_target_masses_are_in_the_table_of_strata() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    survey = pd.DataFrame({"label": ["cat", "dog"], "share": [0.3, 0.7]})
    target = unskew.Target.table(survey, n=400)
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    assert [row.target_stderr for row in found.strata] == pytest.approx(
        [math.sqrt(120.5 * 280.5 / 401**2 / 399)] * 2, rel=1e-9
    )


def test_weights_that_carry_no_omega_have_a_page() -> None:
    """As read from a file: no error bars, no test of fit, and both are said."""
    pool = unskew.Pool.from_frame(mixed_frame(60))
    solved = unskew.debias_weights(
        np.ones((60, 3)), pool.frame["source"].astype(str), names=pool.names, id=pool.frame["id"]
    )
    found = summary_of(pool, replace(solved, rows=None), fit_check=None, replicates=None)
    assert found.sources[0].stderr is None
    assert "no error bars" in found.notes["sources"]
    assert found.bias is not None
    assert found.bias.fit_message.startswith("Not tested")
    assert "sensitivity" in found.notes["not_corrected"]


def test_diagnostics_of_other_sources_or_with_less_privacy_are_refused() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(120))
    weights = strata_weights(pool)
    diagnostics = diagnose(pool, weights, **QUICK)
    with refused(ConfigError, option="privacy", value="full"):
        summarize_run(pool, weights, diagnostics, privacy="aggregate")
    with refused(DataError, sources=["other"]):
        summarize_run(pool, weights, replace(diagnostics, names=("other",)))
    with refused(ConfigError, option="replicates", value=-1):
        diagnose(pool, weights, replicates=-1)


def test_no_rare_class_is_an_outcome_of_a_private_report() -> None:
    frame = mixed_frame(300)
    frame.loc[:3, "label"] = "owl"
    pool = unskew.Pool.from_frame(frame)
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))

    def outcomes(privacy: Any) -> set[str]:
        diagnostics = diagnose(pool, weights, privacy=privacy, **QUICK)
        return {row.outcome for row in diagnostics.sensitivity}

    assert "share of label = owl" in outcomes("full")
    assert not any("owl" in outcome for outcome in outcomes("aggregate"))
