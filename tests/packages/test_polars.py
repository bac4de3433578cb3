"""Frames of polars at every door that takes a pandas frame."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import unskew
from foreign_frames import DOORS, FRAME, POOL, TARGET, WEIGHTS, assert_same

polars = pytest.importorskip("polars", reason="make test-packages has it")


def _polars(frame: pd.DataFrame) -> Any:
    return polars.from_dict({name: frame[name].tolist() for name in frame.columns})


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_polars_frame_is_that_table(door: str) -> None:
    assert_same(DOORS[door](_polars), DOORS[door](lambda frame: frame))


@pytest.mark.slow
def test_series_categories_and_lazy_frames() -> None:
    frame = _polars(FRAME).with_columns(polars.col("label").cast(polars.Enum(["dog", "cat"])))
    pool = unskew.Pool.from_frame(frame)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), TARGET)
    assert weights.mean(frame["x"]).value == pytest.approx(WEIGHTS.mean(POOL.frame["x"]).value)
    with pytest.raises(unskew.DataError, match="collect"):
        unskew.Pool.from_frame(frame.lazy())
