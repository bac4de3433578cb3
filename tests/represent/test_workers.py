"""Threads and Ctrl-C."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from represent.picture_pools import pool_of, random_pixels
from unskew.records import Pool
from unskew.represent.base import Representation
from unskew.represent.pool_features import represent_images


@dataclass(frozen=True)
class Slow(Representation):
    name: ClassVar[str] = "slow"
    batch_size: ClassVar[int | None] = 20

    def compute(self, batch: np.ndarray) -> np.ndarray:
        time.sleep(0.005 * len(batch))
        return batch.mean(axis=(1, 2, 3))[:, None]


_INTERRUPTED = """
import signal
import sys
# a shell starts background jobs without it
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path[:0] = {path!r}
from represent.test_workers import Slow, _many
from unskew.represent.pool_features import represent_images
computed, compute = [], Slow.compute

def told(self, batch):
    computed.append(len(batch))
    if sum(computed) - len(batch) < 300 <= sum(computed):
        print("300 images are computed", flush=True)
    return compute(self, batch)

Slow.compute = told
try:
    represent_images(_many(), [Slow()], cache=sys.argv[1], jobs=2)
except KeyboardInterrupt:
    print("interrupted")
"""


def _many() -> Pool:
    return pool_of([random_pixels(4, 4, seed) for seed in range(2000)])


def test_ctrl_c_loses_nothing_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = str(Path(__file__).parents[1])
    code = _INTERRUPTED.format(path=[tests, *sys.path])
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "300 images are computed\n"
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=60)
    assert output == "interrupted\n"
    shelf = next(tmp_path.glob("slow-*"))
    kept = sum(len(pd.read_parquet(part)) for part in shelf.glob("part-*.parquet"))
    assert 200 < kept < 2000  # what is being computed when the signal comes may end after it
    computed = []
    monkeypatch.setattr(
        Slow,
        "compute",
        lambda self, batch: computed.append(len(batch)) or batch.mean(axis=(1, 2, 3))[:, None],
    )
    values = represent_images(_many(), [Slow()], cache=tmp_path).frame["slow"]
    assert sum(computed) == 2000 - kept
    np.testing.assert_allclose(values, [random_pixels(4, 4, seed).mean() for seed in range(2000)])
