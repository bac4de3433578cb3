"""Randomness is an integer or a Generator."""

import numpy as np
import pytest

from raising import refused
from unskew import ConfigError
from unskew.records.randomness import seed_of


def test_integers_pass_unchanged() -> None:
    assert [seed_of(rng) for rng in (0, 7, np.int64(3))] == [0, 7, 3]


def test_a_generator_is_asked_for_one_integer() -> None:
    first, again = (seed_of(np.random.default_rng(5)) for _ in range(2))
    assert first == again >= 0
    rng = np.random.default_rng(5)
    assert seed_of(rng) != seed_of(rng)


@pytest.mark.parametrize("rng", [-1, 1.5, "0", None, True])
def test_anything_else_is_refused(rng) -> None:
    with refused(ConfigError, option="rng"):
        seed_of(rng)
