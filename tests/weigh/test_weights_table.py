"""weights.parquet: what one writer writes, every reader accepts."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from unskew import DataError, Pool, Target
from unskew.bias import Strata
from unskew.debiasing.pool_weights import weigh_splits
from unskew.evaluation.predictions import evaluate_predictions
from unskew.runs.export_tables import export_weights
from unskew.weigh.weights_table import COLUMNS, read_weights_table, write_weights_table

FRAME = pd.DataFrame(
    {
        "id": [f"i{at}" for at in range(40)],
        "source": np.repeat(["a", "b"], 20),
        "label": np.tile(["cat", "cat", "dog", "owl"], 10),
        "group": [f"g{at // 2}" for at in range(40)],
        "split": np.tile(["train", "test"], 20),
        "path": [f"{at}.png" for at in range(40)],
    }
)
TARGET = Target.margins({"label": {"cat": 0.5, "dog": 0.3, "owl": 0.2}})


def fitted_weights() -> unskew.Weights:
    return unskew.debias(Pool(FRAME), Strata("label"), TARGET)


def plain_weights() -> unskew.Weights:
    omega = np.exp(np.outer(np.linspace(-1, 1, 40), [0.5, -0.5]))
    return unskew.debias_weights(omega, FRAME["source"], id=FRAME["id"], group=FRAME["group"])


@pytest.mark.parametrize("make", [fitted_weights, plain_weights])
def test_weights_come_back_as_they_were_written(make, tmp_path: Path) -> None:
    weights = make()
    weights.to_parquet(tmp_path / "weights.parquet")
    table = read_weights_table(tmp_path / "weights.parquet")
    assert table.columns.tolist() == list(COLUMNS)
    for name, column in weights.to_frame().items():
        assert table[name].tolist() == column.tolist()
    known = make is fitted_weights
    for name in ("path", "label"):
        if known:
            assert table[name].tolist() == FRAME[name].tolist()
        else:
            assert table[name].isna().all()
    assert table["split"].isna().all()


@pytest.mark.parametrize("make", [fitted_weights, plain_weights])
def test_evaluate_and_export_accept_what_weights_write(make, tmp_path: Path) -> None:
    weights = make()
    weights.to_parquet(tmp_path / "weights.parquet")
    table = read_weights_table(tmp_path / "weights.parquet")
    assert export_weights(table, "csv", tmp_path / "weights.csv").images == 40
    with (tmp_path / "weights.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["weight"]) for row in rows] == weights.weight.tolist()
    predictions = pd.DataFrame({"id": FRAME["id"], "y": FRAME["label"], "prediction": "cat"})
    predictions.to_csv(tmp_path / "predictions.csv", index=False)
    evaluation = evaluate_predictions(
        table, tmp_path / "predictions.csv", split="all", replicates=20
    )
    expected = float(weights.weight @ (FRAME["label"] == "cat"))
    assert expected == pytest.approx(evaluation.overall.figures["accuracy"].value)


def test_a_frame_has_groups_only_if_there_are_any() -> None:
    frame = plain_weights().to_frame()
    assert frame.columns.tolist() == ["id", "source", "group", "weight", "sample_weight"]
    assert frame["sample_weight"].mean() == pytest.approx(1)
    bare = unskew.debias_weights(np.ones((3, 1)), ["s"] * 3).to_frame()
    assert bare.columns.tolist() == ["id", "source", "weight", "sample_weight"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    with refused(DataError):
        plain_weights().to_parquet(tmp_path / "nowhere" / "weights.parquet")
    assert not list(tmp_path.iterdir())


def _written(pool, tmp_path, **columns):
    frame = pd.DataFrame(
        {"id": pool.frame["id"], "weight": 1 / len(pool), "sample_weight": 1.0} | columns
    )
    write_weights_table(pool, frame, tmp_path / "weights.parquet")
    return read_weights_table(tmp_path / "weights.parquet")


def test_the_table_of_weights_has_all_columns_and_is_joined_by_id(tmp_path):
    split_n = np.where(np.arange(40) // 4 % 2 == 0, "train", "test")
    pool = Pool(FRAME.assign(split=split_n))
    split = weigh_splits(pool, Strata("label"), TARGET)
    write_weights_table(
        pool, split.frame().sample(frac=1, random_state=0), tmp_path / "weights.parquet"
    )
    read = read_weights_table(tmp_path / "weights.parquet")
    assert list(read.columns) == [
        "id",
        "source",
        "path",
        "label",
        "group",
        "split",
        "weight",
        "sample_weight",
    ]
    np.testing.assert_array_equal(read["weight"], split.weight)
    np.testing.assert_array_equal(read["sample_weight"], split.sample_weight)
    for name in ("id", "path", "label", "group", "split"):
        assert read[name].tolist() == pool.frame[name].tolist()
    assert read["source"].tolist() == pool.frame["source"].astype(str).tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["weights.parquet"]


def test_a_table_without_labels_or_paths_has_empty_columns_and_lists_stay_lists(tmp_path):
    bare = _written(Pool.from_arrays(["a", "b"]), tmp_path)
    assert bare[["path", "label", "group", "split"]].isna().all(axis=None)
    several = Pool(
        pd.DataFrame({"id": ["p", "q", "r"], "source": "s", "label": [["cat", "dog"], [], None]})
    )
    assert _written(several, tmp_path)["label"].tolist() == [["cat", "dog"], [], None]
    mixed = Pool(pd.DataFrame({"id": ["p", "q"], "source": "s", "label": [1, "x"]}))
    assert _written(mixed, tmp_path)["label"].tolist() == ["1", "x"]
    coded = Pool(
        pd.DataFrame({"id": ["p", "q"], "source": "s", "label": pd.Categorical(["x", None])})
    )
    assert _written(coded, tmp_path)["label"].isna().tolist() == [False, True]


def test_weights_of_other_images_are_refused(tmp_path):
    pool = Pool.from_arrays(["a", "b"], id=["p", "q"])
    with refused(DataError, ids=["q"], count=1):
        _written(pool, tmp_path, id=["p", "x"])
    with refused(DataError, columns=["sample_weight"]):
        write_weights_table(
            pool, pd.DataFrame({"id": ["p", "q"], "weight": 0.5}), tmp_path / "w.parquet"
        )
    with refused(DataError, path=str(tmp_path / "nothing.parquet")):
        read_weights_table(tmp_path / "nothing.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with refused(DataError, path=str(tmp_path / "text.parquet")):
        read_weights_table(tmp_path / "text.parquet")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "other.parquet")
    with refused(DataError, path=str(tmp_path / "other.parquet"), columns=list(COLUMNS)):
        read_weights_table(tmp_path / "other.parquet")
    assert not (tmp_path / "w.parquet").exists()


def test_weights_of_the_whole_pool_name_no_split(tmp_path):
    """They sum to 1 over all images: within a split they are not weights of the target."""
    pool = unskew.split_pool(
        unskew.Pool.from_arrays(["a"] * 60 + ["b"] * 40, label=["cat"] * 50 + ["dog"] * 50)
    )
    target = unskew.Target.uniform("label")
    unskew.debias(pool, unskew.bias.Strata("label"), target).to_parquet(tmp_path / "w.parquet")
    table = unskew.read_weights_table(tmp_path / "w.parquet")
    assert table["split"].isna().all()
    assert table["weight"].sum() == pytest.approx(1.0)
    predictions = table[["id"]].assign(prediction="cat")
    with refused(unskew.ConfigError, option="split", value="test"):
        unskew.evaluate_predictions(table, predictions, split="test", replicates=0)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("weight", np.nan),
        ("weight", -1.0),
        ("sample_weight", np.inf),
        ("weight", 0.0),
        ("sample_weight", "=1+1"),
        ("id", "same"),
        ("id", None),
    ],
)
def test_what_no_run_writes_is_no_table_of_weights(
    column: str, values: object, tmp_path: Path
) -> None:
    """A stranger's weights of NaN were judged and exported."""
    fitted_weights().to_parquet(tmp_path / "w.parquet")
    pd.read_parquet(tmp_path / "w.parquet").assign(**{column: values}).to_parquet(
        tmp_path / "w.parquet"
    )
    with refused(DataError, column=column):
        read_weights_table(tmp_path / "w.parquet")
