"""`unskew train` as a user meets it: its files, stopping and resuming, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raising import refused
from run_data import error_of, write_hospitals
from training_runs import (
    CONFIGURATION,
    FEW,
    copy_run,
    read_json,
    write_training_run,
)
from unskew import ConfigError
from unskew.cli.app import run_command

pytest.importorskip("torch")

Captured = pytest.CaptureFixture[str]


def test_the_folder_holds_results_and_a_model(shapes: Path) -> None:
    out = shapes / "results"
    for name in (
        "weights.parquet",
        "report.html",
        "run.toml",
        "splits.csv",
        "metrics.json",
        "predictions.parquet",
        "model-card.md",
    ):
        assert (out / name).is_file(), name
    history = pd.read_csv(out / "history.csv")
    assert history.groupby("arm")["epoch"].apply(list).to_dict() == {
        "debiased": [1, 2],
        "naive": [1, 2],
    }
    assert history["validation_loss"].notna().all()
    splits = pd.read_csv(out / "splits.csv").merge(
        pd.read_parquet(out / "weights.parquet"), on="id", suffixes=("", "_")
    )
    assert (splits["split"] == splits["split_"]).all()
    assert splits.groupby("split")["weight"].sum().to_dict() == pytest.approx(
        {"train": 1.0, "validation": 1.0}
    )
    # 18 of 120, dealt out so that sources and classes are alike.
    assert splits["split"].value_counts().to_dict() == {"train": 102, "validation": 18}


def test_the_other_commands_understand_the_folder(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = shapes / "results"
    assert run_command(["verify", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    assert run_command(["report", str(out), "--quiet"]) == 0
    assert (
        run_command(
            ["export", str(out), "--to", "csv", "-o", str(tmp_path / "weights.csv"), "--quiet"]
        )
        == 0
    )


def test_a_forced_run_is_verified_with_its_own_splits(shapes: Path, tmp_path: Path) -> None:
    """Its report named the splits of the training that it replaced."""
    folder = copy_run(shapes, tmp_path)
    out, config = folder / "results", folder / "run.toml"
    before = (out / "splits.csv").read_bytes()
    force = ["train", str(config), "-o", str(out), *FEW, "--seed", "1", "--force", "--quiet"]
    assert run_command(force) == 0
    assert (out / "splits.csv").read_bytes() != before
    assert run_command(["verify", str(out), "--quiet"]) == 0


def test_a_finished_run_is_judged_by_other_columns_without_training(
    shapes: Path, tmp_path: Path
) -> None:
    folder = copy_run(shapes, tmp_path)
    before = (folder / "results" / "arms" / "naive" / "model.pt").read_bytes()
    run = [
        "train",
        str(folder / "run.toml"),
        "-o",
        str(folder / "results"),
        "--arm",
        "debiased",
        "--arm",
        "naive",
        *FEW,
        "--quiet",
    ]
    assert run_command([*run, "--resume", "--by", "source*label"]) == 0
    assert (folder / "results" / "arms" / "naive" / "model.pt").read_bytes() == before
    assert "source*label" in [
        part["column"] for part in read_json(folder / "results" / "metrics.json")["breakdowns"]
    ]


def test_a_run_that_was_stopped_continues(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Ctrl-C after the first arm: the second run trains the other one, and ends with the numbers of
    a run that was not stopped.
    """
    from unskew.learn import train

    write_training_run(tmp_path)
    run = [
        "train",
        str(tmp_path / "run.toml"),
        "-o",
        str(tmp_path / "out"),
        "--arm",
        "debiased",
        "--arm",
        "naive",
        *FEW,
    ]
    whole, calls = train.train_model, []

    def stopped(data: Any, settings: Any, folder: Path, **options: Any) -> Any:
        if calls:
            raise KeyboardInterrupt
        calls.append(folder.name)
        return whole(data, settings, folder, **options)

    monkeypatch.setattr(train, "train_model", stopped)
    assert run_command([*run, "--quiet"]) == 130
    message = " ".join(capsys.readouterr().err.split())
    assert "run the same command with --resume to continue" in message
    assert "again" not in message
    assert read_json(tmp_path / "out" / "training.json")["status"] == "started"
    assert run_command(["evaluate", str(tmp_path / "out"), str(shapes / "new" / "day")]) == 4
    assert "--resume" in capsys.readouterr().err
    monkeypatch.undo()
    assert run_command([*run, "--resume"]) == 0
    assert calls == ["debiased"]
    assert (
        run_command(
            ["evaluate", str(tmp_path / "out"), str(shapes / "new" / "day"), *FEW, "--quiet"]
        )
        == 0
    )
    assert (
        read_json(tmp_path / "out" / "metrics.json")["arms"]
        == read_json(shapes / "results" / "metrics.json")["arms"]
    )


