"""Formulas are guarded, and what was guarded is found again."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.files.spreadsheet_text import (
    guard_formula,
    guard_table,
    unguard_formula,
    unguard_table,
)


@given(st.text(alphabet="'=+-@\t\rab1.e", max_size=6))
def test_guarding_can_be_undone(text: str) -> None:
    assert unguard_formula(guard_formula(text)) == text


@pytest.mark.parametrize("text", ["=cmd|'/c calc'!A1", "+1+1", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_no_longer_begins_a_cell(text: str) -> None:
    assert guard_formula(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-3.5", "+1e9", "cat", "a=b", "", 7, None, -2.5])
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert guard_formula(value) == value


def test_tables() -> None:
    table = pd.DataFrame({"id": ["=x", "b"], "=n": [-1, 2]})
    assert guard_table(table).columns.tolist() == ["id", "'=n"]
    assert guard_table(table)["id"].tolist() == ["'=x", "b"]
    pd.testing.assert_frame_equal(unguard_table(guard_table(table)), table)
