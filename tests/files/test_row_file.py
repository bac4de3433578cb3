"""Rows in a file are what an array of them is."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import DataError
from unskew.files.row_file import RowFile


def _filled(n: int, width: int = 6) -> tuple[RowFile, np.ndarray]:
    values = np.random.default_rng(0).integers(0, 256, (n, width)).astype(np.uint8)
    rows = RowFile((n, width), np.uint8)
    order = np.random.default_rng(1).permutation(n)
    for part in np.array_split(order, 3):
        rows[part] = values[part]
    return rows, values


@given(key=st.lists(st.integers(-9, 8), max_size=20))
def test_numbers_of_rows_give_what_an_array_gives(key: list[int]) -> None:
    rows, values = _filled(9)
    numbers = np.array(key, dtype=np.int64)
    np.testing.assert_array_equal(rows[numbers], values[numbers])


@pytest.mark.parametrize("key", [3, -1, slice(2, 7), slice(None), slice(0, 9, 2)], ids=str)
def test_single_rows_and_slices_too(key) -> None:
    rows, values = _filled(9)
    np.testing.assert_array_equal(rows[key], values[key])


def test_rows_take_another_shape_and_the_first_of_them_another_length() -> None:
    rows, values = _filled(9, 12)
    shaped = rows.reshape(-1, 2, 2, 3).head(4)
    assert (shaped.shape, shaped.ndim, len(shaped), shaped.nbytes) == ((4, 2, 2, 3), 4, 4, 48)
    np.testing.assert_array_equal(shaped[:], values.reshape(-1, 2, 2, 3)[:4])


def test_a_row_that_was_never_written_is_zero() -> None:
    assert not RowFile((3, 4), np.float32)[:].any()


def test_another_process_on_this_machine_opens_the_same_file() -> None:
    rows, values = _filled(9)
    again = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(again[:], values)
    assert len(pickle.dumps(rows)) < 1000


def test_a_file_that_is_gone_is_an_error_with_the_way_out() -> None:
    rows, _ = _filled(9)
    state = {**rows.__getstate__(), "inode": -1}
    with pytest.raises(DataError) as caught:
        RowFile.__new__(RowFile).__setstate__(state)
    assert caught.value.facts["option"] == "memory"
    state = {**rows.__getstate__(), "machine": "elsewhere"}
    with pytest.raises(DataError, match="memory"):
        RowFile.__new__(RowFile).__setstate__(state)
