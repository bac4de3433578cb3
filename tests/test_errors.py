"""Errors carry facts as plain values, and survive pickling with them."""

import json
import pickle

import numpy as np
import pytest

from unskew import errors
from unskew.errors import short_name


@pytest.mark.parametrize(
    "kind", [errors.DataError, errors.ConfigError, errors.OverlapError, errors.UnreadableError]
)
def test_facts_are_plain_and_pickled(kind: type[errors.UnskewError]) -> None:
    error = kind("message", value=np.float32(0.5), ids=[np.int64(3), "a"], row=np.arange(2))
    again = pickle.loads(pickle.dumps(error))
    assert again.facts == error.facts == {"value": 0.5, "ids": [3, "a"], "row": [0, 1]}
    assert json.loads(json.dumps(error.facts)) == error.facts
    assert str(again) == "message"


def test_names_are_one_visible_line_of_bounded_length() -> None:
    assert short_name("night camera") == "night camera"
    assert short_name("a\n\x1b[31m") == "a\\n\\x1b[31m"
    assert len(short_name("x" * 1000)) == 41
