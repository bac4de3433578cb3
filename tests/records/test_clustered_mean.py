"""Means whose errors take the weights as given."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.records.clustered_mean import effective_size, plain_mean


def test_equal_weights_have_the_textbook_error() -> None:
    value_n = np.random.default_rng(0).normal(size=50)
    estimate = plain_mean(np.full(50, 1 / 50), value_n, np.arange(50))
    assert estimate.value == pytest.approx(value_n.mean())
    assert estimate.stderr == pytest.approx(value_n.std(ddof=1) / np.sqrt(50))


def test_copies_within_a_cluster_add_nothing() -> None:
    value_n = np.random.default_rng(1).normal(size=30)
    single = plain_mean(np.full(30, 1 / 30), value_n, np.arange(30))
    twice = plain_mean(np.full(60, 1 / 60), np.tile(value_n, 2), np.tile(np.arange(30), 2))
    assert twice.stderr == pytest.approx(single.stderr)
    assert twice.interval == pytest.approx(single.interval)


def test_effective_size_is_between_one_and_n() -> None:
    assert effective_size(np.r_[np.ones(4), np.zeros(6)]) == pytest.approx(4.0)
    assert effective_size(1e-200 * np.ones(7)) == pytest.approx(7.0)
    assert effective_size(np.zeros(3)) == 0.0
