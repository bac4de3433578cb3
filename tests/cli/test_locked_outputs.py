"""Every command that writes takes its lock before it reads what takes long."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from unskew.cli.app import run_command
from unskew.files import locks
from unskew.files.locks import folder_locked, path_locked

# With inputs that none of them can read: "t.csv" is no table, and "results" is empty.
COMMANDS = [
    "weigh run.toml -o F",
    "forecast run.toml -o F",
    "rehearse run.toml -o F",
    "advise run.toml --ess 0.5 -o F",
    "train run.toml -o F",
    "evaluate results --predictions t.csv -o F",
    "evaluate results --pairs t.csv -o F",
    "evaluate results t.csv --save P",
    "choose run.toml -o P",
    "split run.toml -o P",
    "init t.csv -o P",
    "simulate censored t.csv --hidden cat -o P",
    "compare results results -o P",
    "export results --to csv -o P",
    "export results --to mixture -o P",
    "demo -o P",
]


@pytest.fixture
def unreadable(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    Path("t.csv").write_bytes(b"\x00\xff")
    Path("results").mkdir()


@pytest.fixture
def taken(unreadable: None) -> Iterator[None]:
    """The folder F and the path P are being written by another thread."""
    with ThreadPoolExecutor(1) as other, ExitStack() as held:
        for lock in (folder_locked("F"), path_locked("P")):
            other.submit(held.enter_context, lock).result()
        yield
        other.submit(held.close).result()


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_second_writer_is_refused_before_it_reads(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(command.split()) == 4
    assert f"written by process {os.getpid()} on" in capsys.readouterr().err


@pytest.mark.usefixtures("unreadable")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_place_is_refused_before_anything_is_read(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some told it after hours of work."""
    before = sorted(Path().rglob("*"))

    def refuse(file: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(file))

    monkeypatch.setattr(locks, "_open", refuse)
    assert run_command(command.split()) == 4
    assert f"nothing can be written into '{Path().resolve()}" in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before
