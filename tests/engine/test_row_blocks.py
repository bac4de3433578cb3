"""Matrices larger than memory: row blocks from disk are read in passes, with bounded memory (Linux
limits, in a subprocess).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from problems import Blocks, random_problem

N, N_SOURCES = 1_000_000, 40  # 160 MB in single precision
ROWS = 50_000


def write_matrix(path: Path) -> Path:
    """ω_ik = exp(θ_k z_i) for a standard normal z, in single precision, written block by block;
    sources in turn.
    """
    omega = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N, N_SOURCES))
    theta = np.linspace(-1, 1, N_SOURCES)
    rng = np.random.default_rng(0)
    for start in range(0, N, ROWS):
        z = rng.normal(size=ROWS) + theta[np.arange(start, start + ROWS) % N_SOURCES]
        omega[start : start + ROWS] = np.exp(np.outer(z, theta))
    omega.flush()
    return path


# RLIMIT_DATA bounds private anonymous memory: what is mapped from the file does not count, what is
# copied from it does. Warming up on a small problem first loads every library and compiles every
# kernel before the limit is set.
LIMITED = """
import json, resource, sys
import numpy as np, unskew
def status(name):
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024
source = np.arange({n}, dtype=np.int32) % {k}
small = np.load("{path}", mmap_mode="r")[:40_000]
unskew.debias_weights(small, source[:40_000], jobs=1)
data = status("VmData")
resource.setrlimit(resource.RLIMIT_DATA, (data + {limit}, data + {limit}))
try:
    np.load("{path}")
except MemoryError:
    print("the limit holds", file=sys.stderr)
else:
    sys.exit("the whole matrix fits below the limit: this test would prove nothing")
before = status("RssAnon")
weights = unskew.debias_weights("{path}", source, jobs=1)
grown = status("RssAnon") - before
json.dump(dict(log_normalizer=weights.solution.log_normalizer.tolist(), grown=grown), sys.stdout)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory limits and /proc are Linux's"
)
def test_a_matrix_larger_than_the_memory_limit_is_solved_from_disk(tmp_path: Path) -> None:
    path = write_matrix(tmp_path / "omega.npy")
    limit = 100 << 20  # below the 160 MB of the matrix
    script = LIMITED.format(n=N, k=N_SOURCES, path=path, limit=limit)
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert "the limit holds" in run.stderr
    result = json.loads(run.stdout)
    theta = np.linspace(-1, 1, N_SOURCES)
    log_normalizer = np.array(result["log_normalizer"])
    # Truth: log Ω_k = θ_k²/2; standard error about 2/√(n/K).
    np.testing.assert_allclose(log_normalizer, theta**2 / 2, atol=4 * 2 / np.sqrt(N / N_SOURCES))
    assert result["grown"] < limit


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_parquet_is_read_in_row_groups(tmp_path: Path) -> None:
    problem = random_problem(0, 5000, 3, zeros=0.2)
    frame = pd.DataFrame(problem.omega, columns=["a", "b", "c"])
    frame[:3000].to_parquet(tmp_path / "part-0.parquet", row_group_size=700)
    frame[3000:].to_parquet(tmp_path / "part-1.parquet", row_group_size=700)
    whole = unskew.debias_weights(problem.omega, problem.source)
    streamed = unskew.debias_weights(tmp_path, problem.source)
    np.testing.assert_allclose(streamed.weight, whole.weight, rtol=1e-10)
    assert streamed.names == ("a", "b", "c")


def test_streams_that_collapse_are_read_twice_only() -> None:
    """Strata: after one pass that numbers the distinct rows, the blocks are never read again."""

    class Counting(Blocks):
        passes = 0

        def __iter__(self):
            type(self).passes += 1
            return super().__iter__()

    scenario = unskew.scenarios.overlapping_classes(overlap=0.2, sizes=2000, rng=0)
    weights = unskew.debias_weights(Counting(scenario.omega_estimated, 1000), scenario.source)
    np.testing.assert_allclose(np.bincount(scenario.label, weights=weights.weight), 0.1, atol=1e-10)
    assert Counting.passes <= 3  # a look at the first block to open it, one to try, one to number


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_streamed_and_whole_agree_with_groups_and_bootstrap() -> None:
    problem = random_problem(1, 600, 3, zeros=0.1)
    whole = unskew.debias_weights(problem.omega, problem.source)
    streamed = unskew.debias_weights(Blocks(problem.omega, 100), problem.source)
    values = problem.omega[:, 0]
    assert streamed.mean(values).stderr == pytest.approx(whole.mean(values).stderr, rel=1e-9)
    np.testing.assert_allclose(streamed.covariance(), whole.covariance(), rtol=1e-7)
    np.testing.assert_allclose(
        streamed.bootstrap(5, rng=0).log_normalizer,
        whole.bootstrap(5, rng=0).log_normalizer,
        atol=1e-8,
    )
