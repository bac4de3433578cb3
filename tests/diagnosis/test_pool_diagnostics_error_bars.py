"""Both error bars are those of the weights."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from summary_pools import mixed_frame, summary_of
from unskew.diagnosis.pool_diagnostics import affordable_bootstrap_replicates


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_both_error_bars_are_those_of_the_weights() -> None:
    frame = mixed_frame(150)
    pool = unskew.Pool.from_frame(frame)
    omega = np.column_stack([np.exp(-0.5 * (frame["x"] - 0.4 * k) ** 2) for k in range(3)])
    weights = unskew.debias_weights(
        omega, frame["source"].astype(str), names=pool.names, id=frame["id"]
    )
    found = summary_of(pool, weights, replicates=30, seed=3)
    assert [row.stderr for row in found.sources] == pytest.approx(
        np.sqrt(np.diagonal(weights.covariance())), rel=1e-9
    )
    assert [row.stderr_bootstrap for row in found.sources] == pytest.approx(
        weights.bootstrap(30, 3).stderr, rel=1e-9
    )
    assert [row.normalizer for row in found.sources] == pytest.approx(weights.normalizer, rel=1e-9)
    assert "30 bootstrap replicates" in found.notes["sources"]
    assert found.bias is not None
    assert found.bias.family == "Known omega"
    assert found.strata == ()


def test_a_normalizer_that_is_known_has_no_error() -> None:
    """ω of camera 0 is 1 everywhere, so its normalizer is 1, with an error of 0 and not of a
    rounding.
    """
    pool = unskew.Pool.from_frame(mixed_frame())
    x = pool.frame["x"].to_numpy()
    weights = unskew.debias_weights(
        np.column_stack([np.ones(300), np.exp(0.4 * x), np.exp(0.8 * x)]),
        pool.frame["source"].to_numpy(),
    )
    found = summary_of(pool, weights, replicates=20).sources
    assert [(row.stderr, row.stderr_bootstrap) for row in found[:1]] == [(0.0, 0.0)]
    assert all(
        row.stderr and row.stderr > 0.01 and row.stderr_bootstrap and row.stderr_bootstrap > 0.01
        for row in found[1:]
    )


def test_the_number_of_replicates_depends_on_the_size_alone() -> None:
    small = unskew.debias_weights(np.ones((30, 2)), [0, 1] * 15)
    assert affordable_bootstrap_replicates(small) == 50
