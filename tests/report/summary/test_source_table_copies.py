"""Exact copies within and across sources."""

from __future__ import annotations

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of


def test_copies_within_and_across_sources() -> None:
    frame = mixed_frame(30).assign(content=[f"hash {at}" for at in range(30)])
    # Rows 0, 3 and 6 are of camera 0, row 1 of camera 1, row 2 of camera 2.
    frame.loc[[0, 3, 1], "content"] = "same"
    frame.loc[[6, 2], "content"] = "other"
    frame.loc[9, "content"] = None
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(pool, strata_weights(pool))
    # Images of the first that have a copy in the second.
    assert found.copies == (
        ("camera 0", "camera 0", 2),
        ("camera 0", "camera 1", 2),
        ("camera 0", "camera 2", 1),
        ("camera 1", "camera 0", 1),
        ("camera 2", "camera 0", 1),
    )
    # 5 of 30 images: that is much, and 27 different ones is what the headline counts.
    assert any("16.7%" in sentence for sentence in found.verdict.sentences)
    assert "27 of them different" in found.verdict.headline
    assert [row.copies for row in found.sources] == [3, 1, 1]
    shown = next(each for each in found.galleries if each.kind == "copies")
    assert {picture.id for picture in shown.pictures} == {
        f"image-{at:05d}" for at in (0, 1, 2, 3, 6)
    }
