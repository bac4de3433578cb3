"""Sizes of the sources."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raising import refused
from unskew.errors import ConfigError
from unskew.scenarios import geometric_sizes


@given(st.integers(1, 40), st.integers(0, 10_000), st.floats(0.01, 100))
def test_sizes_sum_to_n_and_every_source_has_an_image(
    n_sources: int, more: int, ratio: float
) -> None:
    size = geometric_sizes(n_sources + more, n_sources, ratio)
    assert size.sum() == n_sources + more
    assert size.min() >= 1
    assert (np.diff(size) * np.sign(np.log(ratio)) >= -1).all()


def test_sizes_are_within_one_of_the_ideal() -> None:
    size = geometric_sizes(50_000, 8, 0.75)
    ideal = 50_000 * 0.75 ** np.arange(8) / (0.75 ** np.arange(8)).sum()
    assert np.abs(size - ideal).max() < 1
    assert geometric_sizes(50_000, 5, 1.0).tolist() == [10_000] * 5


@pytest.mark.parametrize(
    ("n", "ratio", "option"), [(3, 1.0, "n"), (10, 0.0, "ratio"), (10, float("nan"), "ratio")]
)
def test_impossible_sizes_are_refused(n: int, ratio: float, option: str) -> None:
    with refused(ConfigError, option=option):
        geometric_sizes(n, 4, ratio)
