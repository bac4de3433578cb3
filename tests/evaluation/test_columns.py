"""Which columns are which model's."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evaluation.judging import judge
from raising import refused
from unskew.errors import ConfigError


def test_two_second_models_are_an_error(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    with refused(ConfigError, option="second"):
        judge(table, predictions.assign(prediction_b="cat"), second=predictions)


def test_a_class_called_b_is_no_second_model(table: pd.DataFrame) -> None:
    letters = table.assign(label=np.where(table["label"] == "dog", "b", "a"))
    scores = pd.DataFrame({"id": table["id"], "score_a": 0.4, "score_b": 0.6})
    assert judge(letters, scores).overall.second is None
    two = scores.assign(score_b_a=0.9, score_b_b=0.1)
    assert judge(letters, two).overall.second is not None
