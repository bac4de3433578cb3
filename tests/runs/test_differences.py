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
    ("claimed", "computed", "ok"),
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
def test_numbers_agree_within_rounding_and_nothing_else_does(claimed, computed, ok):
    assert compare_values("x", claimed, computed).ok is ok
    assert compare_values("x", computed, claimed).ok is ok


def test_a_difference_is_named_by_its_place_with_both_values():
    claimed = {
        "sources": [{"name": "a", "ess": 12.5}, {"name": "b", "ess": 7.0}],
        "message": "fine",
    }
    computed = {
        "sources": [{"name": "a", "ess": 12.5}, {"name": "b", "ess": 7.7}],
        "message": "weak",
    }
    check = compare_values("report.json", claimed, computed)
    assert check.differences == (
        "sources[1].ess: claimed 7.0, found 7.7",
        "message: claimed 'fine', found 'weak'",
    )
    assert check.worst == pytest.approx(0.7 / 7.7)
    assert check.found == f"2 differ: {', '.join(check.differences)}"
    assert check.to_dict()["differences"] == list(check.differences)


def test_tables_are_joined_by_id_and_differences_named():
    claimed = pd.DataFrame(
        {
            "id": list("abc"),
            "weight": [0.2, 0.3, 0.5],
            "label": [["x"], None, ["y", "z"]],
            "empty": None,
        }
    )
    same = claimed.iloc[[2, 0, 1]][["label", "weight", "empty", "id"]]
    check = compare_tables("weights", claimed, same, relative=1e-9, absolute=0.0)
    assert check.ok
    assert check.found == "9 values agree"
    tampered = claimed.assign(weight=[0.2, 0.3, 0.5 * (1 + 1e-6)])
    check = compare_tables("weights", tampered, same, relative=1e-9, absolute=0.0)
    assert not check.ok
    assert check.worst == pytest.approx(1e-6, rel=1e-3)
    assert check.differences[0].startswith("weight of c: claimed 0.50000")
    close = claimed.assign(weight=claimed["weight"] * (1 + 1e-12))
    assert compare_tables(
        "weights", close, same, relative=1e-9, absolute=0.0
    ).worst == pytest.approx(1e-12, rel=1e-3)
    assert not compare_tables("weights", claimed.assign(weight=[0.2, 0.3, np.nan]), same).ok
    relabelled = compare_tables("weights", claimed.assign(label=[["x"], ["w"], ["y", "z"]]), same)
    assert relabelled.differences == ("label of b: claimed ['w'], found None",)
    other = compare_tables(
        "weights", claimed.assign(id=list("abd")), same.drop(columns="empty").assign(more=1)
    )
    assert other.differences == (
        *(
            "column empty: claimed there, found not there",
            "column more: claimed not there, found there",
        ),
        *(
            "1 images: claimed there, found not there (d)",
            "1 images: claimed not there, found there (c)",
        ),
    )


def test_images_that_changed_went_or_came_are_named():
    claimed = pd.DataFrame({"id": list("abc"), "content": list("123")})
    computed = pd.DataFrame({"id": list("dba"), "content": list("491")})
    assert list(changed_images(claimed, computed)) == ["b has changed", "c is gone", "d is new"]
