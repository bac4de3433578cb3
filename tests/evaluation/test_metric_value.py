"""One number has one interval, wherever it is shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import make_case
from unskew.evaluation.predictions import evaluate_predictions


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c", "d")])
def test_the_worst_class_is_one_number_with_one_interval(classes: tuple[str, ...]) -> None:
    table, predictions = make_case(n=400, classes=classes)
    evaluation = evaluate_predictions(table, predictions, replicates=80)
    figures, part = evaluation.overall.figures, evaluation.breakdown("label")
    worst = figures["worst_class"]
    cell = next(cell for cell in part.cells if cell.name == worst.where)
    shown = [part.worst, cell.figures["accuracy"]]
    if len(classes) == 2:
        shown.append(figures["sensitivity" if worst.where == "yes" else "specificity"])
    for figure in shown:
        assert figure.value == pytest.approx(worst.value)
        assert figure.interval == pytest.approx(worst.interval)
        assert figure.stderr == pytest.approx(worst.stderr)


def test_a_class_that_is_hardly_known_is_not_the_worst_one() -> None:
    """Cats are right in 90, dogs in 80 of 100 images; all of the ten foxes are wrong."""
    label = np.repeat(["cat", "dog", "fox"], [100, 100, 10])
    right = np.r_[np.arange(100) < 90, np.arange(100) < 80, np.zeros(10, dtype=bool)]
    table = pd.DataFrame({"id": range(210), "label": label, "sample_weight": 1.0})
    predictions = pd.DataFrame({"id": range(210), "prediction": np.where(right, label, "else")})
    worst = evaluate_predictions(table, predictions, replicates=20).overall.figures["worst_class"]
    assert (worst.where, worst.value) == ("dog", pytest.approx(0.8))
    # With one well-known class only, all of them count.
    two = table["label"] != "cat"
    worst = evaluate_predictions(table[two], predictions[two], replicates=20)
    assert worst.overall.figures["worst_class"].where == "fox"
