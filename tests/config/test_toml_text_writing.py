"""What is written as TOML is read back as the same, whatever names and values hold."""

import math
import tomllib
from datetime import date, datetime, time

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from raising import refused
from unskew import ConfigError
from unskew.config.toml_text import toml_document, toml_key, toml_string, toml_value

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# TOML knows no fold: an hour that occurs twice when clocks are set back.
CLOCKS = (st.times() | st.datetimes()).map(lambda clock: clock.replace(fold=0))
SCALARS = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.dates(),
    CLOCKS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(TEXT, TEXT)
def test_any_name_and_text_reads_back(key, text):
    assert tomllib.loads(f"{toml_key(key)} = {toml_string(text)}") == {key: text}
    assert "\n" not in toml_key(key) + toml_string(text)


@given(VALUES)
def test_any_value_reads_back_with_its_type(value):
    read = tomllib.loads(f"key = {toml_value(value)}")["key"]
    assert read == value
    assert repr(read) == repr(value)


@hypothesis_settings(max_examples=50)
@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_any_document_reads_back_and_has_one_form(settings):
    text = toml_document(settings)
    assert tomllib.loads(text) == settings
    assert toml_document(tomllib.loads(text)) == text


def test_order_is_kept_sections_come_last_and_none_is_left_out():
    settings = {
        "bias": {
            "family": "product",
            "title": None,
            "factors": [{"family": "strata"}, {"family": "box", "x": {"a": 1}}],
        },
        "seed": 1,
    }
    assert toml_document(settings | {"none": None}) == (
        'seed = 1\n\n[bias]\nfamily = "product"\n\n[[bias.factors]]\nfamily = '
        '"strata"\n\n[[bias.factors]]\nfamily = "box"\nx = { a = 1 }\n'
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_numbers(value):
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


def test_not_a_number():
    assert math.isnan(tomllib.loads(f"x = {toml_value(math.nan)}")["x"])


@pytest.mark.parametrize("value", [date(2020, 1, 2), time(3, 4), datetime(2020, 1, 2, 3, 4, 5)])
def test_dates(value):
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


@pytest.mark.parametrize("value", [b"bytes", 1j, object(), None])
def test_what_toml_cannot_hold_is_an_error(value):
    with refused(ConfigError, value=repr(value)):
        toml_value(value)


def test_a_file_name_that_is_no_unicode_is_an_error_that_says_what_to_do():
    with pytest.raises(ConfigError, match="Rename the file"):
        toml_string("caf\udce9.jpg")
