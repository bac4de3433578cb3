from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from parted_pools import TILT, in_memory, make_frame, read_parts, write_parts
from raising import refused
from unskew import ConfigError, DataError, Pool


def write_beside(folder: Path, frame: pd.DataFrame, **changed: Any) -> None:
    """Write z as vectors into parts beside those of the pool, in row groups of other sizes."""
    beside = pd.DataFrame({"image": frame["id"], "z": list(frame[["z_0", "z_1"]].to_numpy())})
    folder.mkdir()
    edges = [0, 250, 750, 1500]  # as write_parts cuts
    for at in range(3):
        part = beside.iloc[edges[at] : edges[at + 1]].assign(**changed)
        part.to_parquet(folder / f"{at}.parquet", row_group_size=170, index=False)


def test_weights_are_those_of_one_table(tmp_path: Path) -> None:
    frame = make_frame()
    write_parts(tmp_path / "pool", frame.drop(columns=["z_0", "z_1"]))
    write_beside(tmp_path / "emb", frame)
    features = {"file": str(tmp_path / "emb"), "id": "image"}
    pool = Pool.from_parquet(tmp_path / "pool", features=features, block_rows=400)
    weights = unskew.debias(pool, *TILT, subsample=900)
    weights.to_parquet(tmp_path / "weights")
    expected = unskew.debias(in_memory(frame), *TILT)
    np.testing.assert_allclose(
        read_parts(tmp_path / "weights")["weight"], expected.weight, rtol=1e-9
    )
    assert weights.mean("z_1").value == pytest.approx(
        expected.mean(frame["z_1"].to_numpy()).value, abs=1e-9
    )


@pytest.mark.parametrize(
    "features", [{}, {"id": "id"}, {"file": "x", "of": 1}, {"file": "x", "id": 3}]
)
def test_a_place_of_features_that_says_something_else_is_refused(
    features: Any, tmp_path: Path
) -> None:
    write_parts(tmp_path / "pool", make_frame())
    with refused(ConfigError, option="features"):
        Pool.from_parquet(tmp_path / "pool", features=features)


def test_rows_of_other_images_are_refused(tmp_path: Path) -> None:
    frame = make_frame()
    write_parts(tmp_path / "pool", frame)
    write_beside(tmp_path / "emb", frame.assign(id=frame["id"].to_numpy()[::-1]), q=1.0)
    with refused(DataError, path=str(tmp_path / "emb" / "0.parquet"), row=0):
        read(tmp_path, "image")
    with refused(DataError, column="nothing"):
        read(tmp_path, "nothing")
    (tmp_path / "emb" / "2.parquet").unlink()
    with refused(DataError, count=750, limit=1500):
        read(tmp_path, "image")


def read(folder: Path, id_column: str) -> Pool:
    features = {"file": str(folder / "emb"), "id": id_column}
    return Pool.from_parquet(folder / "pool", features=features)


def test_vectors_of_other_lengths_name_their_part_and_row(tmp_path: Path) -> None:
    frame = make_frame().drop(columns=["z_0", "z_1"])
    frame["z"] = [[0.5] * (3 if row == 1400 else 2) for row in range(len(frame))]
    write_parts(tmp_path, frame)
    with refused(DataError, column="z", path=str(tmp_path / "part-2.parquet"), row=650):
        unskew.debias(Pool.from_parquet(tmp_path), *TILT, subsample=900)
