"""Tables of other packages: each door gives what it gives for the same pandas frame."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

import foreign_frames
import unskew
from foreign_frames import DOORS, FRAME, WEIGHTS, assert_same
from unskew.engine.frames import read_foreign, read_frame


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


class Stream:
    """A table that offers the Arrow C interface and nothing else."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._table = _arrow(frame)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Interchange:
    """A table that offers ``__dataframe__`` and nothing else."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._table = _arrow(frame)

    def __dataframe__(self, **options: Any) -> Any:
        return self._table.__dataframe__(**options)


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {name: frame[name].tolist() for name in frame.columns}


@pytest.mark.parametrize("door", DOORS)
def test_a_table_of_another_package_is_that_table(door: str) -> None:
    assert_same(DOORS[door](Stream), DOORS[door](lambda frame: frame))


@pytest.mark.parametrize("make", [Interchange, _arrow, _columns])
def test_other_kinds_of_tables(make: Callable[..., Any]) -> None:
    for door in ("Pool.from_frame", "Target.table", "debias_weights"):
        assert_same(DOORS[door](make), DOORS[door](lambda frame: frame))


def test_columns_are_taken_in_their_order() -> None:
    values = pa.chunked_array([FRAME["x"].to_numpy()])
    wanted = WEIGHTS.mean(FRAME["x"])
    assert WEIGHTS.mean(values) == wanted
    assert WEIGHTS.mean(values.chunk(0)) == wanted
    np.testing.assert_array_equal(
        WEIGHTS.align(pa.array(FRAME["id"].tolist())[::-1]), WEIGHTS.weight[::-1]
    )
    # A Series in a dict is a column like the others: its index is no id.
    shuffled = pd.Series([1, 2, 3], index=[2, 1, 0])
    assert read_frame({"a": shuffled, "b": [1, 2, 3]})["a"].tolist() == [1, 2, 3]


def test_types_that_pandas_lacks_are_read_as_numbers_and_texts() -> None:
    table = pa.table(
        {
            "price": pa.array([Decimal("1.5"), None], pa.decimal128(5, 2)),
            "name": pa.array(["a", "b"], pa.string_view()),
            "tags": pa.array([["a"], []], pa.list_(pa.string_view())),
            "kind": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    frame = read_frame(table)
    assert frame["price"].dtype == np.float64
    assert frame["name"].tolist() == ["a", "b"]
    assert [list(tags) for tags in frame["tags"]] == [["a"], []]
    assert read_foreign(table["kind"]).categories.tolist() == ["x", "y"]


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray, list, str, scipy.sparse.dok_array])
def test_what_is_pandas_or_numpy_stays_itself(kind: Callable[..., Any]) -> None:
    value = kind([[1.0]])
    assert read_foreign(value) is value
    assert read_frame(value) is value


def test_what_is_no_table_is_refused_by_name() -> None:
    with pytest.raises(unskew.DataError, match=r"Pool\.from_frame"):
        unskew.debias(Stream(FRAME), unskew.bias.Strata("label"), foreign_frames.TARGET)  # type: ignore[arg-type]
    with pytest.raises(unskew.DataError, match="ChunkedArray"):
        unskew.Pool.from_frame(pa.chunked_array([[1]]))  # type: ignore[arg-type]
    with pytest.raises(unskew.DataError, match="one length"):
        unskew.Pool.from_frame({"source": ["a"], "x": [1, 2]})  # type: ignore[arg-type]
