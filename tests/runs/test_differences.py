"""Values and tables that agree or differ, and how a difference is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.runs.differences import changed_images, compare_tables, compare_values

_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(-1e6, 1e6)
    | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=25)
@given(value=_PLAIN)
def test_a_value_agrees_with_itself_and_not_with_another_in_its_place(value):
    assert compare_values("x", value, value).ok
    assert not compare_values("x", {"a": value}, {"a": [value, "more"]}).ok
    assert not compare_values("x", {"a": value}, {}).ok
    assert not compare_values("x", [value], []).ok


@pytest.mark.parametrize(
    ("said", "found", "ok"),
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.0 + 1e-7, False),
        (0.0, 1e-13, True),
        (0.0, 1e-9, False),
        (10**12, 10**12 + 1, False),
        (1, 1.0, True),
        (True, 1, False),
        (None, 0.0, False),
        ("1", 1, False),
        ("a", "a", True),
    ],
)
def test_numbers_agree_within_rounding_and_nothing_else_does(said, found, ok):
    assert compare_values("x", said, found).ok is ok
    assert compare_values("x", found, said).ok is ok


def test_a_difference_is_named_by_its_place_with_both_values():
    said = {"sources": [{"name": "a", "ess": 12.5}, {"name": "b", "ess": 7.0}], "message": "fine"}
    found = {"sources": [{"name": "a", "ess": 12.5}, {"name": "b", "ess": 7.7}], "message": "weak"}
    check = compare_values("report.json", said, found)
    assert check.differences == (
        "sources[1].ess: said 7.0, found 7.7",
        "message: said 'fine', found 'weak'",
    )
    assert check.worst == pytest.approx(0.7 / 7.7)
    assert check.found == f"2 differ: {', '.join(check.differences)}"
    assert check.to_dict()["differences"] == list(check.differences)


def test_tables_are_joined_by_id_and_differences_named():
    said = pd.DataFrame(
        {
            "id": list("abc"),
            "weight": [0.2, 0.3, 0.5],
            "label": [["x"], None, ["y", "z"]],
            "empty": None,
        }
    )
    same = said.iloc[[2, 0, 1]][["label", "weight", "empty", "id"]]
    check = compare_tables("weights", said, same, relative=1e-9, absolute=0.0)
    assert check.ok
    assert check.found == "9 values agree"
    tampered = said.assign(weight=[0.2, 0.3, 0.5 * (1 + 1e-6)])
    check = compare_tables("weights", tampered, same, relative=1e-9, absolute=0.0)
    assert not check.ok
    assert check.worst == pytest.approx(1e-6, rel=1e-3)
    assert check.differences[0].startswith("weight of c: said 0.50000")
    close = said.assign(weight=said["weight"] * (1 + 1e-12))
    assert compare_tables(
        "weights", close, same, relative=1e-9, absolute=0.0
    ).worst == pytest.approx(1e-12, rel=1e-3)
    assert not compare_tables("weights", said.assign(weight=[0.2, 0.3, np.nan]), same).ok
    relabelled = compare_tables("weights", said.assign(label=[["x"], ["w"], ["y", "z"]]), same)
    assert relabelled.differences == ("label of b: said ['w'], found None",)
    other = compare_tables(
        "weights", said.assign(id=list("abd")), same.drop(columns="empty").assign(more=1)
    )
    assert other.differences == (
        *("column empty: said there, found not there", "column more: said not there, found there"),
        *("1 images: said there, found not there (d)", "1 images: said not there, found there (c)"),
    )


def test_images_that_changed_went_or_came_are_named():
    said = pd.DataFrame({"id": list("abc"), "content": list("123")})
    found = pd.DataFrame({"id": list("dba"), "content": list("491")})
    assert list(changed_images(said, found)) == ["b has changed", "c is gone", "d is new"]
