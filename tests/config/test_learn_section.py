"""[learn] and the settings of a training have the same names and choices."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest

from unskew.config.learn_section import LearnSection
from unskew.learn import PRESETS, TrainSettings, settings_of
from unskew.training.inputs import _NOT_OF_TRAINING

# What only Python can change: it belongs to a preset, or comes from elsewhere.
_OF_PYTHON = {"nesterov", "padding", "scheme", "scaling", "seed"}


def test_every_key_is_a_setting_and_every_setting_a_key() -> None:
    settings = {field.name for field in fields(TrainSettings)}
    keys = set(LearnSection.model_fields)
    assert settings - keys == _OF_PYTHON
    assert keys - settings == set(_NOT_OF_TRAINING) - {"preset"}


def test_presets_are_the_same() -> None:
    assert set(get_args(LearnSection.model_fields["preset"].annotation)) == set(PRESETS)


@pytest.mark.parametrize("key", ["optimizer", "schedule", "crop", "normalization", "weighting"])
def test_every_choice_of_a_key_is_one_of_the_setting(key: str) -> None:
    (literal, _) = get_args(LearnSection.model_fields[key].annotation)
    for value in get_args(literal):
        more = {"milestones": (0.5,)} if value == "steps" else {}
        assert getattr(settings_of(**{key: value}, **more), key) == value
