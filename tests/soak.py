"""Runs over Parquet parts that are killed at random, again and again: `make soak`.

    python tests/soak.py [--runs 50] [--seed 0]

Each run weighs parts by one engine (threads, processes, and Dask where it is installed). At a
random moment the driver or one of its workers is killed. The run has to end with the right weights,
or to fail in words with exit code 4 or the signal's; then it is started again, and must give them,
with every file of one run and no process left. Prints one line for each run, and how they ended.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from part_runs import KNOWN, STRATA, TILT, save, write_pool  # noqa: E402
from parted_pools import read_parts  # noqa: E402

ENGINES = {
    "threads": "workers = 2\n",
    "processes": "workers = 2\nprocesses = true\n",
    "dask": 'name = "dask"\nworkers = 2\n',
}
MODELS = {"strata": STRATA, "tilt": TILT, "known": KNOWN}
# What an ended run may say: done, damaged data, or the signal that ended it.
ALLOWED = (0, 4, 143, -signal.SIGKILL, -signal.SIGTERM)


def start(folder: Path, out: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "unskew", "weigh", "run.toml", "-o", str(out), "--quiet"]
    command += options
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src")}
    return subprocess.Popen(
        command, cwd=folder, env=environment, start_new_session=True, stderr=subprocess.PIPE
    )


def processes_of(session: int) -> list[int]:
    """List the processes of a session, its leader first; Dask's workers are among them."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


def weights(out: Path) -> np.ndarray:
    return read_parts(out / "weights")["weight"].to_numpy()


def finished(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors.decode()


def soak_one(folder: Path, engine: str, model: str, after: float, rng: random.Random) -> str:
    """Kill one run at a random moment and start it again; return how the killed one ended."""
    out = folder / "out"
    settings = "[engine]\nsubsample = 800\nblock_rows = 500\n" + ENGINES[engine]
    save(folder, "run.toml", MODELS[model], engine=settings)
    process = start(folder, out)
    time.sleep(rng.uniform(0.0, after))
    alive = processes_of(process.pid)
    if alive:
        victim = rng.choice([process.pid, rng.choice(alive)])
        number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        try:
            os.kill(victim, number)
        except ProcessLookupError:
            victim = 0
    code, errors = finished(process)
    assert code in ALLOWED, (code, errors)
    assert code != 4 or errors.startswith("unskew: "), errors
    if code:
        # It may have been killed when everything was written.
        code_again, errors = finished(start(folder, out, "--overwrite"))
        assert code_again == 0, (code_again, errors)
    verify = [sys.executable, "-m", "unskew", "verify", str(out), "--quiet"]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src")}
    done = subprocess.run(verify, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for _ in range(50):
        if not processes_of(process.pid):
            break
        time.sleep(0.2)
    assert not processes_of(process.pid), "processes are left"
    return "done" if code == 0 else "failed in words" if code == 4 else "killed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    engines = [e for e in ENGINES if e != "dask" or importlib.util.find_spec("distributed")]
    seen: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="unskew-soak-") as name:
        base = Path(name)
        write_pool(base, 6000)
        expected, seconds = {}, 0.0
        for model, text in MODELS.items():
            save(base, "run.toml", text, engine="[engine]\nsubsample = 800\n")
            begin = time.monotonic()
            assert finished(start(base, base / f"expected-{model}"))[0] == 0
            seconds = time.monotonic() - begin
            expected[model] = weights(base / f"expected-{model}")
        for run in range(options.runs):
            engine, model = rng.choice(engines), rng.choice(list(MODELS))
            folder = base / f"run-{run}"
            folder.mkdir()
            (folder / "pool").symlink_to(base / "pool")
            after = seconds * (3 if engine == "dask" else 1.5)
            ended = soak_one(folder, engine, model, after, rng)
            np.testing.assert_allclose(weights(folder / "out"), expected[model], rtol=1e-10)
            seen[engine, ended] += 1
            print(f"run {run + 1}: {engine}, {model}: {ended}, and right", flush=True)
    for (engine, ended), count in sorted(seen.items()):
        print(f"{engine}: {count} {ended}")


if __name__ == "__main__":
    main()
