"""Presets, what is refused, and the learning rate step by step."""

from __future__ import annotations

import pytest

from raising import refused
from unskew.errors import ConfigError
from unskew.learn import TrainSettings, settings_of
from unskew.learn.optimization import learning_rate_at
from unskew.learn.presets import PRESETS, settings_dict, settings_from_file


def test_the_preset_article_is_the_articles() -> None:
    settings = settings_of("article")
    assert (settings.model, settings.epochs, settings.batch, settings.milestones) == (
        "resnet56",
        205,
        128,
        (0.5, 0.75),
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
        {"milestones": (0.5, 0.3)},
        {"milestones": 5},
        {"milestones": (0.5, 1.0)},
        {"optimizer": "adam"},
        {"crop": "centre"},
        {"jitter": 1.5},
        {"head_share": 1.1},
        {"smallest_crop": 0.0},
        {"mean": (0.5, 0.5)},
        {"std": (0.5, 0.5, 0.0)},
        {"flip": "yes"},
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


def test_the_articles_milestones_scale_with_the_epochs() -> None:
    """A tenth from epoch 103 of 205 on, and from epoch 2 of 4; never 0.1 throughout."""
    for epochs, first, second in ((205, 103, 154), (4, 2, 3), (10, 5, 8)):
        settings = settings_of("article", epochs=epochs)
        rates = [
            learning_rate_at("steps", 0.1, epoch, epochs, epochs, settings.milestones)
            for epoch in range(epochs)
        ]
        expected = [0.1] * first + [0.01] * (second - first) + [0.001] * (epochs - second)
        assert rates == pytest.approx(expected)


def test_milestones_of_earlier_versions_were_epochs() -> None:
    """Those behind the last epoch had no effect, and have none."""
    old = {"preset": "article", "schedule": "steps", "milestones": [103, 154]}
    assert settings_from_file({**old, "epochs": 205}).milestones == (103 / 205, 154 / 205)
    with refused(ConfigError, option="milestones"):
        settings_of("article", milestones=(103, 154))
    short = settings_from_file({**old, "epochs": 120})
    assert short.milestones == (103 / 120,)
    never = settings_from_file({**old, "epochs": 4})
    assert (never.schedule, never.milestones) == ("constant", ())


def test_settings_of_a_later_version_are_named() -> None:
    with refused(ConfigError, option="warp"):
        settings_from_file({"warp": 9})


def test_head_epochs_are_a_share_of_the_epochs() -> None:
    shares = [settings_of("finetune", epochs=n, head_share=0.2) for n in (1, 5, 10)]
    assert [settings.head_epochs for settings in shares] == [0, 1, 2]
    assert settings_of("finetune", epochs=7, head_share=1.0).head_epochs == 7
