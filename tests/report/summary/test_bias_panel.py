"""Fitted ω against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from summary_pools import mixed_frame, summary_of
from unskew.report.summary.record import Summary


def test_the_curve_of_strata_is_proportional_to_the_share_of_a_source_over_the_target(
    pool: unskew.Pool, summary: Summary
) -> None:
    """ω_k(y) ∝ (n_k^(y)/n_k)/p(y)."""
    assert summary.bias is not None
    (curve,) = summary.bias.curves
    share = pool.frame.groupby("source", observed=True)["label"].value_counts(normalize=True)
    for name, omega in curve.omega.items():
        expected = np.array(
            [share[name, level] / {"cat": 0.3, "dog": 0.7}[level] for level in curve.levels]
        )
        assert list(omega) == pytest.approx(expected / expected.max(), rel=1e-9)


def test_the_curve_of_a_tilt_is_an_exponential() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(240))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    found = summary_of(pool, weights)
    assert found.bias is not None
    (curve,) = found.bias.curves
    slopes = np.diff(np.log(np.array(curve.omega["camera 2"], dtype=float)))
    assert slopes == pytest.approx(np.full(slopes.size, slopes[0]), rel=1e-6)
    assert curve.omega["camera 0"] == (1.0,) * len(curve.at)
