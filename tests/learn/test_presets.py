"""Presets, what is refused, and the learning rate step by step."""

from __future__ import annotations

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn import TrainSettings, settings_of
from unskew.learn.presets import PRESETS, settings_dict
from unskew.learn.schedules import learning_rate_at


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
    with refused(ConfigError, option=name, value=value) as caught:
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


def test_the_articles_schedule() -> None:
    """A tenth from epoch 103 on (counted from 0, after 103 complete ones), a hundredth from
    154 on.
    """
    steps = 391
    rate = [
        learning_rate_at("steps", 0.1, epoch * steps + at, 205 * steps, 205, (103, 154))
        for epoch in range(205)
        for at in (0, 390)
    ]
    assert np.allclose(rate, [0.1] * 2 * 103 + [0.01] * 2 * 51 + [0.001] * 2 * 51, rtol=1e-12)


def test_one_cycle_rises_for_a_quarter_and_falls_to_zero() -> None:
    rate = np.array([learning_rate_at("one_cycle", 2.0, step, 400, 4) for step in range(401)])
    assert rate[0] == pytest.approx(0.4)
    assert rate[100] == rate.max() == 2.0
    assert rate[50] == pytest.approx(1.2)
    assert rate[250] == pytest.approx(1.0)
    assert rate[400] == 0
    assert np.allclose(np.diff(rate[:101], 2), 0, atol=1e-12)
    assert np.allclose(np.diff(rate[100:], 2), 0, atol=1e-12)


def test_a_constant_rate() -> None:
    assert {learning_rate_at("constant", 0.3, step, 9, 3) for step in range(9)} == {0.3}


def test_an_unknown_schedule() -> None:
    with refused(ConfigError, option="schedule", value="cosine"):
        learning_rate_at("cosine", 0.3, 0, 9, 3)
