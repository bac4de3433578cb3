"""Presets, what is refused, and the learning rate step by step."""

from __future__ import annotations

import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn import TrainSettings, settings_of
from unskew.learn.presets import PRESETS, settings_dict


def test_the_preset_article_is_the_articles() -> None:
    settings = settings_of("article")
    assert (settings.model, settings.epochs, settings.batch, settings.milestones) == (
        "resnet56",
        205,
        128,
        (103, 154),
    )
    assert (settings.learning_rate, settings.momentum, settings.weight_decay) == (0.1, 0.9, 1e-4)
    assert (settings.weighting, settings.scheme, settings.augment, settings.cutout) == (
        "sampler",
        "multinomial",
        True,
        0,
    )


def test_the_defaults_are_the_preset_fast() -> None:
    assert settings_of("fast") == settings_of() == TrainSettings()


def test_another_network_in_the_preset_fast_has_a_rate_of_its_own() -> None:
    assert settings_of("fast", model="resnet20").learning_rate == 0.1
    assert settings_of("fast", model="resnet20", learning_rate=0.3).learning_rate == 0.3


@pytest.mark.parametrize("preset", PRESETS)
def test_settings_survive_a_file(preset: str) -> None:
    settings = settings_of(preset)
    assert TrainSettings(**settings_dict(settings)) == settings


@pytest.mark.parametrize(
    "overrides",
    [
        {"preset": "fats"},
        {"model": "resnet65"},
        {"model": "../model:make"},
        {"model": 5},
        {"epochs": 0},
        {"epochs": 2.5},
        {"batch": True},
        {"patience": 0},
        {"learning_rate": 0},
        {"learning_rate": float("inf")},
        {"momentum": 1.0},
        {"weight_decay": -1e-4},
        {"label_smoothing": "0.1"},
        {"schedule": "step"},
        {"weighting": "sample"},
        {"scheme": "random"},
        {"milestones": (5, 3)},
        {"milestones": 5},
        {"augment": 1},
        {"precision": "bf16-mix"},
        {"device": "gpu"},
    ],
    ids=str,
)
def test_a_wrong_value_is_named_with_its_setting(overrides: dict) -> None:
    ((name, value),) = overrides.items()
    plain = list(value) if isinstance(value, tuple) else value
    with refused(ConfigError, option=name, value=plain) as caught:
        settings_of(**overrides)
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


def test_not_a_number_is_no_learning_rate() -> None:
    with refused(ConfigError, option="learning_rate"):
        settings_of(learning_rate=float("nan"))


@pytest.mark.parametrize(
    ("overrides", "nearest"),
    [
        ({"preset": "fats"}, "fast"),
        ({"epoch": 3}, "epochs"),
        ({"model": "resnet65"}, "resnet56"),
        ({"schedule": "step"}, "steps"),
        ({"weighting": "sample"}, "sampler"),
        ({"precision": "bf16-mix"}, "bf16-mixed"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_one(overrides: dict, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"Did you mean '{nearest}'"):
        settings_of(**overrides)
