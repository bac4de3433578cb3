"""Sentences about adjusted weights."""

from __future__ import annotations

import unskew
from raising import refused
from summary_pools import summary_of
from unskew.errors import ConfigError


def test_every_adjustment_has_a_sentence(pool: unskew.Pool, weights: unskew.Weights) -> None:
    trimmed = unskew.trim_weights(weights, at=1.1)
    moved = unskew.calibrate_weights(
        weights,
        by=pool.frame[["country"]],
        margins={"country": {"fr": 0.5, "de": 0.25, "it": 0.25}},
    )
    shrunk = unskew.shrink_weights(weights, {"y": pool.frame["y"]})
    found = summary_of(pool, weights, adjustments=[trimmed, moved, shrunk, "By hand."])
    assert found.adjustments[0].startswith(
        f"Trimmed: weights are capped at 1.1 times the mean ({trimmed.n_trimmed}"
    )
    assert "country" in found.adjustments[1]
    assert found.adjustments[2].startswith(
        "Shrunk: the weights move the means away from the plain pool only as far"
    )
    assert "sure of (y " in found.adjustments[2]
    assert found.adjustments[3] == "By hand."
    with refused(ConfigError, option="adjustments", value="int"):
        summary_of(pool, weights, adjustments=[3])
