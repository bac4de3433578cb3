"""Which settings can change a result: one list for runs, forecasts, trainings and verification."""

import pytest

from config_files import MINIMAL, fill_folder, save
from unskew.config.run_config import (
    FORECAST_SECTIONS,
    MODEL_SECTIONS,
    effective_settings,
    make_config,
    read_config,
    resolved,
)
from unskew.config.sections import SECTIONS

# One value other than the default for every key without an effect.
WITHOUT_EFFECT = """
[represent]
cache = "elsewhere"
[engine]
jobs = 3
[learn]
device = "cpu"
by = ["light"]
"""


@pytest.fixture
def folder(tmp_path):
    return fill_folder(tmp_path)


def effective(config):
    return effective_settings(resolved(config))


def test_the_same_settings_in_other_words_are_the_same(folder, tmp_path):
    config = read_config(save(folder, MINIMAL))
    turned = {"bias": {"family": "strata"}, "sources": {"images": True, "manifest": "scans.csv"}}
    moved = read_config(
        save(folder, "# comment\n" + MINIMAL), folder=tmp_path / "nowhere", check_paths=False
    )
    assert effective(make_config(turned, folder)) == effective(moved) == effective(config)


def test_settings_without_an_effect_are_left_out(folder):
    config = read_config(save(folder, MINIMAL))
    text = MINIMAL.replace("[bias]", "tolerance = 0.5\n[bias]") + WITHOUT_EFFECT
    other = read_config(save(folder, text))
    assert other.sources.tolerance == 0.5
    # [learn] is there now, with defaults and nothing else.
    learn = {
        key: value
        for key, value in other.learn.settings().items()
        if key not in ("device", "by", "memory")
    }
    assert effective(other) == effective(config) | {"learn": learn}
    for sections in (FORECAST_SECTIONS, ("sources", "represent", "engine")):
        assert effective_settings(resolved(other), sections) == effective_settings(
            resolved(config), sections
        )


@pytest.mark.parametrize(
    "text",
    [
        MINIMAL + "[engine]\nseed = 1",
        MINIMAL + '[target]\nuniform = "label"',
        MINIMAL + '[report]\nprivacy = "aggregate"',
        MINIMAL.replace("scans.csv", "survey.csv"),
        MINIMAL + 'by = "label"',
        MINIMAL + "[learn]\nepochs = 3",
        MINIMAL + "[learn]\ndevices = 2",
    ],
)
def test_settings_with_an_effect_are_kept(folder, text):
    assert effective(read_config(save(folder, text))) != effective(
        read_config(save(folder, MINIMAL))
    )


def test_what_is_shown_changes_neither_forecast_nor_model(folder):
    shown, plain = (
        resolved(read_config(save(folder, text)))
        for text in (MINIMAL + '[report]\nprivacy = "aggregate"', MINIMAL)
    )
    for sections in (FORECAST_SECTIONS, MODEL_SECTIONS):
        assert effective_settings(shown, sections) == effective_settings(plain, sections)


def test_every_section_is_known_and_empty_ones_are_dropped():
    assert set(MODEL_SECTIONS) | {"report"} == {*SECTIONS, "bias", "targets"}
    settings = {"folder": "..", "represent": {"cache": "x"}, "engine": {"jobs": 1, "seed": 0}}
    assert effective_settings(settings) == {"engine": {"seed": 0}}
    assert effective_settings(settings, ("represent",)) == {}
