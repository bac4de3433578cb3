"""The test of fit is the library's."""

from __future__ import annotations

import pytest

import unskew
from summary_pools import mixed_frame
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.report.summary.summarize import summarize_run


def test_the_fit_check_is_that_of_the_library() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(120))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    diagnostics = diagnose(pool, weights, replicates=0, rng=4)
    summary = summarize_run(pool, weights, diagnostics)
    assert weights.estimation is not None
    model = weights.estimation.fitted
    expected = unskew.check_fit(pool, model, weights=weights, rng=4)
    assert diagnostics.fit == expected
    assert summary.bias is not None
    assert summary.bias.fit_p_value == pytest.approx(expected.p_value)
    assert summary.bias.fit_message == expected.message
    fewer = unskew.check_fit(pool, model, weights=weights, replicates=99)
    assert fewer.n_replicates == 99
