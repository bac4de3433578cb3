"""Which numbers a probe learns from, and in which way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from forecast_worlds import class_world
from run_data import init_vendors
from unskew.config.run_config import read_config
from unskew.config.sections import RepresentSection
from unskew.forecasting.sentences import describe_features, poor_words
from unskew.runs.inputs import read_inputs


def test_the_probe_reads_the_representation_that_says_most() -> None:
    from unskew.runs.forecast import probe_features

    columns = {
        "brightness": [0.1, 0.2],
        **{f"pixels_{i}": [0.0, float(i)] for i in range(9)},
        "embedding_0": [1.0, 2.0],
    }
    frame = pd.DataFrame(columns)

    def features(*named: str) -> list[str]:
        inputs = SimpleNamespace(
            pool=SimpleNamespace(frame=frame, attributes=tuple(columns)),
            config=SimpleNamespace(represent=RepresentSection(features=list(named))),
        )
        return probe_features(inputs)  # type: ignore[arg-type]

    assert features("brightness", "my:pixels", "embedding") == ["embedding_0"]
    assert features("brightness", "my:pixels") == [f"pixels_{i}" for i in range(9)]
    assert features("brightness") == ["brightness"]
    assert features() == list(columns)


@pytest.mark.parametrize(
    ("of_settings", "asked", "shown"),
    [
        ({}, None, ["naive", "debiased", "weights", "half", "logit"]),
        ({"way": "logit"}, None, ["naive", "debiased"]),
        ({"way": "logit"}, "auto", ["naive", "debiased", "weights", "half", "logit"]),
        ({"way": "head"}, None, ["naive", "debiased", "weights", "half", "logit"]),
    ],
)
def test_the_way_and_the_ridge_are_those_of_learn(
    of_settings: dict[str, str], asked: Any, shown: list[str]
) -> None:
    from unskew.runs.forecast import forecast_inputs

    world = class_world([300, 100], seed=0)
    config = SimpleNamespace(
        represent=RepresentSection(),
        learn=SimpleNamespace(ridge=0.2, preset="fast", **of_settings),
        target=None,
        targets={},
        engine=SimpleNamespace(seed=0),
        solve=SimpleNamespace(settings=dict, max_uncovered=0.2),
    )
    inputs: Any = SimpleNamespace(
        pool=world.pool, bias=world.bias, target=world.target, config=config
    )
    forecast = forecast_inputs(inputs, ["naive"], way=asked, progress=False)
    assert [arm.name for arm in forecast.arms] == shown
    assert {arm.ridge for arm in forecast.arms} == {0.2}
    # A probe has no network whose head could be refitted: where ways are compared, that is said.
    assert any("head" in note for note in forecast.notes) == (len(shown) > 2)


def test_few_properties_give_way_to_pixels(vendors: Path, tmp_path: Path) -> None:
    from unskew.runs.forecast import probe_input

    inputs = read_inputs(read_config(init_vendors(vendors, tmp_path)), progress=False)
    pool, columns = probe_input(inputs, progress=False)
    assert len(columns) == 16 * 16 * 3
    assert describe_features(columns, len(columns)) == "images of 16 × 16 pixels"
    assert list(pool.frame["id"]) == list(inputs.pool.frame["id"])
    assert pool.frame[columns].to_numpy().max() <= 1
    learn = inputs.config.learn.model_copy(update={"preset": "probe"})
    trained = replace(inputs, config=inputs.config.model_copy(update={"learn": learn}))
    assert probe_input(trained, progress=False)[1] == ["brightness", "contrast", "sharpness"]


def test_a_probe_that_hardly_beats_guessing_is_called_poor() -> None:
    share = {"cat": 0.6, "dog": 0.4}
    assert poor_words(0.81, share, "pixels") == ""
    assert "60%" in poor_words(0.79, share, "brightness")
    assert "brightness" in poor_words(0.79, share, "brightness")
    assert poor_words(1.0, {"cat": 1.0}, "pixels") == ""
