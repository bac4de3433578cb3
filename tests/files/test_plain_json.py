"""Any record becomes JSON that every reader understands, written atomically."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raising import refused
from unskew.errors import DataError
from unskew.files.plain_json import json_text, json_value, write_json


@dataclass(frozen=True)
class Record:
    name: str
    values: Any


def test_records_arrays_and_scalars_become_plain_values() -> None:
    values = (np.array([1.5, np.nan]), np.int64(3), np.bool_(True), {2: float("inf")}, None)
    assert json_value(Record("é", values)) == {
        "name": "é",
        "values": [[1.5, None], 3, True, {"2": None}, None],
    }
    assert type(json_value(np.float32(0.5))) is float


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
        max_leaves=20,
    )
)
def test_plain_values_survive_the_text_and_stay_what_they_are(value: Any) -> None:
    plain = json_value(value)
    assert json_value(plain) == plain
    assert json.loads(json_text(value)) == json.loads(json_text(value, indent=None)) == plain


def test_the_file_is_indented_unicode_with_a_newline_at_its_end(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"é": [1, float("nan")]})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert text == '{\n  "é": [\n    1,\n    null\n  ]\n}\n'
    assert json_text({"a": [1, 2]}, indent=None) == '{"a":[1,2]}'


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"new": object()})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"old": 1}
    with refused(DataError):
        write_json(tmp_path / "gone" / "a.json", {})


@dataclass(frozen=True)
class Inner:
    values: tuple[float, ...]


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (np.float32("nan"), None),
        (np.array([1.0, np.nan, np.inf]), [1.0, None, None]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.int64(3), 3),
        (np.bool_(True), True),
        ((1, (2.5, "a")), [1, [2.5, "a"]]),
        ({1: {"a": math.nan}}, {"1": {"a": None}}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Outer("x", Inner((1.0, math.inf))), {"name": "x", "inner": {"values": [1.0, None]}}),
        (None, None),
        ("text", "text"),
    ],
)
def test_values_become_plain(value: Any, plain: Any) -> None:
    result = json_value(value)
    assert result == plain
    assert type(result) is type(plain)


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=20,
)


@given(NESTED)
def test_every_nested_value_can_be_written_and_read_again(value: Any) -> None:
    plain = json_value(value)
    for indent in (None, 2):
        assert json.loads(json_text(value, indent=indent)) == plain
    assert json_value(plain) == plain


def test_text_is_compact_or_indented_and_keeps_its_letters() -> None:
    assert json_text({"a": [1, "ü"]}, indent=None) == '{"a":[1,"ü"]}'
    assert json_text({"a": 1}) == '{\n  "a": 1\n}'


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=50)
    write_json(tmp_path / "a.json", {"values": values})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text)["values"] == values.tolist()
    assert text.endswith("}\n")


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"value": object()})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "old"
