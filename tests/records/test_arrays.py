"""`seed_of`: ints pass through, a Generator gives one integer, anything else is refused."""

from typing import Any

import numpy as np
import pytest

from raising import refused
from unskew import ConfigError
from unskew.records.arrays import seed_of


@pytest.mark.parametrize("number", [0, 7, 2**40, np.int64(3)])
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
