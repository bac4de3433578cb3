"""The learning rate, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn.schedules import learning_rate_at


def test_the_articles_schedule() -> None:
    """A tenth from epoch 103 on (counted from 0, after 103 complete ones), a hundredth from
    154 on.
    """
    steps = 391
    rate = [
        learning_rate_at("steps", 0.1, epoch * steps + at, 205 * steps, 205, (103, 154))
        for epoch in range(205)
        for at in (0, 390)
    ]
    assert np.allclose(rate, [0.1] * 2 * 103 + [0.01] * 2 * 51 + [0.001] * 2 * 51, rtol=1e-12)


def test_one_cycle_rises_for_a_quarter_and_falls_to_zero() -> None:
    rate = np.array([learning_rate_at("one_cycle", 2.0, step, 400, 4) for step in range(401)])
    assert rate[0] == pytest.approx(0.4)
    assert rate[100] == rate.max() == 2.0
    assert rate[50] == pytest.approx(1.2)
    assert rate[250] == pytest.approx(1.0)
    assert rate[400] == 0
    assert np.allclose(np.diff(rate[:101], 2), 0, atol=1e-12)
    assert np.allclose(np.diff(rate[100:], 2), 0, atol=1e-12)


def test_a_constant_rate() -> None:
    assert {learning_rate_at("constant", 0.3, step, 9, 3) for step in range(9)} == {0.3}


def test_an_unknown_schedule() -> None:
    with refused(ConfigError, option="schedule", value="cosine"):
        learning_rate_at("cosine", 0.3, 0, 9, 3)
