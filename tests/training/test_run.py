"""The parts behind `unskew train`: squares of pixels, arms, worst groups, cards, principal
components for other images.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from represent.picture_pools import encoded, pool_of, random_pixels
from training_runs import CONFIGURATION, write_training_run
from unskew import ConfigError, Pool, Target
from unskew.cli.app import run_command
from unskew.evaluation.predictions import evaluate_predictions
from unskew.represent.square_pixels import square_images
from unskew.training.arms import adjust_scores, check_arms, main_arm, make_arm, take_training_rows
from unskew.training.inputs import Splits, TrainingInputs, find_splits
from unskew.training.model_card import escape_markdown


def test_squares_of_the_right_size_are_the_pixels_themselves(tmp_path: Path) -> None:
    pixels = random_pixels(12, 12, n=5)
    pool, X = square_images(pool_of([encoded(each) for each in pixels]), 12, cache=tmp_path, jobs=1)
    assert np.array_equal(X, pixels)
    assert X.dtype == np.uint8
    again = pool_of([encoded(each) for each in pixels[::-1]])
    assert np.array_equal(square_images(again, 12, cache=tmp_path, jobs=1)[1], pixels[::-1])
    assert list(pool.frame.columns) == ["id", "source", "path"]


def test_squares_set_aside_what_cannot_be_decoded() -> None:
    pixels = random_pixels(9, 15, n=3)
    raw = {"a": encoded(pixels[0]), "broken": b"no image", "b": encoded(pixels[2])}
    pool, X = square_images(pool_of(raw), 4, "stretch", tolerance=0.5, jobs=1)
    assert pool.frame["id"].tolist() == ["a", "b"]
    assert X.shape == (2, 4, 4, 3)
    assert pool.set_aside is not None
    assert pool.set_aside["id"].tolist() == ["broken"]
    assert np.array_equal(X[1], square_images(pool_of({"b": raw["b"]}), 4, "stretch", jobs=1)[1][0])


def test_rows_of_a_mapped_array_are_mapped_again(tmp_path: Path) -> None:
    X = np.memmap(tmp_path / "x", dtype=np.uint8, mode="w+", shape=(9000, 2))
    X[:] = np.arange(18000, dtype=np.uint64).reshape(9000, 2).astype(np.uint8)
    rows = np.arange(0, 9000, 2)[::-1]
    assert isinstance(take_training_rows(X, rows), np.memmap)
    assert np.array_equal(take_training_rows(X, rows), np.asarray(X)[rows])


@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
)
def test_adjusted_scores_are_the_softmax_of_logits_less_the_offset(
    logit: list[float], offset: list[float]
) -> None:
    def softmax(z: Any) -> Any:
        return np.exp(z) / np.exp(z).sum()

    z, o = np.array(logit), np.array(offset)
    assert adjust_scores(softmax(z)[None], o)[0] == pytest.approx(softmax(z - o), abs=1e-12)


def test_a_class_with_an_infinite_offset_is_never_predicted() -> None:
    assert adjust_scores(np.array([[0.9, 0.1]]), np.array([np.inf, 2.0])).tolist() == [[0.0, 1.0]]


def test_arms_by_name() -> None:
    assert check_arms(["naive", "debiased", "naive"]) == ("naive", "debiased")
    assert main_arm(("naive", "debiased")) == "debiased"
    assert main_arm(("naive", "subsample")) == "naive"
    with pytest.raises(ConfigError, match="class_balanced"):
        check_arms(["class_balance"])


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
    assert adjusted.logit_offset == pytest.approx(np.log([4 / 6 / 0.5, 2 / 6 / 0.5]))


def test_splits_are_known_by_their_names() -> None:
    def pool(*names: str) -> Pool:
        return Pool.from_arrays(["a"] * len(names), label=list(names), split=list(names))

    assert find_splits(pool("test", "val", "Train")) == Splits("Train", "val", "test")
    assert find_splits(pool("train", "test")).held_out == "test"
    with pytest.raises(ValueError, match="called train"):
        find_splits(pool("a", "test"))
    with pytest.raises(ValueError, match="has not seen"):
        find_splits(pool("train", "other"))


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


def test_names_are_no_markup_in_a_card() -> None:
    assert escape_markdown("<script>alert(1)</script>") == "\\<script\\>alert(1)\\</script\\>"
    assert escape_markdown("a|b\n# [x](../y) *z* `q`") == "a\\|b \\# \\[x\\](../y) \\*z\\* \\`q\\`"
    assert escape_markdown("a\x1b[31m") == "a\\x1b\\[31m".replace("\\x", "\\\\x")


NETWORK = """
import torch

