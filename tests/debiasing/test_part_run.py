from __future__ import annotations

from pathlib import Path

import unskew
from parted_pools import TILT, write_parts
from unskew import Pool


def test_the_subsample_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    frame = write_parts(tmp_path)
    weights = unskew.debias(Pool.from_parquet(tmp_path), *TILT, subsample=900)
    values = weights.fit.draw(["y"]).frame["y"]
    ids = weights.sampled.id
    assert frame.set_index("id").loc[ids, "y"].tolist() == values.tolist()
    assert weights.n_sampled == values.size < 1400
