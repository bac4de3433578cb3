"""Two processes under torchrun draw, together, what one alone draws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from raising import refused  # noqa: E402
from small_trainings import small_data  # noqa: E402
from unskew.errors import ConfigError  # noqa: E402
from unskew.learn import load_trained, settings_of  # noqa: E402
from unskew.learn.processes import (  # noqa: E402
    follows,
    found_precision,
    outside_processes,
    start_fabric,
)

SCRIPT = Path(__file__).with_name("torchrun_process.py")


def _under_torchrun(n_processes: int, folder: Path, *arguments: str) -> list[list[list[int]]]:
    """Return for each process the rows of each of its training steps."""
    folder.mkdir()
    path = os.pathsep.join([str(SCRIPT.parents[1]), str(SCRIPT.parent), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={n_processes}", str(SCRIPT), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"drawn-{rank}.json").read_text()) for rank in range(n_processes)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", "follow"])
def test_two_processes_draw_and_learn_what_one_does(tmp_path: Path, mode: str) -> None:
    (one,) = _under_torchrun(1, tmp_path / "one")
    two = _under_torchrun(2, tmp_path / "two", mode)
    assert len(one) == len(two[0]) == len(two[1]) == 6
    for whole, first, second in zip(one, *two, strict=True):
        assert (first, second) == (whole[::2], whole[1::2])
    models = [
        load_trained(tmp_path / name / "model", allow_code=["training_networks"])
        for name in ("one", "two")
    ]
    for name, value in models[0].network.state_dict().items():
        # Double precision: the order of sums differs.
        torch.testing.assert_close(
            value, models[1].network.state_dict()[name], rtol=1e-9, atol=1e-12
        )
    X = small_data().X
    np.testing.assert_allclose(models[0].scores(X), models[1].scores(X), rtol=1e-9)


def test_ranks_come_from_torchrun_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert (outside_processes(), follows()) == ((0, 1), False)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert (outside_processes(), follows()) == ((3, 4), True)


def test_a_batch_is_shared_equally_by_all_processes_of_all_nodes(monkeypatch) -> None:
    for name, value in {
        "TORCHELASTIC_RUN_ID": "x",
        "RANK": "0",
        "WORLD_SIZE": "6",
        "LOCAL_WORLD_SIZE": "2",
    }.items():
        monkeypatch.setenv(name, value)
    with refused(ConfigError, option="batch", value=32):
        start_fabric(settings_of("finetune", device="cpu"))


def test_automatic_precision_is_mixed_on_a_graphics_card_only() -> None:
    assert found_precision("auto", "cpu") == "32-true"
    assert found_precision("auto", "cuda") in ("16-mixed", "bf16-mixed")
    assert found_precision("64-true", "cuda") == "64-true"
