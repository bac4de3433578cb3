"""The fit to all rows begins at the subsample's, or where an earlier one ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unskew
from parted_pools import STRATA, TILT, make_frame, write_parts
from unskew import Pool


@pytest.mark.parametrize("case", [STRATA, TILT], ids=["strata", "tilt"])
def test_a_pool_of_more_images_is_weighed_from_where_the_fit_ended(
    tmp_path: Path, case: Any
) -> None:
    frame = make_frame(4000)
    write_parts(tmp_path / "two", frame)
    write_parts(tmp_path / "one", frame.iloc[:3800])
    weights = unskew.debias(Pool.from_parquet(tmp_path / "one"), *case, subsample=900)
    grown = weights.refit(Pool.from_parquet(tmp_path / "two"))
    fresh = unskew.debias(Pool.from_parquet(tmp_path / "two"), *case, subsample=900)
    assert grown.images == 4000
    np.testing.assert_allclose(grown.weigh(frame), fresh.weigh(frame), rtol=1e-8)
    # What all images told before is nearer than a subsample.
    assert grown.passes <= min(fresh.passes, 6)
