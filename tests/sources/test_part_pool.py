from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parted_pools import make_frame, write_parts
from unskew import DataError, Pool


@pytest.mark.parametrize("attribute", ["frame", "source", "design_weight"])
def test_what_needs_a_table_points_to_a_sample(tmp_path: Path, attribute: str) -> None:
    write_parts(tmp_path)
    pool = Pool.from_parquet(tmp_path)
    assert isinstance(pool, Pool)
    with pytest.raises(DataError, match="sample"):
        getattr(pool, attribute)
    with pytest.raises(DataError, match="sample"):
        pool.take([1, 2])
    assert "1,500 images in 3" in repr(pool)


def test_a_subsample_counts_each_source_and_stratum_as_often_as_they_are(tmp_path: Path) -> None:
    frame = write_parts(tmp_path)
    pool = Pool.from_parquet(tmp_path, block_rows=400)
    few = pool.sample(900, by=["label"])
    assert 700 < len(few) < 1400
    drawn = few.frame.assign(source=few.frame["source"].astype(str))
    counted = drawn.groupby(["source", "label"])["design_weight"].sum()
    expected = frame.groupby(["source", "label"]).size()
    np.testing.assert_allclose(counted, expected)
    assert set(few.frame["id"]) < set(frame["id"])


def test_the_images_drawn_do_not_depend_on_the_blocks_but_on_the_seed(tmp_path: Path) -> None:
    write_parts(tmp_path)
    one, other = (Pool.from_parquet(tmp_path, block_rows=rows) for rows in (400, 5000))
    ids = one.sample(700).frame["id"].tolist()
    assert other.sample(700).frame["id"].tolist() == ids
    assert other.sample(700, seed=1).frame["id"].tolist() != ids


def test_groups_stay_together_and_all_images_have_no_design_weight(tmp_path: Path) -> None:
    frame = make_frame()
    frame["patient"] = np.arange(len(frame)) // 5
    frame["source"] = np.repeat(["a", "b", "c"], 500)
    write_parts(tmp_path, frame)
    pool = Pool.from_parquet(tmp_path, group="patient")
    few = pool.sample(700).frame
    assert (few.groupby("group").size() == 5).all()
    every = pool.sample(1500).frame
    assert "design_weight" not in every.columns
    assert every["id"].tolist() == frame["id"].tolist()
