"""Processes take over where much is left to do: the same values, and a clear end whatever
happens.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unskew
from raising import refused
from represent.picture_pools import encoded, pool_of, random_pixels
from unskew.errors import DataError
from unskew.records import Pool
from unskew.represent import workers as processes
from unskew.represent import workers as running
from unskew.represent.image_tasks import Worker
from unskew.represent.pool_features import represent_images
from unskew.represent.user_functions import read_representations
from unskew.represent.workers import Processes, can_use_processes, result_of

FEATURES = ("border_hsv", "mean_hsv", "size", "exif")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 images, two of them broken."""
    (tmp_path / "camera").mkdir()
    for at in range(200):
        (tmp_path / "camera" / f"{at:03}.png").write_bytes(
            encoded(random_pixels(12, 16 + at % 3, at))
        )
    for at in (7, 150):
        (tmp_path / "camera" / f"{at:03}.png").write_bytes(b"no image")
    return tmp_path / "camera"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are started after the first result, however little is left."""
    monkeypatch.setattr(running, "_WORTH_PROCESSES", -1.0)
    monkeypatch.setattr(running, "_ROWS_PER_TASK", 8)


def read(folder: Path) -> Pool:
    return unskew.Pool.from_folders({"camera": folder})


@pytest.mark.usefixtures("at_once")
def test_processes_find_what_one_thread_finds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the working directory, where a stranger's files may be, they import nothing.
    (folder.parent / "joblib.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(folder.parent)
    tasks: list[int] = []
    submit = Processes.submit
    monkeypatch.setattr(
        Processes, "submit", lambda self, rows: (tasks.append(len(rows)), submit(self, rows))[1]
    )
    by_processes = represent_images(
        read(folder), FEATURES, jobs=2, content=True, tolerance=0.5, cache=folder.parent / "two"
    )
    assert sum(tasks) >= 8
    by_thread = represent_images(read(folder), FEATURES, jobs=1, content=True, tolerance=0.5)
    assert by_processes.frame.equals(by_thread.frame)
    assert by_processes.set_aside is not None
    assert by_processes.set_aside.equals(by_thread.set_aside)
    # All of it went into the cache: nothing is computed again.
    monkeypatch.setattr(Worker, "compute", lambda *_: pytest.fail("computed again"))
    again = represent_images(
        read(folder), FEATURES, jobs=1, content=True, tolerance=0.5, cache=folder.parent / "two"
    )
    assert again.frame.equals(by_thread.frame)


def test_a_process_that_dies_is_an_error_with_a_way_out(folder: Path) -> None:
    worker = Worker(read(folder).images, read_representations(FEATURES), None, None)  # type: ignore[arg-type]
    crew = Processes(worker, 1)
    try:
        assert result_of(crew.submit([0, 1])).n_rows == 2
        future = crew._executor.submit(os._exit, 3)
        with refused(DataError, option="jobs") as caught:
            result_of(future)
        assert "--jobs 1" in str(caught.value)
    finally:
        crew.end()


def test_only_files_and_representations_that_other_processes_know(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read(folder).images
    assert files is not None

    def usable(images: object, *features: object, jobs: int = 2) -> bool:
        return can_use_processes(Worker(images, read_representations(features), None, None), jobs)  # type: ignore[arg-type]

    assert usable(files, "border_hsv", "noise")
    assert usable(files.take(np.arange(5)), "exif")
    assert not usable(files, "border_hsv", jobs=1)
    assert not usable(files, lambda batch: batch.mean(axis=(1, 2, 3)))
    assert not usable(
        pool_of([folder / "001.png"]).images, "border_hsv"
    )  # its class belongs to these tests
    assert not usable(
        unskew.Pool.from_arrays(source=["a"] * 3).images or pool_of(random_pixels(n=3)).images,
        "border_hsv",
    )
    monkeypatch.setattr("multiprocessing.process._current_process._config", {"daemon": True})
    assert not usable(files, "border_hsv")


SCRIPT = """
import signal
import sys
import unskew
from unskew.represent import workers as running

# a shell starts background jobs without it
signal.signal(signal.SIGINT, signal.default_int_handler)
running._WORTH_PROCESSES, running._ROWS_PER_TASK = -1.0, 8
pool = unskew.Pool.from_folders({"camera": sys.argv[1]})
print("begun", flush=True)
try:
    represented = unskew.represent_images(pool, "border_hsv", jobs=2, tolerance=0.5)
    print(len(represented), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_script_needs_no_main_guard(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("begun\n198\n", "")


def test_ctrl_c_ends_the_processes(folder: Path, tmp_path: Path) -> None:
    slow = SCRIPT.replace(
        'print("begun"',
        """
work = unskew.represent.workers._work
def wait(place, rows):
    import time
    print("under way", flush=True)
    time.sleep(60)
unskew.represent.workers._work = wait
print("begun\"""",
    )
    (tmp_path / "script.py").write_text(slow)
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    while run.stdout.readline() != "under way\n":
        assert run.poll() is None
    os.killpg(run.pid, signal.SIGINT)
    output, errors = run.communicate(timeout=60)
    assert "interrupted" in output
    assert "Traceback" not in errors
    assert not processes._WORKERS
