"""Principal components: what they are of, their scale, and what cannot be read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import DataError
from unskew.bias.components import learn_components
from unskew.bias.tilt import Tilt
from unskew.errors import ConfigError


def _frame(seed: int = 0) -> pd.DataFrame:
    x = np.random.default_rng(seed).normal(size=(500, 3)) * [5.0, 2.0, 0.5]
    return pd.DataFrame({"e_0": x[:, 0] + 10, "e_1": x[:, 1], "e_2": x[:, 2]})


def test_the_first_has_standard_deviation_1_and_later_ones_less() -> None:
    deviation = learn_components(_frame(), ["e"], 3).read(_frame()).std(axis=0)
    # The columns are nearly independent: their own ratios, up to sampling.
    np.testing.assert_allclose(deviation, [1.0, 0.4, 0.1], rtol=0.1)
    assert deviation[0] == pytest.approx(1.0)


def test_columns_that_are_not_numbered_alike_count_alike() -> None:
    frame = _frame().rename(columns={"e_0": "width", "e_1": "brightness", "e_2": "contrast"})
    deviation = learn_components(frame, list(frame.columns), 3).read(frame).std(axis=0)
    assert deviation.min() > 0.8


def test_the_order_of_rows_changes_nothing() -> None:
    frame = _frame()
    first = learn_components(frame, ["e"], 2).read(frame)
    again = learn_components(frame.iloc[::-1], ["e"], 2).read(frame)
    np.testing.assert_allclose(first, again, atol=1e-9)


def test_text_missing_and_constant_columns_are_refused() -> None:
    frame = _frame()
    with refused(DataError, columns=["e_3"]):
        learn_components(frame.assign(e_3="bright"), ["e"], 2)
    with refused(DataError, column="e_1", count=1):
        learn_components(frame.assign(e_1=[np.nan, *frame["e_1"][1:]]), ["e"], 2)
    with refused(DataError, columns=["e_0"]):
        learn_components(pd.DataFrame({"e_0": np.ones(10)}), ["e"], 2)


@pytest.mark.parametrize("components", [-1, 1.5, "two"])
def test_a_tilt_refuses_what_is_no_number_of_components(components: object) -> None:
    with refused(ConfigError, option="components"):
        Tilt(["x"], components=components)  # type: ignore[arg-type]
