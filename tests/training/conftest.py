"""One trained run for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from training_runs import FEW, write_shapes, write_training_run
from unskew.cli.app import run_command


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two arms in `results`, and other images in `new`; not to be changed."""
    pytest.importorskip("torch").set_num_threads(1)
    folder = tmp_path_factory.mktemp("shapes")
    configuration = write_training_run(folder)
    write_shapes(folder / "new", {"day": {"disc": 12, "square": 12}}, seed=1)
    arms = ["--arm", "debiased", "--arm", "naive"]
    results = str(folder / "results")
    assert run_command(["train", str(configuration), "-o", results, *arms, *FEW, "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks train faster on one thread, and to the same numbers everywhere."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
