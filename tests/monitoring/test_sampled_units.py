"""Units: one image of a group, and images that were counted before."""

from __future__ import annotations

import numpy as np
import pandas as pd

from unskew.monitoring.sampled_units import draw_units, known_images


def test_a_group_is_one_unit_and_copies_too() -> None:
    frame = pd.DataFrame(
        {
            "id": range(6),
            "group": ["u", "u", "v", "w", "x", "y"],
            "content": ["1", "2", "3", "3", "4", "5"],
        }
    )
    rows, size = draw_units(frame, np.random.default_rng(0))
    assert sorted(size.tolist()) == [1.0, 1.0, 2.0, 2.0]
    assert len({"u" if row < 2 else "vw" if row < 4 else row for row in rows.tolist()}) == 4


def test_known_images_are_told_by_content_where_there_is_one() -> None:
    old = pd.DataFrame({"id": ["1", "2"], "content": ["c1", "c2"], "group": ["g", "h"]})
    new = pd.DataFrame(
        {"id": ["1", "7", "8"], "content": ["c9", "c2", "c7"], "group": ["k", "k", "g"]}
    )
    is_known, in_group = known_images(old).find(new)
    assert is_known.tolist() == [False, True, False]
    assert in_group.tolist() == [False, False, True]
    assert known_images(old[["id"]]).find(new[["id"]])[0].tolist() == [True, False, False]
