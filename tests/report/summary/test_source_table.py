"""Sources and unreadable images."""

from __future__ import annotations

import pandas as pd
import pytest

import unskew
from summary_pools import summary_of


def test_unreadable_images_by_source_and_reason(pool: unskew.Pool, weights: unskew.Weights) -> None:
    aside = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "source": ["camera 1", "camera 1", "gone"],
            "path": ["p", "q", "r"],
            "reason": ["x", "x", "y"],
        }
    )
    found = summary_of(unskew.Pool(pool.frame, None, aside), weights)
    assert [row.unreadable for row in found.sources] == [0, 2, 0]
    assert found.unreadable.count == 3
    assert found.unreadable.reasons == (("x", 2), ("y", 1))
    assert found.unreadable.rows[0] == ("a", "camera 1", "p", "x")
    assert found.unreadable.share == pytest.approx(3 / 303)
