"""One writer at a time: the second is told who the first is, and a dead one keeps nobody out."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from raising import refused
from unskew.errors import DataError, LockedError
from unskew.files import locks
from unskew.files.atomic import written_together
from unskew.files.locks import LOCK, folder_locked, path_locked

HOLDER = """
import sys, time
from unskew.files.locks import folder_locked

with folder_locked(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(600)
"""


def _in_a_thread(work: Callable[[], None]) -> BaseException | None:
    """What another thread of this process gets, which is another writer, too."""
    errors: list[BaseException | None] = [None]

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors[0] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors[0]


def _enter(out: Path) -> None:
    with folder_locked(out):
        pass


def _owner(**changes: object) -> str:
    mine = {"pid": os.getpid(), "host": socket.gethostname(), "since": "2026-01-02 03:04:05 UTC"}
    return json.dumps(mine | changes)


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def without_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that has none."""
    monkeypatch.setattr(locks, "_lock", lambda handle: None)
    monkeypatch.setattr(locks, "_PAUSE", 0.001)


def test_another_process_is_named_and_its_death_frees_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(out)], stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    with first.stdout:
        assert first.stdout.readline() == "locked\n"
    with refused(LockedError, path=str(out), pid=first.pid, host=socket.gethostname()) as caught:
        _enter(out)
    assert str(caught.value.facts["since"]).endswith("UTC")
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert (out / LOCK).exists()
    _enter(out)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("flock", [True, False])
def test_another_thread_waits_its_turn_and_the_same_one_may_enter_again(
    tmp_path: Path, flock: bool, request: pytest.FixtureRequest
) -> None:
    if not flock:
        request.getfixturevalue("without_flock")
    out = tmp_path / "out"
    with folder_locked(out):
        with folder_locked(out):
            assert isinstance(_in_a_thread(lambda: _enter(out)), LockedError)
        error = _in_a_thread(lambda: _enter(out))
        assert isinstance(error, LockedError)
        assert error.facts["pid"] == os.getpid()
    assert not out.exists()
    assert _in_a_thread(lambda: _enter(out)) is None


def test_what_a_second_writer_does_never_reaches_the_folder_of_the_first(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def write() -> None:
        with written_together(out, "a") as folder:
            (folder / "a").write_text("second")

    with written_together(out, "a") as folder:
        (folder / "a").write_text("first")
        assert isinstance(_in_a_thread(write), LockedError)
    assert (out / "a").read_text() == "first"
    write()
    assert (out / "a").read_text() == "second"


def test_a_file_is_locked_by_a_file_of_its_own(tmp_path: Path) -> None:
    def enter(name: str) -> None:
        with path_locked(tmp_path / name):
            pass

    with path_locked(tmp_path / "a.csv"):
        assert isinstance(_in_a_thread(lambda: enter("a.csv")), LockedError)
        assert _in_a_thread(lambda: enter("b.csv")) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_flock")
def test_without_flock_the_name_in_the_file_decides(tmp_path: Path, dead: int) -> None:
    lock = tmp_path / LOCK
    for stale in (_owner(pid=dead), "", '{"pid": 1'):
        lock.write_text(stale)
        _enter(tmp_path)
        assert not lock.exists()
    for alive in ({"pid": os.getpid()}, {"pid": dead, "host": "elsewhere"}):
        lock.write_text(_owner(**alive))
        with refused(LockedError, **alive):
            _enter(tmp_path)
        assert lock.exists()


def test_a_folder_that_cannot_be_written_is_the_business_of_its_writer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        _enter(out)
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("kind", ["link", "second name", "pipe"])
def test_a_lock_that_is_a_link_or_a_pipe_is_refused(kind: str, tmp_path: Path) -> None:
    """What a stranger's link leads to was overwritten with the name of this process."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    out = tmp_path / "results"
    out.mkdir()
    lock = out / LOCK
    if kind == "second name":
        lock.hardlink_to(precious)
    else:
        lock.symlink_to(precious) if kind == "link" else os.mkfifo(lock)
    with refused(DataError, path=str(lock)):
        _enter(out)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("content", ["[" * 4096, '{"pid": Infinity, "host": "x", "since": ""}'])
def test_an_odd_lock_file_names_nobody_and_is_taken_over(content: str, tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text(content)
    _enter(tmp_path)
    assert not (tmp_path / LOCK).exists()
