"""Fingerprints: equal for the same data in another order or folder, different for other data."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unskew import Pool
from unskew.files.fingerprints import (
    find_versions,
    fingerprint_file,
    fingerprint_pool,
    fingerprint_rows,
)


def test_a_file_has_the_sha256_of_its_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000  # more than one block
    (tmp_path / "a").write_bytes(content)
    assert fingerprint_file(tmp_path / "a") == hashlib.sha256(content).hexdigest()
    (tmp_path / "a").write_bytes(b"")
    assert fingerprint_file(str(tmp_path / "a")) == hashlib.sha256(b"").hexdigest()


def test_rows_count_in_any_order_but_every_time() -> None:
    assert fingerprint_rows(["b", "a"]) == hashlib.sha256(b"a\nb\n").hexdigest()
    assert fingerprint_rows(["a", "b"]) == fingerprint_rows(["b", "a"])
    assert fingerprint_rows(["a", "a"]) != fingerprint_rows(["a"])
    assert len(fingerprint_rows(["a name that is no UTF-8: \udcff"])) == 64


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": ["1", "2", "3"],
            "source": ["a", "b", "a"],
            "path": ["x/1.png", "x/2.png", "x/3.png"],
            "content": ["c1", "c2", "c3"],
            "z": [0.1, np.nan, 3.0],
        }
    )


def test_order_of_rows_and_columns_and_the_folder_change_nothing(frame: pd.DataFrame) -> None:
    digests = fingerprint_pool(Pool(frame))
    assert set(digests) == {"table", "images"}
    other = frame.iloc[::-1][["z", "path", "content", "source", "id"]].reset_index(drop=True)
    other["path"] = "elsewhere/" + other["path"]
    assert fingerprint_pool(Pool(other)) == digests


def test_the_last_bit_of_a_number_changes_nothing(frame: pd.DataFrame) -> None:
    other = frame.assign(z=np.nextafter(frame["z"], 9.0))
    assert fingerprint_pool(Pool(other)) == fingerprint_pool(Pool(frame))


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"z": [0.1, np.nan, 3.0001]}, {"table"}),
        ({"z": [0.1, 0.0, 3.0]}, {"table"}),
        ({"source": ["a", "b", "b"]}, {"table"}),
        ({"content": ["c1", "c3", "c2"]}, {"images"}),
        ({"id": ["1", "2", "4"]}, {"table", "images"}),
    ],
)
def test_other_data_have_other_fingerprints(
    frame: pd.DataFrame, change: dict[str, list[object]], changed: set[str]
) -> None:
    before, after = fingerprint_pool(Pool(frame)), fingerprint_pool(Pool(frame.assign(**change)))
    assert {name for name in before if before[name] != after[name]} == changed


def test_images_that_were_not_read_have_no_fingerprint(frame: pd.DataFrame) -> None:
    pool = Pool(frame.drop(columns="content"))
    assert set(fingerprint_pool(pool)) == {"table"}


def test_versions_are_those_that_are_installed() -> None:
    versions = find_versions(("hypothesis", "no-such-package"))
    assert versions["python"] == platform.python_version()
    assert versions["numpy"] == np.__version__
    assert versions["hypothesis"] == importlib.metadata.version("hypothesis")
    assert versions["no-such-package"] == "unknown"


def test_a_table_has_the_fingerprint_of_its_lines() -> None:
    """Columns by name, ``name=value`` with U+001F between them, lines sorted by their text."""
    names, scores = ["b\tx", "b", "ä"], [0.1, 2.0, float("nan")]
    pool = Pool.from_frame(pd.DataFrame({"id": names, "source": ["s", "t", "s"], "score": scores}))
    rows = zip(names, scores, ["s", "t", "s"], strict=True)
    lines = [f"id={a}\x1fscore={b:.12g}\x1fsource={c}" for a, b, c in rows]
    assert fingerprint_pool(pool) == {"table": fingerprint_rows(lines)}
