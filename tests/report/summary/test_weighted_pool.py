"""Weights are joined to images by id; other pools and weights are refused."""

from __future__ import annotations

import numpy as np

import unskew
from raising import refused
from summary_pools import summary_of
from unskew.errors import ConfigError, DataError
from unskew.report.summary.record import Summary


def test_weights_are_joined_by_id_whatever_the_order_of_the_pool(
    pool: unskew.Pool, weights: unskew.Weights, summary: Summary
) -> None:
    shuffled = pool.take(np.random.default_rng(6).permutation(len(pool)))
    assert summary_of(shuffled, weights) == summary


def test_other_pools_and_weights_are_refused(pool: unskew.Pool, weights: unskew.Weights) -> None:
    with refused(DataError, count=100):
        summary_of(pool.take(np.arange(200)), weights)
    renamed = unskew.Pool.from_frame(
        pool.frame.assign(source=pool.frame["source"].astype(str).replace("camera 0", "other"))
    )
    with refused(DataError, sources=["other", "camera 0"]):
        summary_of(renamed, weights)
    with refused(DataError, value="DataFrame"):
        summary_of(pool.frame, weights)  # type: ignore[arg-type]
    with refused(ConfigError, option="privacy", value="none"):
        summary_of(pool, weights, privacy="none")
    with refused(ConfigError, option="replicates", value=-1):
        summary_of(pool, weights, replicates=-1)
