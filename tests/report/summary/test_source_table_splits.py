"""The splits of a run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of
from unskew.report.summary.record import SplitRow


def test_what_was_set_aside_is_a_share_of_all_splits(
    pool: unskew.Pool, weights: unskew.Weights
) -> None:
    """A page about the training images, of a run that found more: 10 of 610 images cannot be used,
    not 10 of 310.
    """
    lost = pd.DataFrame({"id": range(10), "source": "camera 0", "path": "x.jpg", "reason": "empty"})
    rows = (SplitRow("train", 300, None, 200.0), SplitRow("test", 300, None, 200.0))
    found = summary_of(unskew.Pool(pool.frame, set_aside=lost), weights, splits=rows)
    assert found.unreadable.share == pytest.approx(10 / 610)


def test_splits_by_column_or_with_weights_of_their_own(
    pool: unskew.Pool, weights: unskew.Weights
) -> None:
    half = np.where(np.arange(len(pool)) % 4 == 0, "test", "train")
    split = unskew.Pool.from_frame(pool.frame.assign(split=half), split="split")
    assert [(row.name, row.images) for row in summary_of(split, strata_weights(split)).splits] == [
        ("test", 75),
        ("train", 225),
    ]
    found = summary_of(pool, weights, splits={"train": weights})
    assert found.splits[0].ess == pytest.approx(weights.ess, rel=1e-9)


def test_notes_of_splits_lose_their_counts() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(600))
    note = (
        "3 images get weight 0: beyond what their own source selects. Speaks of the target "
        "without label = owl (0.004)."
    )
    rows = (
        SplitRow("train", 500, None, 300.0, note),
        SplitRow("test", 100, None, 80.0, "Speaks of the target."),
    )
    found = summary_of(pool, strata_weights(pool), privacy="aggregate", splits=rows)
    assert (
        found.splits[0].note
        == "some images get weight 0: beyond what their own source selects. Speaks of the target "
        "without label = owl."
    )
    assert found.splits[1].note == "Speaks of the target."
