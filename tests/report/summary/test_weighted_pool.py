"""Weights are joined to images by id; other pools and weights are refused."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from summary_pools import summary_of
from unskew.errors import ConfigError, DataError
from unskew.report.summary.record import Summary


def test_weights_are_joined_by_id_whatever_the_order_of_the_pool(
    pool: unskew.Pool, weights: unskew.Weights, summary: Summary
) -> None:
    shuffled = pool.take(np.random.default_rng(6).permutation(len(pool)))
    assert summary_of(shuffled, weights) == summary


def test_other_pools_and_weights_are_refused(pool: unskew.Pool, weights: unskew.Weights) -> None:
    with pytest.raises(DataError, match="300 weights"):
        summary_of(pool.take(np.arange(200)), weights)
    renamed = unskew.Pool.from_frame(
        pool.frame.assign(source=pool.frame["source"].astype(str).replace("camera 0", "other"))
    )
    with pytest.raises(DataError, match="'other' and 'camera 0'"):
        summary_of(renamed, weights)
    with pytest.raises(DataError, match="Pool"):
        summary_of(pool.frame, weights)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="privacy"):
        summary_of(pool, weights, privacy="none")
    with pytest.raises(ConfigError, match="replicates"):
        summary_of(pool, weights, replicates=-1)
