"""What `unskew.learn` offers, and that it is fetched only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import unskew.learn


def test_dir_shows_what_it_has_and_every_name_can_be_fetched() -> None:
    pytest.importorskip("torch")
    assert set(unskew.learn.__all__) <= set(dir(unskew.learn))
    for name in unskew.learn.__all__:
        assert getattr(unskew.learn, name) is not None
    assert {
        "TrainSettings",
        "TrainedModel",
        "TrainingData",
        "WeightedLoss",
        "WeightedSampler",
        "load_trained",
        "make_baseline",
        "train_model",
        "update_batch_norm",
    } <= set(unskew.learn.__all__)


def test_the_forecast_is_a_name_of_the_package_and_not_of_learn() -> None:
    assert unskew.forecast_gain.__module__ == "unskew.forecasting.gain"
    with pytest.raises(AttributeError, match="forecast_gain"):
        _ = unskew.learn.forecast_gain


def test_looking_at_the_names_loads_nothing_heavy() -> None:
    code = "import sys, unskew.learn; dir(unskew.learn); print('torch' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == "False"
