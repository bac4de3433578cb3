"""`seed_of`: ints pass through, a Generator gives one integer, anything else is refused."""

from typing import Any

import numpy as np
import pytest
import scipy.special

from raising import refused
from unskew import ConfigError
from unskew.records.arrays import log_sum, log_sums, log_sums_by, row_maxima, seed_of


@pytest.mark.parametrize("number", [0, 7, 2**32 - 1, np.int64(3)])
def test_ints_pass_through_unchanged(number: int) -> None:
    assert seed_of(number) == number
    assert type(seed_of(number)) is int


def test_a_generator_is_asked_for_one_integer() -> None:
    first, second = np.random.default_rng(5), np.random.default_rng(5)
    seeds = [seed_of(first), seed_of(first)]
    assert seeds == second.integers(2**31, size=2).tolist()
    assert seeds[0] != seeds[1]


@pytest.mark.parametrize("rng", [None, True, 0.5, "0", [1], np.random.RandomState(0)])
def test_anything_else_is_refused(rng: Any) -> None:
    with refused(ConfigError, option="rng", value=repr(rng)):
        seed_of(rng)


def test_sums_of_logarithms_are_scipys() -> None:
    log_nk = np.random.default_rng(0).normal(scale=400.0, size=(50, 7))
    log_nk[log_nk < -300] = -np.inf
    log_nk[3] = -np.inf
    np.testing.assert_allclose(
        log_sums(log_nk), scipy.special.logsumexp(log_nk, axis=1), rtol=1e-14
    )
    assert log_sum(log_nk[0]) == pytest.approx(scipy.special.logsumexp(log_nk[0]), rel=1e-14)
    assert log_sum(log_nk[3]) == -np.inf


@pytest.mark.parametrize("n_columns", [1, 4, 32, 33])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_row_maxima_are_those_of_numpy(n_columns: int, dtype: type) -> None:
    values_nk = np.random.default_rng(n_columns).normal(size=(50, n_columns)).astype(dtype)
    values_nk[0], values_nk[1, 0], values_nk[2, -1] = -np.inf, np.nan, np.inf
    before_nk = values_nk.copy()
    np.testing.assert_array_equal(row_maxima(values_nk), values_nk.max(axis=1).astype(np.float64))
    np.testing.assert_array_equal(values_nk, before_nk)


def test_log_sums_by_group_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    log_n = rng.normal(0, 400, 300)  # beyond what exp holds
    group_n = rng.integers(0, 5, 300)
    log_n[group_n == 2] = -np.inf
    expected_g = np.full(7, -np.inf)
    np.logaddexp.at(expected_g, group_n, log_n)
    np.testing.assert_allclose(log_sums_by(log_n, group_n, 7), expected_g, rtol=1e-14)
