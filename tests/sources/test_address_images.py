"""Images at addresses, listed by a table that is there or here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew.files.addresses import local_folder, uploaded_folder
from unskew.sources.readers import read_sample


def test_images_are_read_where_the_table_is(bucket: str) -> None:
    pool = unskew.Pool.from_manifest(f"{bucket}/table.csv")
    assert pool.frame["path"].iloc[3] == f"{bucket}/img/3.png"
    features = unskew.represent_images(pool, ["brightness"]).frame["brightness"]
    np.testing.assert_allclose(np.diff(features), np.diff(features)[0], rtol=1e-6)


def test_folders_of_images_at_addresses(bucket: str, tmp_path: Path) -> None:
    """As the same folders here: names, labels, metadata and pixels."""
    with uploaded_folder(f"{bucket}/sorted") as folder, local_folder(f"{bucket}/img") as images:
        for row in range(20):
            file = folder / f"{'ab'[row % 2]}/{'xy'[row // 10]}/{row}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes((images / f"{row}.png").read_bytes())
        (folder / "a/metadata.csv").write_text("file_name,age\nx/0.png,7\n")
        (folder / "a/.hidden.png").write_text("")
        (folder / "a/notes.txt").write_text("")
        shutil.copytree(folder, tmp_path / "sorted")
    there, here = (
        unskew.Pool.from_folders({name: f"{root}/{name}" for name in "ab"})
        for root in (f"{bucket}/sorted", tmp_path / "sorted")
    )
    assert there.frame["path"].iloc[0] == f"{bucket}/sorted/a/x/0.png"
    pd.testing.assert_frame_equal(there.frame.drop(columns="path"), here.frame.drop(columns="path"))
    brightness = [
        unskew.represent_images(pool, ["brightness"]).frame["brightness"] for pool in (there, here)
    ]
    np.testing.assert_array_equal(*brightness)
    assert len(read_sample(f"{bucket}/sorted/b").frame) == 10
    with pytest.raises(unskew.ConfigError, match="no folder"):
        unskew.Pool.from_folders({"a": f"{bucket}/sort"})


def test_addresses_in_a_local_table_need_leave(tmp_path: Path, memory: Any) -> None:
    memory.pipe("/img/a.png", b"x")
    table = tmp_path / "t.csv"
    table.write_text("path,source\nmemory://img/a.png,a\nmemory://img/b.png?k=1,a\n")
    with pytest.raises(unskew.DataError, match="allow_outside"):
        unskew.Pool.from_manifest(table)
    pool = unskew.Pool.from_manifest(table, allow_outside=True)
    assert len(pool.frame) == 1
    assert pool.images is not None
    assert pool.images.read(0) == b"x"