class Small(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x.mean(dim=(2, 3)), x.std(dim=(2, 3)), x[:, :, 4:12, 4:12].mean(dim=(2, 3))], dim=1)

def small():
    return Small()
"""


def test_a_probe_on_components_judges_other_images_with_the_components_of_its_run(
    tmp_path: Path,
) -> None:
    """Images of the run, judged as if they were others, get the scores of the run; alone they would
    have other components.
    """
    pytest.importorskip("torch").set_num_threads(1)
    features = (
        '[represent]\nfeatures = ["brightness", { name = "embedding", model = '
        '"tinyembedding:small", size = 16, components = 3 }]\n'
    )
    write_training_run(
        tmp_path,
        CONFIGURATION.replace("size = 16\nepochs = 2\nbatch = 32", 'preset = "probe"') + features,
    )
    (tmp_path / "tinyembedding.py").write_text(NETWORK)
    out = tmp_path / "out"
    assert (
        run_command(
            ["train", str(tmp_path / "run.toml"), "-o", str(out), "--replicates", "0", "--quiet"]
        )
        == 0
    )
    saved = tmp_path / "night.parquet"
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(tmp_path / "night"),
                "--replicates",
                "0",
                "--save",
                str(saved),
                "--quiet",
            ]
        )
        == 0
    )
    own = pd.read_parquet(out / "predictions.parquet").set_index("id")
    own = own[own.index.str.startswith("night")]
    found = pd.read_parquet(saved).set_index("id").loc[own.index]
    assert found["score_disc"].to_numpy() == pytest.approx(own["score_disc"].to_numpy(), abs=1e-5)
    assert own["score_disc"].std() > 0.01


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    """kill -9 in the middle of training, then --resume: the numbers of a run that was not
    killed.
    """
    pytest.importorskip("torch")
    configuration = write_training_run(tmp_path, CONFIGURATION.replace("epochs = 2", "epochs = 6"))
    run = [
        sys.executable,
        "-m",
        "unskew",
        "train",
        str(configuration),
        "--replicates",
        "20",
        "-q",
        "-o",
    ]
    subprocess.run([*run, str(tmp_path / "whole")], check=True)
    with subprocess.Popen([*run, str(tmp_path / "killed")]) as process:
        while not list((tmp_path / "killed" / "arms").glob("*/checkpoint.pt")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "killed" / "metrics.json").exists()
    subprocess.run([*run, str(tmp_path / "killed"), "--resume"], check=True)
    whole, killed = (
        pd.read_parquet(tmp_path / name / "predictions.parquet") for name in ("whole", "killed")
    )
    pd.testing.assert_frame_equal(whole, killed, check_exact=True)
    one, other = (
        tmp_path / name / "arms" / "debiased" / "model.pt" for name in ("whole", "killed")
    )
    assert one.read_bytes() == other.read_bytes()


def test_force_replaces_a_training_and_leaves_other_files_alone(tmp_path: Path) -> None:
    from unskew.training.folder import check_training_folder, clear_training

    out = tmp_path / "out"
    (out / "arms" / "debiased").mkdir(parents=True)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no training of this kind wrote"):
        check_training_folder(out, resume=False, force=True)
    (out / "training.json").write_text(
        '{"status": "started", "arm": "a", "arms": {}, "classes": [], "preprocessing": {}}'
    )
    with pytest.raises(ConfigError, match="started and not finished"):
        check_training_folder(out, resume=False, force=False)
    check_training_folder(out, resume=False, force=True)
    clear_training(out)
    assert [each.name for each in out.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "metrics.json",
        "model-card.md",
        "history.csv",
        "predictions.parquet",
        "projections.npz",
        "report.html",
    ],
)
def test_files_that_no_training_wrote_are_not_replaced_without_force(
    tmp_path: Path, name: str
) -> None:
    from unskew.training.folder import check_training_folder

    (tmp_path / "forecast.json").write_text("of unskew forecast, which a training takes up")
    (tmp_path / "unreadable.csv").write_text("of a training that was refused")
    check_training_folder(tmp_path, resume=False, force=False)
    (tmp_path / name).write_text("mine")
    for resume in (False, True):
        with pytest.raises(
            ConfigError, match=f"holds {name}, and no training that wrote it.*--force"
        ):
            check_training_folder(tmp_path, resume=resume, force=False)
    check_training_folder(tmp_path, resume=False, force=True)


def test_a_table_of_splits_that_no_training_wrote_is_not_replaced(tmp_path: Path) -> None:
    from unskew.training.folder import check_split_table, check_training_folder

    check_split_table(tmp_path, "id,split\na,train\n")
    (tmp_path / "splits.csv").write_text("id,split\na,train\n")
    check_training_folder(tmp_path, resume=False, force=False)
    check_split_table(tmp_path, None)
    check_split_table(tmp_path, "id,split\na,train\n")
    with pytest.raises(ConfigError, match=r"holds splits\.csv"):
        check_split_table(tmp_path, "id,split\na,validation\n")
    for name in ("run.toml", "report.html", "report.json"):
        (tmp_path / name).write_text("of a run that was refused")
    check_training_folder(tmp_path, resume=False, force=False)
    check_split_table(tmp_path, "id,split\na,validation\n")


def test_settings_of_another_model_than_the_command_line_names_are_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from unskew.config.run_config import make_config
    from unskew.training.run import override_learn

    told = {
        "sources": {"folders": {"a": "a"}},
        "bias": {"family": "strata"},
        "learn": {"epochs": 3, "size": 64, "by": ["age"]},
    }
    config = make_config(told, check_paths=False)
    probe = override_learn(config, {"preset": "probe", "epochs": None})
    assert (
        probe.learn
        == make_config(
            told | {"learn": {"preset": "probe", "by": ["age"]}}, check_paths=False
        ).learn
    )
    assert "left out: size, epochs." in caplog.text
    caplog.clear()
    # What is written beside the results can be read again.
    assert (
        override_learn(
            make_config({**told, "learn": probe.learn.settings()}, check_paths=False),
            {"arms": ["naive"]},
        ).learn.epochs
        is None
    )
    own = override_learn(probe, {"model": "nets:small", "epochs": 5})
    assert own.learn.epochs == 5
    assert not caplog.text
    with pytest.raises(ConfigError, match="--size goes with a network on pixels"):
        override_learn(own, {"size": 64})
    with pytest.raises(ConfigError, match="--epochs goes with a network"):
        override_learn(probe, {"epochs": 5})


def test_few_images_get_smaller_batches_and_more_epochs_and_what_is_said_stays() -> None:
    from unskew.training.inputs import _for_few_images

    assert _for_few_images(50_000, {}) == {"batch": 512, "epochs": 4}
    assert _for_few_images(1105, {}) == {"batch": 32, "epochs": 12}
    assert _for_few_images(40, {}) == {"batch": 32, "epochs": 40}
    assert _for_few_images(40, {"epochs": 1, "batch": 512}) == {"batch": 512, "epochs": 1}
