"""What dead processes left is removed; what is anybody else's stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unskew.files import leftovers
from unskew.files.atomic import write_text
from unskew.files.leftovers import (
    is_alive,
    name_owner,
    remove_leftovers,
    temporary_folder,
    unfinished_path,
)


def _dead_owner() -> str:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return name_owner().replace(f"-{os.getpid()}-", f"-{process.pid}-")


def test_names_of_unfinished_files_are_never_the_same(tmp_path: Path) -> None:
    names = {unfinished_path(tmp_path / "a.csv") for _ in range(100)}
    assert len(names) == 100
    assert {path.parent for path in names} == {tmp_path}
    assert all(path.name.startswith(".a.csv.") for path in names)


def test_only_those_of_dead_processes_go(tmp_path: Path) -> None:
    dead, elsewhere = _dead_owner(), f"ffffff-{_dead_owner().partition('-')[2]}"
    kept = [".a.csv.part", "a.csv", f".a.csv.{name_owner()}.part", f".a.csv.{elsewhere}.part"]
    gone = [f".a.csv.{dead}.part", f".a.csv.0{elsewhere[1:]}.part"]
    for name in (*kept, *gone, f".b.csv.{dead}.part"):
        (tmp_path / name).write_text("")
    month = time.time() - 30 * 24 * 3600
    os.utime(tmp_path / gone[1], (month, month))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("")
    (tmp_path / f".a.csv.{dead}.old").symlink_to(outside)
    (tmp_path / f".a.csv.{dead}.folder").mkdir()
    (tmp_path / f".a.csv.{dead}.folder" / "file").write_text("")
    remove_leftovers(tmp_path, ".a.csv.")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*kept, f".b.csv.{dead}.part", "outside"}
    assert (outside / "precious").exists()
    remove_leftovers(tmp_path / "no such folder", "")


def test_the_next_writer_of_a_file_removes_them(tmp_path: Path) -> None:
    (tmp_path / f".a.csv.{_dead_owner()}.part").write_text("half")
    write_text(tmp_path / "a.csv", "all")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_who_is_alive() -> None:
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(2**40)
    assert leftovers._machine() == name_owner()[:6]


def test_temporary_folders_of_killed_processes_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"unskew-{_dead_owner()}-x").mkdir()
    with temporary_folder() as one, temporary_folder() as other:
        assert sorted(map(str, tmp_path.iterdir())) == sorted([one, other])
