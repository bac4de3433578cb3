"""Advice for a run is that of the images its model is fitted on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from run_data import write_table_run
from unskew.config.run_config import read_config
from unskew.runs.advice import advise_inputs, read_costs
from unskew.runs.inputs import read_inputs


def test_advice_rests_on_train(tmp_path: Path) -> None:
    configuration = write_table_run(tmp_path)
    table = pd.read_csv(tmp_path / "t.csv")
    table["split"] = np.where(np.arange(len(table)) % 4 == 0, "test", "train")
    table.to_csv(tmp_path / "t.csv", index=False)
    inputs = read_inputs(read_config(configuration))
    assert "split" in inputs.pool.frame.columns
    advice = advise_inputs(inputs, outcomes=["z"])
    assert advice.images == 60


def test_costs_are_read_from_the_last_sign_on() -> None:
    assert read_costs(["north=2.5", "label = cat=3"]) == {"north": 2.5, "label = cat": 3.0}


@pytest.mark.parametrize("text", ["north", "=2", "north=", "north=two"])
def test_wrong_costs_are_refused(text: str) -> None:
    with refused(unskew.ConfigError, option="cost", value=text):
        read_costs([text])
