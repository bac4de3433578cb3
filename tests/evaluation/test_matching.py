"""Predictions joined to weights by id: what does not match is an error, or counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import N, judge
from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.evaluation.matching import read_number_column


def test_missing_predictions_are_counted_and_the_first_named(
    table: pd.DataFrame, predictions: pd.DataFrame
) -> None:
    lacking = predictions[~predictions["id"].isin(["a/01.jpg", "a/04.jpg"])]
    lacked = ["a/01.jpg", "a/04.jpg"]
    with refused(DataError, option="allow_missing", count=2, ids=lacked) as caught:
        judge(table, lacking)
    assert "2 of 20 images (test)" in str(caught.value)
    assert ", ".join(lacked) in str(caught.value)
    evaluation = judge(table, lacking, allow_missing=True)
    assert (
        evaluation.coverage.judged,
        evaluation.coverage.missing,
        evaluation.coverage.images,
    ) == (18, 2, 20)
    test = table[table["split"] == "test"].set_index("id")["sample_weight"]
    assert evaluation.coverage.weight == pytest.approx(
        1 - test[["a/01.jpg", "a/04.jpg"]].sum() / test.sum()
    )
    assert any("2 of 20 images" in note for note in evaluation.notes)
    # An empty field is no prediction either, and no more is an empty truth.
    with pytest.raises(DataError, match=r"no prediction: a/01\.jpg"):
        judge(
            table,
            predictions.assign(
                prediction=predictions["prediction"].where(predictions["id"] != "a/01.jpg")
            ),
        )
    with pytest.raises(DataError, match=r"no truth: a/01\.jpg"):
        judge(table.assign(label=table["label"].where(table["id"] != "a/01.jpg")), predictions)
    with refused(DataError, count=3, ids=["a/01.jpg", "a/04.jpg", "a/07.jpg"]):
        judge(
            table,
            predictions,
            second=predictions[~predictions["id"].isin(["a/01.jpg", "a/04.jpg", "a/07.jpg"])],
        )


def test_unknown_ids_and_ids_twice_are_counted_and_the_first_named(
    table: pd.DataFrame, predictions: pd.DataFrame
) -> None:
    more = pd.concat([predictions, pd.DataFrame({"id": ["x1", "x2"], "prediction": "cat"})])
    with refused(DataError, option="allow_extra", ids=["x1", "x2"]):
        judge(table, more)
    evaluation = judge(table, more, allow_extra=True)
    assert evaluation.coverage.extra == 2
    assert evaluation.coverage.elsewhere == 40
    with refused(DataError, ids=["a/00.jpg", "a/01.jpg"]):
        judge(table, pd.concat([predictions, predictions.head(2)]))
    with refused(DataError, ids=["a/00.jpg"]):
        judge(pd.concat([table, table.head(1)]), predictions)


def test_ids_of_another_kind_are_recognised(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"not one of the 60 .* column 'path'"):
        judge(table, predictions.assign(id=table["path"]))
    with pytest.raises(DataError, match="whole id, including the source"):
        judge(table, predictions.assign(id=[id.split("/")[1] for id in predictions["id"]]))
    with refused(DataError, column="id", columns=["image", "prediction"]):
        judge(table, predictions.rename(columns={"id": "image"}))


def test_ids_are_joined_as_text(
    table: pd.DataFrame, predictions: pd.DataFrame, tmp_path: Path
) -> None:
    """Numbers in the weights, text in a CSV file; 007 stays 007."""
    path = tmp_path / "preds.csv"
    predictions.assign(id=range(N)).to_csv(path, index=False)
    assert judge(table.assign(id=range(N)), path).overall.figures["accuracy"].value == 1.0
    codes = [f"{at:03d}" for at in range(N)]
    predictions.assign(id=codes).to_csv(path, index=False)
    assert judge(table.assign(id=codes), path).coverage.judged == 20
    for name, write in (
        ("preds.jsonl", lambda path: predictions.to_json(path, orient="records", lines=True)),
        ("preds.parquet", predictions.to_parquet),
    ):
        write(tmp_path / name)
        assert judge(table, tmp_path / name).overall == judge(table, predictions).overall
    with pytest.raises(ConfigError, match=r"pred\.csv"):
        judge(table, tmp_path / "pred.csv")


@pytest.mark.parametrize("bad", [np.nan, -0.5, np.inf])
def test_invalid_weights_are_errors(
    table: pd.DataFrame, predictions: pd.DataFrame, bad: float
) -> None:
    with refused(DataError, column="sample_weight", ids=["a/03.jpg"]):
        judge(
            table.assign(
                sample_weight=table["sample_weight"].where(table["id"] != "a/03.jpg", bad)
            ),
            predictions,
        )


def test_weights_of_any_size_and_no_text(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    scored = pd.DataFrame({"id": table["id"], "score": np.linspace(0, 1, N)})
    plain = judge(table, scored, replicates=10).overall
    for factor in (2.0**900, 2.0**-900):
        assert (
            judge(
                table.assign(sample_weight=factor * table["sample_weight"]), scored, replicates=10
            ).overall
            == plain
        )
    with refused(DataError, column="sample_weight"):
        judge(table.assign(sample_weight="heavy"), predictions)


def test_empty_predictions_are_an_error(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    with refused(DataError, count=0):
        judge(table, predictions.head(0))


def test_a_split_without_weight_is_an_error(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    with refused(DataError, option="split", value="test"):
        judge(
            table.assign(sample_weight=table["sample_weight"].where(table["split"] != "test", 0.0)),
            predictions,
        )
    with pytest.raises(DataError, match="60 images"):
        judge(table.assign(sample_weight=0.0, split=None), predictions)


def test_which_images_are_judged(table: pd.DataFrame, predictions: pd.DataFrame) -> None:
    assert judge(table, predictions).split == "test"
    assert judge(table, predictions, split="validation").coverage.images == 20
    assert judge(table, predictions, split="all").coverage.images == 60
    renamed = table.assign(split=table["split"].replace({"test": "holdout"}))
    evaluation = judge(renamed, predictions)
    assert evaluation.split == "holdout + validation"
    assert any("no split called test" in note for note in evaluation.notes)
    assert judge(table.assign(split=None), predictions).coverage.images == 60
    with pytest.raises(ConfigError, match="Did you mean 'test'"):
        judge(table, predictions, split="tests")
    with refused(ConfigError, option="split", value="test"):
        judge(table.assign(split=None), predictions, split="test")


def test_a_whole_number_beyond_a_float_is_no_number() -> None:
    with refused(DataError, column="score"):
        read_number_column(pd.Series(["9" * 400]), "score")
