"""Processes end when the one that started them does, also where it is killed, and leave nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from represent.picture_pools import encoded, random_pixels
from unskew.engine.parent_watch import call_watched, children_ended, end_with_parent

# A run whose processes never come to an end by themselves; they print their numbers.
SCRIPT = """
import os, sys, time
import unskew
from unskew.represent import workers

def wait(place, rows):
    print(os.getpid(), flush=True)
    time.sleep(600)

workers._WORTH_PROCESSES, workers._ROWS_PER_TASK, workers._work = -1.0, 4, wait
pool = unskew.Pool.from_folders({"camera": sys.argv[1]})
unskew.represent_images(pool, "border_hsv", jobs=2)
"""


def _wait_until_dead(pid: int, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            return
        assert time.monotonic() < until, f"process {pid} is still there"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_no_process_and_no_folder_is_left_by_a_run_that_is_killed(tmp_path: Path) -> None:
    images, temporary = tmp_path / "camera", tmp_path / "tmp"
    images.mkdir()
    temporary.mkdir()
    for at in range(40):
        (images / f"{at}.png").write_bytes(encoded(random_pixels(12, 16, at)))
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(images)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    assert run.stdout is not None
    worker = int(run.stdout.readline())
    assert list(temporary.glob("unskew-*"))
    run.send_signal(signal.SIGKILL)
    run.wait()
    _wait_until_dead(worker)
    assert not list(temporary.glob("unskew-*"))
    run.stdout.close()


def test_children_end_with_the_block_that_failed_and_no_others() -> None:
    def wait() -> multiprocessing.process.BaseProcess:
        child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
        child.start()
        return child

    others = wait()
    started = []

    def stop() -> None:
        with children_ended():
            started.append(wait())
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            stop()
        started[0].join(timeout=20)
        assert started[0].exitcode == -signal.SIGKILL
        assert others.is_alive()
    finally:
        others.kill()
        others.join()


def test_in_the_process_itself_nothing_happens() -> None:
    end_with_parent(os.getpid())
    # Another machine's worker has another parent: it must live.
    assert call_watched(os.getpid() + 1, max, 1, 2) == 2
    time.sleep(0.6)
