"""Predictions judged with weights: what an evaluation contains, and how it is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import judge, make_case, sklearn_values
from raising import refused
from unskew.errors import ConfigError
from unskew.evaluation.predictions import evaluate_predictions


def test_an_evaluation_is_shown_in_a_few_lines() -> None:
    table, predictions = make_case()
    evaluation = judge(table, predictions, second=predictions, replicates=50)
    shown = repr(evaluation)
    assert len(shown.splitlines()) <= 4
    assert max(len(line) for line in shown.splitlines()) <= 200
    accuracy = evaluation.overall.figures["accuracy"]
    assert f"accuracy {accuracy.value:.3g} [{accuracy.interval[0]:.3g}, " in shown
    assert f"unweighted {accuracy.unweighted:.3g}" in shown
    assert "300 of 300 images" in shown
    assert "source (2)" in shown
    private = judge(table, predictions[3:], allow_missing=True, private=True)
    assert private.coverage.images is None
    assert "297 images" in repr(private)


def test_subgroups_are_the_metrics_of_their_images() -> None:
    table, predictions = make_case(classes=("a", "b", "c"))
    evaluation = judge(table, predictions)
    for cell in evaluation.breakdown("source").cells:
        inside = (table["source"] == cell.name).to_numpy()
        expected = sklearn_values(
            table[inside], predictions[inside], table["sample_weight"].to_numpy()[inside]
        )
        assert {name: figure.value for name, figure in cell.figures.items()} == pytest.approx(
            expected, rel=1e-12
        )
        assert cell.images == inside.sum()
        weight = table["sample_weight"][inside]
        assert cell.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    by_label = {
        cell.name: cell.figures["accuracy"].value for cell in evaluation.breakdown("label").cells
    }
    assert min(by_label.values()) == evaluation.overall.figures["worst_class"].value
    assert evaluation.overall.figures["worst_class"].where == min(
        by_label, key=lambda name: by_label[name]
    )
    assert np.mean(list(by_label.values())) == pytest.approx(
        evaluation.overall.figures["balanced_accuracy"].value
    )
    # With one class there is nothing to tell apart.
    assert all(
        "auroc" not in cell.figures and "balanced_accuracy" not in cell.figures
        for cell in evaluation.breakdown("label").cells
    )


def test_only_ratios_of_weights_matter_and_no_order_of_rows() -> None:
    table, predictions = make_case(groups=40)
    first = judge(table, predictions, replicates=64)
    shuffled = judge(
        table.sample(frac=1, random_state=3).assign(
            sample_weight=lambda frame: 7.0 * frame["sample_weight"]
        ),
        predictions.sample(frac=1, random_state=4),
        replicates=64,
    )
    for name, figure in first.overall.figures.items():
        other = shuffled.overall.figures[name]
        assert other.value == pytest.approx(figure.value, rel=1e-12)
        assert other.interval == pytest.approx(figure.interval, rel=1e-9)
    assert judge(table, predictions, replicates=64).to_dict() == first.to_dict()
    assert judge(table, predictions, replicates=64, rng=1).overall != first.overall


def test_impossible_options_are_errors(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    for option, value in (("replicates", -1), ("level", 1.0), ("rng", -1)):
        with refused(ConfigError, option=option, value=value):
            judge(table, predictions, **{option: value})


def _judged(n: int = 400, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": np.arange(n), "source": ["s"] * n, "label": np.where(np.arange(n) % 2, "dog", "cat")}
    )
    light = np.where(np.arange(n) % 4 < 2, "dim", "bright")
    wrong = rng.random(n) < np.where((frame["label"] == "dog") & (light == "dim"), 0.5, 0.1)
    said = np.where(wrong, np.where(frame["label"] == "dog", "cat", "dog"), frame["label"])
    table = frame.assign(sample_weight=rng.uniform(0.5, 1.5, n))
    predictions = pd.DataFrame({"id": frame["id"], "prediction": said, "light": light})
    return table, predictions, evaluate_predictions(table, predictions, replicates=60, **options)


def test_every_combination_of_two_columns_and_the_worst_of_them() -> None:
    table, predictions, found = _judged(by=["label*light"])
    part = found.breakdown("label*light")
    assert [cell.name for cell in part.cells] == [
        "cat × bright",
        "cat × dim",
        "dog × bright",
        "dog × dim",
    ]
    for cell in part.cells:
        label, light = cell.name.split(" × ")
        rows = (table["label"] == label) & (predictions["light"] == light)
        right = (predictions["prediction"] == table["label"])[rows]
        assert cell.figures["accuracy"].value == pytest.approx(
            np.average(right, weights=table["sample_weight"][rows])
        )
    assert part.worst.where == "dog × dim"
    assert part.worst.value == part.cells[3].figures["accuracy"].value
    low, high = part.worst.interval
    assert low < part.worst.value < high
    # The worst class is the worst cell of the breakdown by class.
    assert found.breakdown("label").worst.value == pytest.approx(
        found.overall.figures["worst_class"].value
    )
    with pytest.raises(ConfigError, match="--by nothing"):
        _judged(by=["label*nothing"])


def test_cells_that_are_hardly_known_are_no_worst_group() -> None:
    n = 200
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "source": ["s"] * n,
            "label": ["cat", "dog"] * (n // 2),
            "sample_weight": 1.0,
        }
    )
    place = np.array(["a", "b"] * (n // 2), dtype=object)
    place[:2] = "rare"
    said = table["label"].where(np.arange(n) % 10 != 2, "dog").where(place != "rare", "neither")
    predictions = pd.DataFrame({"id": table["id"], "prediction": said, "place": place})
    part = evaluate_predictions(table, predictions, by=["place"], replicates=20).breakdown("place")
    assert {cell.name: cell.figures["accuracy"].value for cell in part.cells}["rare"] == 0.0
    assert part.worst.where == "a"


def test_copies_are_drawn_together_whether_the_weights_or_the_attributes_know_them() -> None:
    table, predictions = make_case(groups=20)
    copies = table.rename(columns={"group": "content"})
    told = copies[["id", "content"]]
    options = {"replicates": 200}
    by_group, by_content, by_attribute = (
        judge(table, predictions, **options),
        judge(copies, predictions, **options),
        judge(copies.drop(columns="content"), predictions, attributes=told, **options),
    )
    expected = by_group.overall.figures["accuracy"]
    for evaluation in (by_content, by_attribute):
        assert evaluation.overall.figures["accuracy"].interval == expected.interval
        assert evaluation.overall.groups is None
    plain = judge(copies.drop(columns="content"), predictions, **options)
    assert plain.overall.figures["accuracy"].interval != expected.interval
