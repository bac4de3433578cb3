"""Joining by id: positions, or an error that carries the ids."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import DataError
from unskew.records.levels import (
    as_text,
    codes_or_alone,
    find_positions,
    list_ids,
    refuse_duplicates,
    refuse_extra,
)

WHO = {"of": "the dataset", "among": "the weights"}


def test_positions_are_those_of_the_ids_in_any_order_and_number() -> None:
    owned = ["c", "a", "b"]
    assert find_positions(["a", "b", "c", "a"], owned, **WHO).tolist() == [1, 2, 0, 1]
    assert find_positions([], owned, **WHO).tolist() == []
    assert find_positions([2, "2"], ["2", 2], **WHO).tolist() == [1, 0]


def test_unknown_ids_are_counted_and_named() -> None:
    with refused(DataError, ids=["x", "y"], count=2) as caught:
        find_positions(["a", "x", "y"], ["a", "b"], **WHO)
    assert "the dataset" in str(caught.value)
    assert "the weights" in str(caught.value)


def test_ids_of_another_type_are_pointed_out() -> None:
    with refused(DataError, ids=["1"], count=1) as caught:
        find_positions(["1"], [1], **WHO)
    assert "str ('1')" in str(caught.value)
    assert "int (1)" in str(caught.value)


def test_duplicate_ids_are_refused_where_they_would_be_ambiguous() -> None:
    with refused(DataError, ids=["a"], count=1):
        find_positions(["b"], ["a", "b", "a"], **WHO)
    with refused(DataError, ids=["a", "b"], count=2):
        refuse_duplicates(["a", "b", "a", "b", "c"], "the dataset")
    refuse_duplicates(["a", "b"], "the dataset")


def test_ids_that_nobody_asked_for_are_refused_on_request() -> None:
    refuse_extra(["a", "b"], ["b", "a", "c"], **WHO, way_out="")
    with refused(DataError, ids=["b"], count=1) as caught:
        refuse_extra(["a", "b"], ["a"], **WHO, way_out="Pass allow_extra=True.")
    assert str(caught.value).endswith("Pass allow_extra=True.")


@pytest.mark.parametrize(
    "ids", [[1, 2], (1, 2), np.array([1, 2], dtype=np.int32), [np.int64(1), 2], range(1, 3), {1, 2}]
)
def test_numbers_of_every_library_are_one_id(ids) -> None:
    listed = list_ids(ids)
    assert listed == [1, 2]
    assert all(type(name) is int for name in listed)


def test_missing_entries_have_codes_of_their_own():
    code_n = codes_or_alone(pd.Series(["b", None, "a", "b", None]))
    assert code_n[0] == code_n[3]
    assert np.unique(code_n).size == 4


def test_a_category_is_read_once_and_gives_the_texts_of_its_rows() -> None:
    column = pd.Series(["b", None, "a", "b"], dtype="category", name="source", index=[3, 1, 4, 5])
    expected = column.astype(column.cat.categories.dtype)
    pd.testing.assert_series_equal(as_text(column), expected)
