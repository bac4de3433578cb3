"""Hugging Face's Trainer, in one process and in two: one weighted sample, one weighted gradient."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="make test-packages has it")

from packages.recipes import run_recipe
from packages.trainer_process import IDS, LABEL, WEIGHT, Weighted, X, make_data
from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn import WeightedSampler

SCRIPT = Path(__file__).with_name("trainer_process.py")


def _trained(kind: str, n_processes: int, folder: Path) -> list[dict]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [
        sys.executable,
        *(launcher if n_processes == 2 else []),
        str(SCRIPT),
        str(folder),
        kind,
    ]
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("n_processes", [1, 2])
@pytest.mark.parametrize("kind", ["sampler", "own"])
def test_all_processes_together_train_on_one_weighted_sample(
    kind: str, n_processes: int, tmp_path: Path
) -> None:
    """Without a word, two processes trained on half of the draws."""
    trained = _trained(kind, n_processes, tmp_path)
    assert len(trained) == n_processes
    sampler = WeightedSampler(WEIGHT, seed=7)
    half = sampler.size // n_processes
    for epoch in range(2):
        seen = [row for one in trained for row in one["seen"][epoch * half : (epoch + 1) * half]]
        assert Counter(seen) == Counter(sampler.draw_epoch(epoch).tolist())


@pytest.mark.parametrize("n_processes", [1, 2])
@pytest.mark.parametrize(
    "kind", ["loss", "loss-accumulated", "loss-by-column", "loss-by-hand", "loss-dictionaries"]
)
def test_one_step_on_all_images_is_the_gradient_of_the_weighted_risk(
    kind: str, n_processes: int, tmp_path: Path
) -> None:
    """From zero, p = ½ everywhere: the step is η Σ_i π_i (1{y_i = c} − ½) x_i."""
    if n_processes == 2 and kind not in ("loss", "loss-accumulated"):
        pytest.skip("columns and collators are the same in each process")
    trained = _trained(kind, n_processes, tmp_path)
    share = WEIGHT / WEIGHT.sum()
    step_cd = 0.5 * ((np.arange(2)[:, None] == LABEL) - 0.5) * share @ X
    for one in trained:
        # x reaches the model in single precision, the rest is in double.
        np.testing.assert_allclose(one["weight"], step_cd, rtol=1e-5, atol=1e-8)
    assert sorted(row for one in trained for row in one["seen"]) == list(range(len(WEIGHT)))
    assert np.isfinite(trained[0]["evaluated"])


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    from transformers import TrainingArguments

    from packages.trainer_process import Linear

    def make(settings=None, **options):
        arguments = TrainingArguments(
            output_dir=str(tmp_path), use_cpu=True, report_to=[], **(settings or {})
        )
        return Weighted(model=Linear(), args=arguments, train_dataset=make_data(), **options)

    with refused(ConfigError, option="weighting", value="losses"):
        make(weights="weight", weighting="losses")
    with refused(ConfigError, option="weights", value="wieght"):
        make(weights="wieght")
    with refused(ConfigError, option="size"):
        make(weights="weight", weighting="loss", size=10)
    with refused(ConfigError, option="train_sampling_strategy"):
        make({"train_sampling_strategy": "group_by_length"}, weights="weight")
    with refused(ConfigError, option="compute_loss_func"):
        make(weights="weight", weighting="loss", compute_loss_func=lambda *_, **__: 0)
    with refused(DataError, count=3, limit=len(WEIGHT)):
        make(weights=[1.0, 2.0, 3.0])
    with pytest.raises(DataError):
        make(weights={"0.jpg": 1.0}, ids=IDS)


def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_recipe("transformers")
