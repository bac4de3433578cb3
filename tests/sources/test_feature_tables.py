from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from raising import refused
from unskew import DataError, Pool
from unskew.sources.feature_tables import join_features

POOL = Pool.from_arrays(["a", "a", "b"], id=["x", "y", "z"])


def write(folder: Path, name: str, **columns: object) -> None:
    pd.DataFrame(columns).to_parquet(folder / name, index=False)


def test_rows_are_found_by_id_in_any_part_and_order(tmp_path: Path) -> None:
    write(tmp_path, "0.parquet", image=["z", "other"], emb=[[3.0, 4.0], [0.0, 0.0]])
    write(tmp_path, "1.parquet", image=["y", "x"], emb=[[2.0, 2.0], [1.0, 1.0]])
    joined = join_features(POOL, "*.parquet", tmp_path, "image")
    np.testing.assert_array_equal(joined.frame[["emb_0", "emb_1"]], [[1, 1], [2, 2], [3, 4]])
    pd.DataFrame({"id": ["z", "y", "x"], "q": [1, 2, 3]}).to_csv(tmp_path / "q.csv", index=False)
    assert join_features(POOL, "q.csv", tmp_path, "id").frame["q"].tolist() == [3, 2, 1]


def test_what_cannot_be_joined_is_named(tmp_path: Path) -> None:
    write(tmp_path, "one.parquet", id=["x", "y"], q=[1.0, 2.0])
    write(tmp_path, "twice.parquet", id=["x", "x", "y", "z"], q=[1.0, 2.0, 3.0, 4.0])
    write(tmp_path, "none.parquet", id=["x", "y", "z"], source=["a", "a", "b"])
    write(tmp_path, "others.parquet", id=["u", "v"], q=[1.0, 2.0])
    with refused(DataError, count=1, ids=["z"]):
        join_features(POOL, "one.parquet", tmp_path, "id")
    with refused(DataError, ids=["x"]):
        join_features(POOL, "twice.parquet", tmp_path, "id")
    with refused(DataError, path="none.parquet"):
        join_features(POOL, "none.parquet", tmp_path, "id")
    with refused(DataError, column="ids"):
        join_features(POOL, "one.parquet", tmp_path, "ids")
    assert join_features(POOL, "others.parquet", tmp_path, "id", optional=True) is POOL
