"""The arms of a training: their weights, and logit offsets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raising import refused
from run_data import error_of
from training_runs import FEW
from unskew import ConfigError, Pool, Target
from unskew.cli.app import run_command
from unskew.learn.training_data import PickedRows
from unskew.training.inputs import (
    Splits,
    TrainingInputs,
    check_arms,
    gather_training_data,
    main_arm,
    make_arm,
    take_training_rows,
)

Captured = pytest.CaptureFixture[str]


def test_rows_of_a_mapped_array_are_mapped_again(tmp_path: Path) -> None:
    X = np.memmap(tmp_path / "x", dtype=np.uint8, mode="w+", shape=(9000, 2))
    X[:] = np.arange(18000, dtype=np.uint64).reshape(9000, 2).astype(np.uint8)
    rows = np.arange(0, 9000, 2)[::-1]
    taken = take_training_rows(X, rows)
    assert isinstance(taken, PickedRows)
    assert np.array_equal(taken[:], np.asarray(X)[rows])


def test_arms_by_name() -> None:
    assert check_arms(["naive", "debiased", "naive"]) == ("naive", "debiased")
    assert main_arm(("naive", "debiased")) == "debiased"
    assert main_arm(("naive", "subsample")) == "naive"
    with refused(ConfigError, value="class_balance") as caught:
        check_arms(["class_balance"])
    assert "class_balanced" in str(caught.value)


def _training(target: Target | None = None) -> tuple[TrainingInputs, Any]:
    """Six images of train, two of validation, with made-up debiasing weights."""
    label = ["cat", "cat", "cat", "dog", "cat", "dog", "cat", "dog"]
    pool = Pool.from_arrays(["a", "b"] * 4, label=label, split=["train"] * 6 + ["validation"] * 2)
    config: Any = SimpleNamespace(
        learn=SimpleNamespace(by=[]), represent=SimpleNamespace(features=[])
    )
    inputs: Any = SimpleNamespace(pool=pool, target=target, config=config)
    code = np.array([name == "dog" for name in label], dtype=np.int64)
    X = np.zeros((8, 2), dtype=np.float32)
    weights: Any = SimpleNamespace(sample_weight=np.array([0.5, 0.5, 0.5, 2.0, 0.5, 2.0, 0.6, 1.4]))
    return TrainingInputs(
        inputs, X, ("x", "y"), ("cat", "dog"), code, Splits("train", "validation", None)
    ), weights


def test_arms_weigh_train_by_the_baseline_and_validation_by_the_target() -> None:
    training, weights = _training(Target.uniform("label"))
    assert make_arm("debiased", training, weights).weight is weights.sample_weight
    assert make_arm("naive", training, weights).weight.tolist() == [1.0] * 8
    balanced = make_arm("class_balanced", training, weights).weight
    # Four cats and two dogs of train: 6/(2·4) and 6/(2·2).
    assert balanced.tolist() == pytest.approx([0.75, 0.75, 0.75, 1.5, 0.75, 1.5, 0.6, 1.4])
    adjusted = make_arm("logit_adjustment", training, weights)
    assert adjusted.recipe.form == "posthoc"
    assert adjusted.recipe.logit_offset == pytest.approx(np.log([4 / 6 / 0.5, 2 / 6 / 0.5]))


def test_arms_of_networks_are_refused_for_a_probe() -> None:
    assert check_arms(["vs_loss", "classifier_retraining"]) == ("vs_loss", "classifier_retraining")
    check_arms(["classifier_retraining"], probe=True)
    for name in ("deferred_weighting", "vs_loss"):
        with refused(ConfigError, option="--arm", value=name):
            check_arms(["debiased", name], probe=True)
    training, weights = _training(Target.uniform("label"))
    scaled = make_arm("vs_loss", training, weights).recipe
    assert scaled.form == "loss"
    assert scaled.logit_factor == pytest.approx([1.0, 0.5**0.15])
    assert make_arm("deferred_weighting", training, weights).recipe.form == "deferred"


def test_baselines_are_judged_by_the_target_and_naive_by_itself() -> None:
    training, weights = _training(Target.uniform("label"))
    training.inputs.pool.frame["group"] = ["p", "p", "q", "q", "r", "r", "s", "s"]
    judged = {}
    for name in ("debiased", "naive", "class_balanced"):
        arm = make_arm(name, training, weights)
        data = gather_training_data(training, arm)
        judged[name] = data.judge_weight
        assert (arm.recipe is None) == (name == "debiased")
        assert len(np.unique(data.group)) == 3
        assert data.validation.judge_weight is None
        assert len(np.unique(data.validation.group)) == 1
    assert judged["naive"] is judged["debiased"] is None
    assert judged["class_balanced"].tolist() == weights.sample_weight[:6].tolist()


def test_weights_from_a_table_must_match_the_images(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    table = pd.read_parquet(shapes / "results" / "weights.parquet")[["id", "weight"]]
    unknown = pd.DataFrame({"id": ["day/disc/other.png"], "weight": [0.1]})
    wrong = {
        "missing": (table.iloc[3:], ["3 of the 120", table["id"][0]]),
        "extra": (
            pd.concat([table, unknown]),
            ["1 of the 121", "day/disc/other.png", "extra.csv"],
        ),
        "twice": (pd.concat([table, table.iloc[:2]]), ["2", *table["id"][:2]]),
        "nan": (
            table.assign(weight=table["weight"].where(table.index > 0)),
            ["1 of 120", table["id"][0], "nan"],
        ),
        "negative": (table.assign(weight=-table["weight"]), ["120 of 120", table["id"][0], "-"]),
        "zero": (table.assign(weight=0.0), ["120", "zero"]),
    }
    for name, (frame, words) in wrong.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        run = [
            "train",
            str(shapes / "run.toml"),
            "-o",
            str(tmp_path / "out"),
            "--weights",
            str(tmp_path / f"{name}.csv"),
        ]
        error = error_of(run, capsys)
        assert (error["kind"], error["exit_code"]) == ("DataError", 4), name
        assert all(word in error["message"] for word in words), error["message"]
        assert "allow_extra" not in error["message"]
        assert not (tmp_path / "out").exists()
    error = error_of([*run, "--arm", "naive"], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"option": "--weights"})


def test_the_worth_of_given_weights_is_shown_not_that_of_the_debiasing_weights(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Of the 102 images of train the discs have weight, all alike: worth as many images."""
    splits = pd.read_csv(shapes / "results" / "splits.csv")
    is_disc, in_train = splits["id"].str.contains("disc"), splits["split"] == "train"
    splits.assign(weight=(is_disc | ~in_train).astype(float)).to_csv(
        tmp_path / "discs.csv", index=False
    )
    run = [
        "train",
        str(shapes / "run.toml"),
        "-o",
        str(tmp_path / "out"),
        "--weights",
        str(tmp_path / "discs.csv"),
        "--epochs",
        "1",
        *FEW,
    ]
    assert run_command(run) == 0
    sentence = (
        f"The weights given for train are worth {int((is_disc & in_train).sum())} of 102 images."
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert sentence in shown
    assert (
        f"All images of square ({int((~is_disc & in_train).sum())}) in train have weight 0 (given)"
        in shown
    )
    assert sentence in (tmp_path / "out" / "model-card.md").read_text()
