"""Loggers by name, and one line for each epoch."""

from __future__ import annotations

import csv
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from raising import refused
from small_trainings import small_data, small_settings, train_and_stop
from unskew.errors import ConfigError
from unskew.learn import train_model
from unskew.learn.training_logs import describe_epoch, find_logger


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "logs" / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_for_every_epoch_also_of_a_resumed_run(tmp_path, monkeypatch) -> None:
    data = small_data(validation=True)
    train_and_stop(monkeypatch, 2, data, small_settings(logger="csv"), tmp_path)
    model = train_model(data, small_settings(logger="csv"), tmp_path, resume=True)
    rows = _rows(tmp_path)
    assert [int(row["step"]) for row in rows] == [0, 1, 2]
    for row, epoch in zip(rows, model.history, strict=True):
        assert float(row["train/loss"]) == pytest.approx(epoch["train_loss"])
        assert float(row["validation/accuracy"]) == epoch["validation_accuracy"]


def test_a_run_may_go_on_with_another_logger(tmp_path, monkeypatch) -> None:
    train_and_stop(monkeypatch, 1, small_data(), small_settings(logger="none"), tmp_path)
    assert not (tmp_path / "logs").exists()
    train_model(small_data(), small_settings(logger="csv"), tmp_path, resume=True)
    assert len(_rows(tmp_path)) == 3


def test_a_class_by_its_module_with_options(tmp_path: Path) -> None:
    settings = small_settings(
        epochs=1,
        logger="lightning.fabric.loggers:CSVLogger",
        logger_options={"name": "mine", "version": "first"},
    )
    train_model(small_data(), settings, tmp_path)
    assert (tmp_path / "logs" / "mine" / "first" / "metrics.csv").is_file()


def test_a_logger_of_ones_own_gets_the_measures_and_the_settings(tmp_path, monkeypatch) -> None:
    calls: list[tuple] = []

    from lightning.fabric.loggers import Logger

    class Own(Logger):
        name, version = "own", "1"

        def __init__(self, name: str, save_dir: str, project: str) -> None:
            calls.append((name, project))

        def log_hyperparams(self, values) -> None:
            calls.append(("settings", values["epochs"]))

        def log_metrics(self, values, step: int) -> None:
            calls.append((step, sorted(values)))

        def save(self) -> None: ...

        def finalize(self, status: str) -> None:
            calls.append((status,))

    module = types.ModuleType("own_loggers")
    module.Own = Own
    monkeypatch.setitem(sys.modules, "own_loggers", module)
    settings = small_settings(
        epochs=1, logger="own_loggers:Own", logger_options={"project": "faces"}
    )
    train_model(small_data(), settings, tmp_path / "naive")
    assert calls == [
        ("naive", "faces"),
        ("settings", 1),
        (0, ["train/learning_rate", "train/loss"]),
        ("success",),
    ]
    wrong = small_settings(epochs=1, logger="own_loggers:Own", logger_options={"colour": 1})
    with refused(ConfigError, option="logger_options"):
        train_model(small_data(), wrong, tmp_path / "wrong")


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_package_is_named_before_the_training(tmp_path: Path, name: str) -> None:
    if importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed")
    with refused(ConfigError, option="logger", package=name) as caught:
        train_model(small_data(), small_settings(logger=name), tmp_path / "run")
    assert f"pip install {name}" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_unknown_names_are_refused() -> None:
    with refused(ConfigError, option="logger", value="tensorbord"):
        find_logger("tensorbord")
    with refused(ConfigError, option="logger"):
        find_logger("lightning.fabric.loggers:CSVLoger")
    with refused(ConfigError, option="logger"):
        find_logger("no_such_package:Logger")


@pytest.mark.parametrize("name", ["subprocess:Popen", "joblib:dump", "pandas:DataFrame"])
def test_a_file_cannot_call_anything_but_a_logger(name: str) -> None:
    with refused(ConfigError, option="logger"):
        find_logger(name)


def test_a_line_for_each_epoch_is_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    model = train_model(
        small_data(validation=True), small_settings(), tmp_path, logs=False, report=lines.append
    )
    assert lines == [describe_epoch(row, 3) for row in model.history]
    assert lines[0].startswith("Epoch 1 of 3: loss ")
    assert "(validation)" in lines[2]
    assert all("\n" not in line for line in lines)
