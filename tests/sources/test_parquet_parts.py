from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parted_pools import make_frame, write_parts
from unskew import ConfigError, DataError, Pool


def test_a_folder_a_glob_a_list_and_a_uri_are_the_same_parts(tmp_path: Path) -> None:
    write_parts(tmp_path / "pool")
    (tmp_path / "pool" / "_SUCCESS").touch()
    files = [str(tmp_path / "pool" / f"part-{at}.parquet") for at in range(3)]
    folder = tmp_path / "pool"
    for place in (folder, f"{folder}/part-*.parquet", files, f"file://{folder}/p*.parquet"):
        pool = Pool.from_parquet(place)
        assert [part.path.removeprefix("file://") for part in pool.parts] == files
        assert len(pool) == 1500


def test_parts_come_by_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        pd.DataFrame({"id": [number], "source": ["a"]}).to_parquet(tmp_path / f"{number}.parquet")
    pool = Pool.from_parquet(tmp_path)
    assert [Path(part.path).name for part in pool.parts] == ["1.parquet", "9.parquet", "10.parquet"]


def test_folders_may_say_the_source_and_columns_get_their_roles(tmp_path: Path) -> None:
    frame = make_frame(60).rename(columns={"id": "key", "label": "class"}).drop(columns="source")
    for at, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        part = frame.iloc[40 * at : 40 + 20 * at]
        part.to_parquet(tmp_path / name / "p.parquet")
    places = {"b": tmp_path / "one", 7: str(tmp_path / "two" / "*.parquet")}
    pool = Pool.from_parquet(places, id="key", label="class")
    assert pool.names == ("b", "7")
    assert pool.sizes.tolist() == [40, 20]
    assert pool.columns[:3] == ("id", "source", "label")
    few = pool.sample(1000)
    assert few.frame["id"].tolist() == frame["key"].tolist()
    assert few.names == ("b", "7")


def test_a_part_without_rows_changes_nothing(tmp_path: Path) -> None:
    frame = write_parts(tmp_path)
    frame.iloc[:0].to_parquet(tmp_path / "part-00.parquet", index=False)
    pool = Pool.from_parquet(tmp_path)
    assert len(pool.parts) == 4
    assert pool.sizes.sum() == len(pool) == len(frame)


@pytest.mark.parametrize("place", ["no such folder", "*.parquet", ["part-9.parquet"], "s0://x/y"])
def test_parts_that_are_not_there_are_named(tmp_path: Path, place: Any) -> None:
    is_path = isinstance(place, str) and "://" not in place
    with pytest.raises(DataError) as raised:
        Pool.from_parquet(str(tmp_path / place) if is_path else place)
    assert str(place if isinstance(place, str) else place[0]) in raised.value.facts["path"]


def test_parts_that_disagree_or_are_damaged_are_named(tmp_path: Path) -> None:
    frame = write_parts(tmp_path)
    other = tmp_path / "part-7.parquet"
    frame.iloc[:5].drop(columns="z_0").to_parquet(other)
    with pytest.raises(DataError) as raised:
        Pool.from_parquet(tmp_path)
    assert raised.value.facts["columns"] == ["z_0"]
    assert raised.value.facts["path"] == str(other)
    other.write_bytes(b"PAR1")
    with pytest.raises(DataError) as raised:
        Pool.from_parquet(tmp_path)
    assert raised.value.facts["path"] == str(other)


@pytest.mark.parametrize(
    ("options", "column"), [({"id": "no"}, "no"), ({"group": "gruop"}, "gruop")]
)
def test_columns_that_the_parts_lack_are_named(
    tmp_path: Path, options: dict[str, str], column: str
) -> None:
    write_parts(tmp_path)
    with pytest.raises(DataError) as raised:
        Pool.from_parquet(tmp_path, **options)
    assert raised.value.facts["column"] == column


def test_nothing_is_no_place_for_parts(tmp_path: Path) -> None:
    for place in ([], {}, 3):
        with pytest.raises(ConfigError):
            Pool.from_parquet(place)
    write_parts(tmp_path)
    with pytest.raises(DataError, match="twice"):
        Pool.from_parquet([tmp_path, str(tmp_path / "part-0.parquet")])
