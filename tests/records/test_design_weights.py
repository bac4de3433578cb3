"""Design weights: what is refused, and how they are scaled."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import Pool
from unskew.errors import DataError
from unskew.records.design_weights import add_design, design_of_frame, scale_design_weights
from unskew.records.pool_table import name_design_weight

SOURCE = ["a", "a", "b", "b", "b"]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_a_design_weight_is_a_finite_number_that_is_not_negative(wrong: float) -> None:
    with refused(DataError, column="design_weight", row=3, source="b", count=1):
        Pool.from_arrays(SOURCE, design_weight=[1.0, 2.0, 3.0, wrong, 1.0])


def test_text_is_no_design_weight() -> None:
    with refused(DataError, column="design_weight"):
        Pool.from_arrays(SOURCE, design_weight=["1", "2", "3", "4", "5"])


def test_a_source_without_weight_is_refused_by_name() -> None:
    with refused(DataError, column="design_weight", source="a", sources=["a"]):
        Pool.from_arrays(SOURCE, design_weight=[0, 0, 1, 2, 0])


def test_they_are_scaled_to_mean_1_over_the_images_that_count() -> None:
    pool = Pool.from_arrays(SOURCE, design_weight=[1e300, 3e300, 0, 1, 3])
    np.testing.assert_allclose(pool.design_weight, [0.5, 1.5, 0.0, 0.5, 1.5], rtol=1e-15)
    np.testing.assert_array_equal(design_of_frame(pool.frame), pool.design_weight)
    assert add_design(pool.source, pool.design_weight, 2).tolist() == [2.0, 2.0]


def test_equal_design_weights_say_nothing() -> None:
    assert Pool.from_arrays(SOURCE, design_weight=[7, 7, 0.1, 0.1, 0.1]).design_weight is None
    assert Pool.from_arrays(SOURCE).design_weight is None
    assert scale_design_weights(np.ones(3), np.zeros(3, dtype=int), ("a",)) is None
    assert design_of_frame(pd.DataFrame({"source": SOURCE})) is None


def test_a_column_is_named_as_the_design_weight() -> None:
    frame = pd.DataFrame({"source": SOURCE, "w": [1, 2, 1, 2, 3]})
    pool = Pool.from_frame(frame, design_weight="w")
    assert "w" not in pool.frame.columns
    assert pool.attributes == ()
    assert name_design_weight(pool, "design_weight") is pool
    with refused(DataError, column="v", option="design_weight"):
        name_design_weight(Pool.from_frame(frame), "v")
    with refused(DataError, column="w", option="design_weight"):
        name_design_weight(Pool.from_frame(frame.assign(design_weight=1)), "w")


def test_they_follow_their_images() -> None:
    pool = Pool.from_arrays(SOURCE, design_weight=[1, 3, 1, 2, 3])
    np.testing.assert_allclose(pool.take([1, 0, 4, 2]).design_weight, [1.5, 0.5, 1.5, 0.5])
