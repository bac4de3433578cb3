"""Columns of predictions: truth, classes, scores and numbers; each mistake is an error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import N, judge
from raising import refused
from unskew.errors import ConfigError, DataError


def test_y_and_label_must_agree(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    agreeing = predictions.assign(y=table["label"])
    assert judge(table, agreeing).truth == "y"
    assert [part.column for part in judge(table, agreeing, by=["label"]).breakdowns] == [
        "source",
        "y",
        "label",
    ]
    other = agreeing.assign(y=agreeing["y"].where(agreeing["id"] != "a/01.jpg", "fox"))
    with refused(DataError, option="truth", count=1, ids=["a/01.jpg"]) as caught:
        judge(table, other)
    assert "y fox" in str(caught.value)
    assert judge(table, other, truth="label").overall.figures["accuracy"].value == 1.0
    assert judge(table, other, truth="y").overall.figures["accuracy"].value < 1.0
    assert judge(table.assign(label=None), agreeing).truth == "y"
    with refused(DataError, columns=["y", "label"]):
        judge(table.assign(label=None), predictions)
    with refused(ConfigError, option="truth", value="labels"):
        judge(table, predictions, truth="labels")
    with refused(DataError, column="y", count=1, ids=["a/01.jpg"]):
        judge(table, agreeing, second=other, truth="y")


def test_errors_count_all_images_and_the_label_is_the_truth_of_those_without_y(
    table: pd.DataFrame, predictions: pd.DataFrame
) -> None:
    with pytest.raises(DataError, match=r"20 of 20 images: a/01\.jpg .* and 17 more\."):
        judge(table, predictions.assign(y="fox"))
    with pytest.raises(DataError, match=r"20 of 20 images: .* and 15 more\."):
        judge(table, predictions.assign(y="cat"), second=predictions.assign(y="dog"), truth="y")
    with pytest.raises(DataError, match=r"a/00\.jpg \(nan\)"):
        judge(
            table.assign(sample_weight=table["sample_weight"].where(table["id"] != "a/00.jpg")),
            predictions,
        )
    agreeing = predictions.assign(y=table["label"])
    with refused(DataError, option="allow_missing", count=1, ids=["a/01.jpg"]):
        judge(table, agreeing[agreeing["id"] != "a/01.jpg"])
    evaluation = judge(table, agreeing.assign(y=agreeing["y"].where(agreeing["id"] != "a/01.jpg")))
    assert (evaluation.coverage.judged, evaluation.overall.figures["accuracy"].value) == (20, 1.0)


def test_classes_that_do_not_match(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    with refused(DataError, allowed=["cat", "dog"]) as caught:
        judge(table, predictions.assign(prediction=predictions["prediction"].str.upper()))
    assert set(caught.value.facts["levels"]) == {"CAT", "DOG"}
    evaluation = judge(
        table,
        predictions.assign(
            prediction=predictions["prediction"].where(predictions["id"] != "a/01.jpg", "fox")
        ),
    )
    assert any(note.startswith("1 predictions") and "fox" in note for note in evaluation.notes)
    with refused(DataError, levels=["dog"], columns=["score_cat", "score_Dog"]):
        judge(table, predictions.assign(score_cat=0.5, score_Dog=0.5))
    with refused(DataError, column="score", count=3):
        judge(
            table.assign(label=(["cat", "dog", "fox"] * 40)[10 : 10 + N], split=None),
            pd.DataFrame({"id": table["id"], "score": 0.5}),
        )
    with refused(DataError, columns=["id", "predicted"]):
        judge(table, predictions.rename(columns={"prediction": "predicted"}))
    lists = pd.Series([["cat", "dog"]] * N, dtype=object)
    with refused(DataError, columns=["score_cat", "score_dog"]):
        judge(table.assign(label=lists), predictions)
    with refused(DataError, column="label"):
        judge(table.drop(columns="label"), predictions.assign(y=lists))


def test_scores_that_are_no_probabilities(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    with refused(DataError, columns=["score_cat", "score_dog"], count=20, id="a/01.jpg"):
        judge(table, predictions.assign(score_cat=rng.normal(size=N), score_dog=3.0))
    ranks = judge(table, pd.DataFrame({"id": table["id"], "score": rng.normal(size=N)}))
    assert set(ranks.overall.figures) == {"auroc"}
    assert any("no probability" in note for note in ranks.notes)
    with refused(DataError, column="score", count=20):
        judge(table, predictions.assign(score=np.inf))
    with refused(DataError, column="score"):
        judge(table, predictions.assign(score="high"))


def test_the_positive_class_is_named(table: pd.DataFrame) -> None:
    score = np.where(table["label"] == "dog", 0.8, 0.3)
    evaluation = judge(table, pd.DataFrame({"id": table["id"], "score": score}))
    assert evaluation.positive == "dog"
    assert any("'dog'" in note for note in evaluation.notes)
    assert evaluation.overall.figures["auroc"].value == 1.0
    turned = judge(table, pd.DataFrame({"id": table["id"], "score": 1 - score}), positive="cat")
    assert turned.overall.figures["auroc"].value == 1.0
    assert turned.overall.figures["log_loss"].value == pytest.approx(
        evaluation.overall.figures["log_loss"].value
    )
    with refused(ConfigError, option="positive", value="dogs", allowed=["cat", "dog"]):
        judge(table, pd.DataFrame({"id": table["id"], "score": score}), positive="dogs")
    numbers = table.assign(label=np.where(table["label"] == "dog", 10, 9))
    assert judge(numbers, pd.DataFrame({"id": table["id"], "score": score})).positive == "10"


def test_numbers_or_classes(table: pd.DataFrame) -> None:
    id = table["id"]
    whole = table.assign(label=np.arange(N) % 5)
    assert judge(whole, pd.DataFrame({"id": id, "prediction": 3})).task == "classification"
    assert judge(whole, pd.DataFrame({"id": id, "prediction": 3.5})).task == "regression"
    assert (
        judge(whole, pd.DataFrame({"id": id, "prediction": 3}), regression=True).task
        == "regression"
    )
    with refused(DataError, option="regression"):
        judge(table.assign(label=np.arange(N) % 2), pd.DataFrame({"id": id, "prediction": 0.7}))
    with refused(DataError, column="prediction", columns=["id", "score"]):
        judge(whole, pd.DataFrame({"id": id, "score": 0.5}), regression=True)
    constant = judge(
        table.assign(label=2.5), pd.DataFrame({"id": id, "prediction": 2.0}), regression=True
    )
    assert "r2" not in constant.overall.figures
    assert constant.overall.figures["mae"].value == pytest.approx(0.5)
