"""One pool, its weights and its summary for the tests that change none of them."""

from __future__ import annotations

import pytest

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of
from unskew.report.summary.record import Summary


@pytest.fixture(scope="package")
def pool() -> unskew.Pool:
    return unskew.Pool.from_frame(mixed_frame(groups=True))


@pytest.fixture(scope="package")
def weights(pool: unskew.Pool) -> unskew.Weights:
    return strata_weights(pool)


@pytest.fixture(scope="package")
def summary(pool: unskew.Pool, weights: unskew.Weights) -> Summary:
    return summary_of(pool, weights)
