"""The output folder of a run: nothing lost, nothing mixed, nothing half-written."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from run_data import (
    TABLE_SOURCES,
    TABLE_STRATA,
    ask_for_foxes,
    error_of,
    init_vendors,
    weigh,
    write_hospitals,
    write_photos,
)
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_results_never_replace_the_configuration(table: Path, capsys: Captured) -> None:
    before = table.read_text()
    error = error_of(["weigh", str(table), "-o", str(table.parent), "--overwrite"], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"path": str(table)})
    assert "-o" in error["message"]
    assert table.read_text() == before
    other = table.with_name("other.toml")
    other.write_text(before)
    assert run_command(["weigh", str(other), "-o", str(table.parent)]) == 2
    assert table.read_text() == before


def test_a_refusal_leaves_no_weights_of_another_run(table: Path) -> None:
    out = weigh(table)
    (out / "notes.txt").write_text("mine")
    ask_for_foxes(table)
    assert run_command(["weigh", str(table), "-o", str(out), "--overwrite", "--quiet"]) == 3
    assert sorted(each.name for each in out.iterdir()) == [
        "files.json",
        "notes.txt",
        "report.html",
        "report.json",
        "run.toml",
    ]
    assert run_command(["verify", str(out), "--quiet"]) == 0
    table.write_text(TABLE_SOURCES + TABLE_STRATA)
    assert run_command(["weigh", str(table), "-o", str(out), "--quiet"]) == 0


def test_a_run_that_was_stopped_while_writing_can_be_repeated(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = weigh(table)
    before = {each.name: each.read_bytes() for each in out.iterdir()}

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("unskew.runs.output.write_summary", stopped)
        assert (
            run_command(["weigh", str(table), "-o", str(out), "--overwrite", "--seed", "3"]) == 130
        )
        assert {each.name: each.read_bytes() for each in out.iterdir()} == before
        command = ["weigh", str(table), "-o", str(table.parent / "new"), "--quiet"]
        assert run_command(command) == 130
        assert not (table.parent / "new").exists()
    assert run_command(command) == 0


def test_images_that_stop_a_run_are_listed(tmp_path: Path, capsys: Captured) -> None:
    photos = write_photos(tmp_path)
    (photos / "cat" / "p1.png").write_text("no picture")
    assert run_command(["init", str(photos), "-o", str(tmp_path / "run.toml"), "--quiet"]) == 0
    command = ["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"]
    assert run_command(command) == 4
    assert "unreadable.csv" in capsys.readouterr().err
    assert pd.read_csv(tmp_path / "out" / "unreadable.csv")["id"].tolist() == ["photos/cat/p1.png"]
    (photos / "cat" / "p1.png").unlink()
    assert run_command(command) == 0
    assert not (tmp_path / "out" / "unreadable.csv").exists()


def test_a_path_through_a_file_is_refused(table: Path, capsys: Captured) -> None:
    file = table.parent / "t.csv"
    error = error_of(["weigh", str(table), "-o", str(file / "out")], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"path": str(file)})


def test_results_of_another_run_are_not_overwritten_unasked(
    vendors: Path, tmp_path: Path, capsys: Captured
) -> None:
    configuration = init_vendors(vendors, tmp_path)
    command = ["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]
    assert run_command(command) == 0
    assert run_command(command) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run_command([*command, "--overwrite"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused_before_the_work(tmp_path: Path, capsys: Captured) -> None:
    configuration = write_hospitals(tmp_path)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert run_command(["weigh", str(configuration), "-o", str(closed / "out")]) == 4
    assert "read-only" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full acts as a full disk")
def test_a_full_disk_is_an_error_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    configuration = write_hospitals(tmp_path)

    def full(*_: object, **__: object) -> None:
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)

    monkeypatch.setattr("unskew.runs.output.write_frame", full)
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 4
    shown = capsys.readouterr().err
    assert "No space left" in shown
    assert "Traceback" not in shown
