"""One trained run for all tests of this folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from training_runs import FEW, write_shapes, write_training_run
from unskew.cli.app import run_command


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two arms in `results`, and other images in `new`; not to be changed."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)  # as in the tests: another number of threads rounds otherwise
    folder = tmp_path_factory.mktemp("shapes")
    configuration = write_training_run(folder)
    write_shapes(folder / "new", {"day": {"disc": 12, "square": 12}}, seed=1)
    arms = ["--arm", "debiased", "--arm", "naive"]
    results = str(folder / "results")
    assert run_command(["train", str(configuration), "-o", results, *arms, *FEW, "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small networks train faster on one thread."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
