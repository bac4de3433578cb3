"""The union over two real processes is one weighted sample, whoever trains: torch, Lightning's
Trainer and Fabric, Accelerate.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from unskew.learn import WeightedSampler

SCRIPT = Path(__file__).with_name("sampler_processes.py")
WEIGHT = np.random.default_rng(0).exponential(size=50) * (np.arange(50) % 5 > 0)  # as in the script
SIZE = 97
NEEDS = {
    "trainer-resume": ("lightning", "torchdata"),
    **dict.fromkeys(("trainer", "fabric", "fabric-resume"), ("lightning",)),
    **dict.fromkeys(("view-trainer", "view-fabric"), ("lightning",)),
    **dict.fromkeys(("accelerate", "accelerate-alone", "accelerate-dispatch"), ("accelerate",)),
    "view-accelerate": ("accelerate",),
}


def _seen(kind: str, folder: Path) -> list[list[list[int]]]:
    """The rows that each process saw, by epoch. Lightning starts its second process itself, torch's
    launcher both.
    """
    for name in NEEDS.get(kind, ()):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    itself = "trainer" in kind or "fabric" in kind
    launcher = (
        [] if itself else ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    )
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, *launcher, str(SCRIPT), kind, str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _draw(epoch: int) -> list[int]:
    return WeightedSampler(WEIGHT, size=SIZE).draw_epoch(epoch).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torch", "trainer", "fabric", "accelerate-alone"])
def test_the_union_over_two_processes_is_the_draw_but_for_its_last_image(
    kind: str, tmp_path: Path
) -> None:
    first, second = _seen(kind, tmp_path)
    for epoch, (own, other) in enumerate(zip(first, second, strict=True)):
        union = [row for turn in zip(own, other, strict=True) for row in turn]
        assert union == _draw(epoch)[: SIZE - 1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["accelerate", "accelerate-dispatch", "view-accelerate"])
def test_accelerate_hands_out_the_batches_of_the_draw(kind: str, tmp_path: Path) -> None:
    """13 batches for two processes: the last is filled up, and a 14th made, from the beginning (its
    even_batches).
    """
    first, second = _seen(kind, tmp_path)
    for epoch, (own, other) in enumerate(zip(first, second, strict=True)):
        union = Counter(own + other)
        assert not Counter(_draw(epoch)) - union
        assert union.total() <= 14 * 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["view-torch", "view-trainer", "view-fabric"])
def test_the_items_of_a_view_are_shared_out_and_one_is_repeated(kind: str, tmp_path: Path) -> None:
    """97 draws for two processes: their own samplers repeat one, so that both have 49."""
    first, second = _seen(kind, tmp_path)
    for epoch, (own, other) in enumerate(zip(first, second, strict=True)):
        assert len(own) == len(other) == 49
        repeated = Counter(own + other) - Counter(_draw(epoch))
        assert repeated.total() == 1
        assert not Counter(_draw(epoch)) - Counter(own + other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fabric-resume", "trainer-resume"])
def test_resume_equals_no_interruption_under_lightning(kind: str, tmp_path: Path) -> None:
    (seen,) = _seen(kind, tmp_path)
    assert seen == [_draw(0), _draw(1)]
