"""Training that is killed, and training by two processes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from raising import refused  # noqa: E402
from unskew.learn import train_model  # noqa: E402

SCRIPT = Path(__file__).with_name("training_process.py")
_spec = importlib.util.spec_from_file_location("training_process", SCRIPT)
training_process = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(training_process)
make_data, make_settings = training_process.make_data, training_process.make_settings


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _run_and_be_killed(folder: Path, *arguments: str, kill: int | None = None) -> None:
    path = os.pathsep.join([str(SCRIPT.parents[1]), *(each for each in sys.path if each)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    environment |= {} if kill is None else {"UNSKEW_TEST_KILL": str(kill)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]


def _assert_same_bits(first, second) -> None:
    one, other = first.network.state_dict(), second.network.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [{**row, "seconds": 0} for row in first.history] == [
        {**row, "seconds": 0} for row in second.history
    ]


def _resumed_equals_straight(folder: Path) -> None:
    straight = train_model(make_data(), make_settings(), folder / "straight", logs=False)
    resumed = train_model(make_data(), make_settings(), folder / "killed", resume=True)
    _assert_same_bits(straight, resumed)
    assert sorted(path.name for path in (folder / "killed").iterdir()) == [
        "logs",
        "model.pt",
        "settings.json",
    ]


@pytest.mark.slow
def test_killed_in_its_second_epoch_a_run_loses_that_epoch_alone(tmp_path: Path) -> None:
    """4 steps make an epoch; step 6 is in the middle of the second."""
    _run_and_be_killed(tmp_path / "killed", kill=6)
    state = torch.load(tmp_path / "killed" / "checkpoint.pt", weights_only=True)
    assert len(state["history"]) == 1
    _resumed_equals_straight(tmp_path)


@pytest.mark.slow
def test_killed_while_a_checkpoint_is_written_the_one_before_stands(tmp_path: Path) -> None:
    _run_and_be_killed(tmp_path / "killed", "torn")
    _resumed_equals_straight(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["loss", "sampler"])
def test_two_processes_train_what_one_trains(tmp_path: Path, weighting: str) -> None:
    """Without batch normalisation, whose statistics are those of a process' own batch, only
    rounding differs.
    """
    chosen = {
        "model": "training_networks:linear",
        "precision": "64-true",
        "weighting": weighting,
        "learning_rate": 0.05,
    }
    one, two = (
        train_model(
            make_data(),
            make_settings(devices=devices, **chosen),
            tmp_path / str(devices),
            logs=False,
        )
        for devices in (1, 2)
    )
    for name, value in one.network.state_dict().items():
        torch.testing.assert_close(value, two.network.state_dict()[name], rtol=1e-9, atol=1e-12)
    for name in ("train_loss", "validation_loss", "validation_accuracy"):
        # Fabric hands what a network computes on as float32, whatever its precision.
        np.testing.assert_allclose(
            [row[name] for row in one.history], [row[name] for row in two.history], rtol=1e-6
        )


@pytest.mark.slow
def test_two_processes_with_batch_normalisation_resume_and_agree(tmp_path: Path) -> None:
    """What rank 0 saved is what both judged: the history's validation loss, computed anew from the
    model.
    """
    model = train_model(
        make_data(),
        make_settings(devices=2, model="training_networks:convolutional"),
        tmp_path,
        logs=False,
    )
    held = make_data().validation
    score = model.scores(held.X)
    assert model.history[model.epoch]["validation_loss"] == pytest.approx(
        -np.log(score[np.arange(len(held)), held.label]).mean(), rel=1e-5
    )


@pytest.mark.slow
def test_an_error_in_a_process_comes_back_as_itself(tmp_path: Path) -> None:
    from unskew.errors import ConfigError, ConvergenceError

    with pytest.raises(ConvergenceError, match="diverged"):
        train_model(
            make_data(),
            make_settings(devices=2, learning_rate=1e30, model="training_networks:linear"),
            tmp_path / "a",
            logs=False,
        )
    with refused(ConfigError, option="model", limit=2):
        train_model(
            make_data(),
            make_settings(devices=2, model="training_networks:always_three"),
            tmp_path / "b",
            logs=False,
        )
