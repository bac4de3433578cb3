from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parted_pools import make_frame, write_parts
from unskew import DataError, Pool
from unskew.engine.block_engines import opened_engine
from unskew.sources import part_survey


def test_counts_are_those_of_the_table_whatever_the_blocks(tmp_path: Path) -> None:
    frame = write_parts(tmp_path)
    for block_rows in (400, 10_000):
        pool = Pool.from_parquet(tmp_path, block_rows=block_rows, design_weight="drawn")
        with opened_engine(None) as engine:
            survey = pool.survey(engine, ["label", "z_0"], {"z_0": [-9, 0, 9]}, ids=True)
        cut = pd.cut(frame["z_0"], [-9, 0, 9], right=False).astype(str)
        expected = frame.groupby(["source", "label", cut])["drawn"].agg(["size", "sum"])
        assert survey.cells["count"].sum() == len(frame)
        assert sorted(survey.cells["count"]) == sorted(expected["size"])
        np.testing.assert_allclose(sorted(survey.cells["design"]), sorted(expected["sum"]))
        assert survey.names == tuple(dict.fromkeys(frame["source"]))
        assert dict(zip(survey.names, survey.sizes, strict=True)) == dict(
            frame["source"].value_counts()
        )


@pytest.mark.parametrize("at_once", [1 << 23, 100])
def test_an_id_in_two_parts_is_named_with_them(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_survey, "_AT_ONCE", at_once)
    frame = make_frame(900)
    write_parts(tmp_path, frame)
    with opened_engine(None) as engine:
        Pool.from_parquet(tmp_path).survey(engine, ids=True)
        frame.loc[880, "id"] = "i3"
        write_parts(tmp_path, frame)
        with pytest.raises(DataError) as raised:
            Pool.from_parquet(tmp_path).survey(engine, ids=True)
    assert raised.value.facts["ids"] == ["i3"]
    assert "part-0.parquet" in str(raised.value)
    assert "part-2.parquet" in str(raised.value)


@pytest.mark.parametrize("role", ["id", "source"])
def test_a_missing_role_is_named_with_its_part(tmp_path: Path, role: str) -> None:
    frame = make_frame(300)
    frame.loc[200, role] = None
    write_parts(tmp_path, frame)
    with opened_engine(None) as engine, pytest.raises(DataError) as raised:
        Pool.from_parquet(tmp_path).survey(engine, ids=True)
    assert raised.value.facts["column"] == role
    assert raised.value.facts["path"].endswith("part-2.parquet")
