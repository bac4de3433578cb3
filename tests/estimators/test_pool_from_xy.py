"""Arrays and tables of a scikit-learn user as a pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew.errors import DataError
from unskew.estimators.pool_from_xy import GivenImages, pool_images


def test_names_of_columns() -> None:
    pool = pool_images(
        GivenImages(
            np.zeros((2, 2)),
            ["cat", "dog"],
            ["a", "b"],
            group=[5, 6],
            attributes={"camera": ["p", "q"]},
        )
    )
    assert list(pool.frame.columns) == ["source", "group", "label", "id", "x_0", "x_1", "camera"]
    frame = pd.DataFrame({"age": [1.0, 2.0], 7: [0, 1]}, index=["i", "j"])
    pool = pool_images(GivenImages(frame, np.zeros((2, 2))))
    assert {"age", "7", "label_0", "label_1"} <= set(pool.frame.columns)
    assert pool.frame["id"].tolist() == ["i", "j"]
    assert pool_images(GivenImages(frame, None, attributes={"id": [8, 9]})).frame[
        "id"
    ].tolist() == [
        8,
        9,
    ]


def test_sources_keep_the_order_of_their_categories() -> None:
    source = pd.Series(pd.Categorical(["b", "a"], categories=["b", "a"]))
    assert pool_images(GivenImages(np.zeros((2, 1)), None, source)).names == ("b", "a")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"attributes": {"x_0": [1, 2]}}, {"option": "attributes", "column": "x_0"}),
        ({"attributes": {"label": [1, 2]}}, {"option": "attributes", "column": "label"}),
        ({"X": pd.DataFrame({"source": [1, 2]})}, {"option": "X", "column": "source"}),
        ({"attributes": {"age": [1, 2, 3]}}, {"option": "attributes", "count": 3, "limit": 2}),
        ({"attributes": [1, 2]}, {"option": "attributes", "value": "list"}),
        ({"source": ["a"]}, {"option": "source", "limit": 2}),
        ({"group": [[1], [2]]}, {"option": "group", "limit": 2}),
        ({"y": [1, 2, 3]}, {"option": "y", "limit": 2}),
        (
            {"X": pd.DataFrame({"u": [1, 2]}), "source": pd.Series(["a", "b"], index=[1, 0])},
            {"option": "source"},
        ),
    ],
)
def test_columns_that_do_not_fit(arguments: Any, facts: Any) -> None:
    images = {"X": np.zeros((2, 1)), "y": [0, 1], **arguments}
    with refused(DataError, **facts):
        pool_images(GivenImages(**images))
