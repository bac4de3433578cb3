"""Images at addresses, listed by a table that is there or here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unskew


def test_images_are_read_where_the_table_is(bucket: str) -> None:
    pool = unskew.Pool.from_manifest(f"{bucket}/table.csv")
    assert pool.frame["path"].iloc[3] == f"{bucket}/img/3.png"
    features = unskew.represent_images(pool, ["brightness"]).frame["brightness"]
    np.testing.assert_allclose(np.diff(features), np.diff(features)[0], rtol=1e-6)


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
