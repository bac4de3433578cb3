from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.engine.blocks import (
    check_same_columns,
    cut_blocks,
    inspect_part,
    read_block,
)
from unskew.errors import DataError


@pytest.fixture
def part(tmp_path: Path) -> Path:
    table = pa.table(
        {"x": np.arange(1000, dtype=np.float32), "name": [f"n{i}" for i in range(1000)]}
    )
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=120)
    return tmp_path / "p.parquet"


@pytest.mark.parametrize("block_rows", [1, 50, 120, 130, 500, 5000])
def test_blocks_together_are_the_file_whatever_their_size(part: Path, block_rows: int) -> None:
    files = [inspect_part(str(part)), inspect_part(f"file://{part}")]
    blocks = cut_blocks(files, block_rows)
    if block_rows == 1:
        blocks = [block for block in blocks if block.first % 97 == 0]
        assert [read_block(block, ["x"])["x"][0].as_py() for block in blocks] == [
            block.start for block in blocks
        ]
        return
    x = np.concatenate([read_block(block, ["x"])["x"].to_numpy() for block in blocks])
    np.testing.assert_array_equal(x, np.tile(np.arange(1000, dtype=np.float32), 2))
    assert [block.first for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    assert max(map(len, blocks)) <= max(block_rows, 120)


def test_a_decoded_column_is_kept_in_its_own_type_and_not_read_again(
    part: Path, tmp_path: Path
) -> None:
    (block,) = cut_blocks([inspect_part(str(part))], 10_000)
    cache = str(tmp_path / "cache")
    first = read_block(block, ["x", "name"], cache)
    (kept, _) = sorted((tmp_path / "cache").rglob("*.arrow"))
    size = part.stat().st_size
    part.write_bytes(b"0" * size)  # the part itself is not needed any more
    again = read_block(block, ["name", "x"], cache)
    assert again["x"].type == pa.float32()
    assert again["x"].to_pylist() == first["x"].to_pylist()
    assert again["name"].to_pylist() == first["name"].to_pylist()
    # One bit gave other numbers, and said nothing.
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    with pytest.raises(DataError, match=r"p\.parquet"):
        read_block(block, ["name", "x"], cache)


def test_nothing_is_kept_where_a_link_leads(part: Path, tmp_path: Path) -> None:
    (block,) = cut_blocks([inspect_part(str(part))], 10_000)
    (tmp_path / "mine").mkdir()
    read_block(block, ["x"], str(tmp_path / "cache"))
    (folder,) = (tmp_path / "cache").iterdir()
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path / "mine")
    assert read_block(block, ["x"], str(tmp_path / "cache"))["x"][7].as_py() == 7.0
    assert not list((tmp_path / "mine").iterdir())


def test_texts_that_a_part_repeats_are_counted_before_they_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes of such a part took all memory."""
    part = tmp_path / "p.parquet"
    pd.DataFrame({"label": ["x" * 10_000] * 3000, "id": range(3000)}).to_parquet(part)
    monkeypatch.setenv("UNSKEW_MAX_UNPACKED", "2e7")
    (block,) = cut_blocks([inspect_part(str(part))], 10_000)
    assert read_block(block, ["id"]).num_rows == 3000
    with pytest.raises(DataError, match="UNSKEW_MAX_UNPACKED"):
        read_block(block, ["label"])
    few = cut_blocks([inspect_part(str(part))], 1000)[0]
    assert read_block(few, ["label"]).num_rows == 1000


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(part: Path) -> None:
    (block,) = cut_blocks([inspect_part(str(part))], 10_000)
    assert read_block(block, ["x"], str(part / "no folder"))["x"][7].as_py() == 7.0


def test_a_part_that_changed_is_named(part: Path) -> None:
    (block,) = cut_blocks([inspect_part(str(part))], 10_000)
    pd.DataFrame({"x": [1.0]}).to_parquet(part)
    with pytest.raises(DataError, match="changed") as raised:
        read_block(block, ["x"])
    assert raised.value.facts["path"] == str(part)


@pytest.mark.parametrize("content", [b"", b"PAR1 no Parquet at all PAR1", None])
def test_a_part_that_is_damaged_or_missing_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "damaged.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as raised:
        inspect_part(str(path))
    assert raised.value.facts["path"] == str(path)


def test_parts_with_other_columns_are_named(part: Path, tmp_path: Path) -> None:
    other = tmp_path / "q.parquet"
    pd.DataFrame({"x": [1], "name": ["n"]}).to_parquet(other)
    with pytest.raises(DataError, match=r"x \(int64, not float\)") as raised:
        check_same_columns([inspect_part(str(part)), inspect_part(str(other))])
    assert raised.value.facts["path"] == str(other)
