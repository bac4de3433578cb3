"""Families of bias models and representations as sections: every setting is a documented key."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Literal

import numpy as np
import pytest

from unskew.bias.schema import families
from unskew.config.families import (
    parameter_words,
    representation_of,
    section_of,
    toml_type,
    type_words,
)
from unskew.represent.user_functions import REPRESENTATIONS


@pytest.mark.parametrize("family", [name for name in families() if name != "product"])
def test_every_setting_of_every_family_is_documented_where_messages_look(family):
    model = families()[family]
    assert set(parameter_words(model)) == set(section_of(model, "family").model_fields) - {"family"}


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_every_representation_has_its_settings_as_keys(name):
    section = section_of(representation_of(name), "name")
    assert set(section.model_fields) == {
        "name",
        *(each.name for each in fields(representation_of(name))),
    }


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Sequence[str], "a list of names"),
        (tuple[float, ...], "a list of numbers"),
        (Sequence[str] | str, "a list of names, or a piece of text"),
        (Mapping[str, float], "a table"),
        (Literal["low", "high"], '"low" or "high"'),
        (int | None, "a whole number"),
        (np.ndarray, "a value"),
    ],
)
def test_types_are_described_in_words(hint, words):
    assert type_words(toml_type(hint)) == words