def test_what_cannot_be_trained_is_refused_before_the_work(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path
    for name in ("day", "night"):
        (folder / name).symlink_to(shapes / name)
    (folder / "ownnet.py").write_text(
        "import torch\ndef small():\n    return torch.nn.Sequential(torch.nn.Flatten(), "
        "torch.nn.Linear(16 * 16 * 3, 7))\n"
    )
    (folder / "run.toml").write_text(CONFIGURATION)
    cases = {
        ("--model", "ownnet:small", "--allow-code", "ownnet"): ["2 classes", "(2, 7)"],
        ("--model", "nonet:small"): ["nonet"],
        ("--model", "probe"): ["probe", "fast"],
        ("--preset", "quick"): ['"fast", "finetune", "article" or "probe"'],
        ("--arm", "naiv"): ["'naiv'", "'naive'"],
        ("--preset", "probe"): ["represent.features", "size, epochs, batch"],
        ("--preset", "probe", "--epochs", "3"): ["--epochs", "network"],
        ("--by", "label*light"): ["--by light"],
        ("--size", "5000"): ["from 1 to 4096"],
    }
    train = ["train", str(folder / "run.toml"), "-o", str(folder / "out")]
    for options, words in cases.items():
        assert run_command([*train, *options]) == 2, options
        shown = capsys.readouterr().err
        assert all(word in shown for word in words), shown
        assert not (folder / "out" / "training.json").exists()
    (folder / "run.toml").write_text(
        CONFIGURATION.replace(
            'uniform = "label"', "margins.label = { disc = 1, square = 1, star = 1 }"
        )
    )
    assert run_command(["train", str(folder / "run.toml"), "-o", str(folder / "out")]) == 3
    assert "star" in capsys.readouterr().out
    assert (folder / "out" / "report.html").is_file()
    assert not (folder / "out" / "weights.parquet").exists()


def test_a_graphics_card_that_is_not_there_is_missed_before_the_work(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(
        "unskew.training.run.read_training_inputs", lambda *_, **__: pytest.fail("images are read")
    )
    for device, words in {"cuda": "'cuda'", "gpu": "'gpu'"}.items():
        assert (
            run_command(
                ["train", str(shapes / "run.toml"), "-o", str(tmp_path / "out"), "--device", device]
            )
            == 2
        )
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_torch_it_says_what_to_install(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run_command(["train", str(shapes / "run.toml"), "-o", str(tmp_path / "out")]) == 2
    assert "pip install 'unskew[torch]'" in capsys.readouterr().err


def test_a_table_trains_a_probe_and_tells_no_small_cells(tmp_path: Path, capsys: Captured) -> None:
    """Three hospitals without images: a probe on age, judged by age and sex; ids of patients are
    in no file meant for others.
    """
    configuration = write_hospitals(tmp_path)
    text = configuration.read_text().replace(
        'split = "split"', 'split = "split"\nlabel = "finding"'
    )
    configuration.write_text(text)
    error = error_of(["train", str(configuration), "-o", str(tmp_path / "out")], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"key": "learn.preset", "value": "fast"})
    assert 'preset = "probe"' in error["message"]
    configuration.write_text(text + '\n[learn]\npreset = "probe"\n')
    assert run_command(["train", str(configuration), "-o", str(tmp_path / "out"), *FEW]) == 0
    shown = capsys.readouterr().out
    assert "held-out images (test)" in shown
    assert "Worst age*sex" in shown
    metrics, card = (
        read_json(tmp_path / "out" / "metrics.json"),
        (tmp_path / "out" / "model-card.md").read_text(),
    )
    assert metrics["private"]
    assert all(cell["groups"] >= 10 for part in metrics["breakdowns"] for cell in part["cells"])
    ids = pd.read_parquet(tmp_path / "out" / "weights.parquet")["id"]
    text = card + json.dumps(metrics) + (tmp_path / "out" / "training.json").read_text()
    assert not [each for each in ids if each in text]
    assert str(tmp_path) not in text
    # New patients in a table of their own, judged by the numbers that the probe was trained on.
    assert (
        run_command(
            ["evaluate", str(tmp_path / "out"), str(_new_patients(tmp_path)), *FEW, "--json"]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["private"]
    assert found["coverage"]["judged"] == 200


def _new_patients(folder: Path) -> Path:
    rng = np.random.default_rng(5)
    age = rng.uniform(20, 90, 200).round()
    label = np.where(rng.random(200) < age / 100, "yes", "no")
    pd.DataFrame({"id": [f"new-{at}" for at in range(200)], "label": label, "age": age}).to_csv(
        folder / "new.csv", index=False
    )
    return folder / "new.csv"


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_numbers(tmp_path: Path) -> None:
    """kill -9 in the middle of training, then --resume: the numbers of a run that was not
    killed.
    """
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


def test_settings_of_another_model_than_the_command_line_names_are_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from unskew.config.run_config import make_config
    from unskew.training.run import override_learn

    settings = {
        "sources": {"folders": {"a": "a"}},
        "bias": {"family": "strata"},
        "learn": {"epochs": 3, "size": 64, "by": ["age"]},
    }
    config = make_config(settings, check_paths=False)
    probe = override_learn(config, {"preset": "probe", "epochs": None})
    assert (
        probe.learn
        == make_config(
            settings | {"learn": {"preset": "probe", "by": ["age"]}}, check_paths=False
        ).learn
    )
    assert "size, epochs" in caplog.text
    caplog.clear()
    # What is written with the results can be read again.
    assert (
        override_learn(
            make_config({**settings, "learn": probe.learn.settings()}, check_paths=False),
            {"arms": ["naive"]},
        ).learn.epochs
        is None
    )
    own = override_learn(probe, {"model": "nets:small", "epochs": 5})
    assert own.learn.epochs == 5
    assert not caplog.text
    with refused(ConfigError, option="--size"):
        override_learn(own, {"size": 64})
    with refused(ConfigError, option="--epochs"):
        override_learn(probe, {"epochs": 5})
