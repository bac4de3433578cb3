"""What is compared: the label, named columns, scores; levels as text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from unskew.monitoring.variables import (
    DISTANCE,
    MEMBERSHIP,
    MOST_COLUMNS,
    SIZE,
    WEIGHT,
    Variable,
    choose_variables,
    read_values,
)

_FRAME = pd.DataFrame(
    {
        "id": [1, 2],
        "source": ["a", "b"],
        "label": ["cat", None],
        "hsv_h": [0.1, np.nan],
        "hsv_s": [1.0, 2.0],
        "other": ["p", "q"],
        "content": ["1", "2"],
    }
)


def _names(frame: pd.DataFrame, named: tuple[str, ...], **options: bool) -> list[str]:
    options = {"has_model": True, "has_sources": True} | options
    return [one.name for one in choose_variables(frame, named, **options)]


def test_named_columns_and_the_label_are_compared() -> None:
    assert _names(_FRAME, ("hsv",)) == ["label", "hsv_h", "hsv_s", MEMBERSHIP, WEIGHT, DISTANCE]
    assert _names(_FRAME, ("other",), has_sources=False) == ["label", "other", WEIGHT]
    assert SIZE in _names(_FRAME.assign(group=["g", "g"]), ("hsv",))


def test_without_named_columns_all_attributes_are_compared_up_to_a_limit() -> None:
    assert _names(_FRAME, (), has_model=False) == ["label", "hsv_h", "hsv_s", "other", DISTANCE]
    wide = pd.DataFrame(np.zeros((2, 200)), columns=[f"e_{k}" for k in range(200)])
    assert len(_names(wide, ("e",), has_model=False)) == MOST_COLUMNS + 1


def test_values_are_numbers_or_texts() -> None:
    assert read_values(_FRAME, Variable("hsv_h"))[0] == 0.1
    assert np.isnan(read_values(_FRAME.assign(hsv_h="text"), Variable("hsv_h"))).all()
    levels = read_values(_FRAME.assign(label=[3.0, ["b", "a"]]), Variable("label", False))
    assert levels.tolist() == ["3", "a, b"]
