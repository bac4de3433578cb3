"""Which outcomes are chosen where none is named."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from summary_pools import mixed_frame, summary_of


def test_a_share_that_counts_images_without_a_value_says_so() -> None:
    """The panel shows cats among the labelled; the sensitivity is of a mean over all images."""
    frame = mixed_frame()
    frame["label"] = frame["label"].astype(object).where(np.arange(300) % 4 > 0, None)
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))
    )
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))
    row = next(each for each in found.not_corrected.sensitivity if "label = cat" in each.outcome)
    assert row.outcome == "share of label = cat, of all images, those without a value included"
    assert row.value == pytest.approx(weights.weight[(frame["label"] == "cat").to_numpy()].sum())
