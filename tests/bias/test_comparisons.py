"""Columns are compared between the sources that have them."""

import numpy as np
import pandas as pd
import pytest

from unskew.bias.comparisons import find_comparisons
from unskew.errors import DataError

SOURCE = np.repeat([0, 1, 2], 4)
NAMES = ("a", "b", "t")


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_columns_of_all_sources_make_one_comparison():
    frame = table(x=np.arange(12.0), kind=list("pqpq" * 3))
    (comparison,), notes = find_comparisons(frame, SOURCE, NAMES, ["x", "kind"])
    assert comparison.sources.all()
    assert comparison.alone == ("x", "kind")
    assert notes == ()


def test_a_column_that_one_source_lacks_is_compared_between_the_others_with_all_they_share():
    label = [*"uvuvvuvu", None, None, None, None]
    frame = table(x=np.arange(12.0), label=label)
    (every, labelled), notes = find_comparisons(frame, SOURCE, NAMES, ["label", "x"])
    assert [column.name for column in every.columns] == ["x"]
    assert labelled.sources.tolist() == [True, True, False]
    assert [column.name for column in labelled.columns] == ["label", "x"]
    assert labelled.alone == ("label",)
    # The missing value is no level.
    assert next(c for c in labelled.columns if c.name == "label").places == (
        "label = u",
        "label = v",
    )
    assert "`t` has none" in notes[0]


def test_a_source_with_some_values_missing_counts_as_one_without():
    value = np.arange(12.0)
    value[1] = np.nan
    (comparison,), notes = find_comparisons(table(x=value), SOURCE, NAMES, ["x"])
    assert comparison.sources.tolist() == [False, True, True]
    assert "some images of `a`" in notes[0]


def test_nothing_to_compare_is_an_error():
    value = np.arange(12.0)
    value[[1, 5]] = np.nan
    with pytest.raises(DataError) as refusal:
        find_comparisons(table(x=value), SOURCE, NAMES, ["x"])
    assert refusal.value.facts["columns"] == ["x"]
