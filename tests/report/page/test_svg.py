"""Scales and their ticks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.report.page.svg import Scale, scale_of


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    most=st.integers(3, 8),
)
def test_ticks_are_inside_and_few(low: float, width: float, most: int) -> None:
    scale = Scale(low, low + width)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most
    assert ticks == sorted(ticks)
    room = 1e-6 * (abs(low) + width)
    assert low - room <= ticks[0] <= ticks[-1] <= low + width + room


@given(low=st.floats(-12, 12), width=st.floats(0.001, 20), most=st.integers(3, 8))
def test_logarithmic_ticks_are_inside_and_few(low: float, width: float, most: int) -> None:
    scale = Scale(10.0**low, 10.0 ** (low + width), log=True)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most
    assert all(scale.low * (1 - 1e-9) <= tick <= scale.high * (1 + 1e-9) for tick in ticks)
    assert all(after > before for before, after in itertools.pairwise(ticks))


def test_scales_hold_their_values() -> None:
    assert scale_of([None, 3.0, 5.0]).at(3.0) < scale_of([3.0, 5.0]).at(5.0)
    assert scale_of([0.1, -0.4], symmetric=True).at(0.0) == pytest.approx(0.5)
    assert scale_of([], log=True).at(1.0) == pytest.approx(0.5)
    assert scale_of([2.0]).at(2.0) == pytest.approx(0.5)
    assert Scale(0.1, 10.0, log=True).at(0.0) == 0.0
