"""The output folder of a run: nothing lost, nothing mixed, nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
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
from unskew.files.locks import folder_locked

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
    assert run_command(["init", str(photos), "-o", str(tmp_path / "run.toml"), "--quiet"]) == 0
    # Broken since: init tolerates what is broken when it looks.
    (photos / "cat" / "p1.png").write_text("no picture")
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
    assert "--overwrite" in (error := capsys.readouterr().err)
    assert "this very configuration" in error
    text = configuration.read_text()
    configuration.write_text(text.replace("seed = 0 ", "seed = 1 "))
    assert run_command(command) == 2
    assert "[engine]" in capsys.readouterr().err
    configuration.write_text(text)
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


def _results(out: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in out.iterdir()}


def test_a_second_run_into_the_folder_is_refused_while_the_first_is_writing(
    table: Path, tmp_path: Path
) -> None:
    out, codes = tmp_path / "out", []

    def run(name: str) -> None:
        codes.append(run_command([name, str(table), "-o", str(out)]))

    with folder_locked(out):
        for name in ("weigh", "train"):
            thread = threading.Thread(target=run, args=(name,))
            thread.start()
            thread.join()
    assert codes == [4, 4]
    assert not out.exists()


def test_files_of_two_runs_are_refused_by_every_reader(table: Path, tmp_path: Path) -> None:
    """As a copy that was cut short, or a change by hand, leaves them."""
    out = weigh(table)
    (tmp_path / "preds.csv").write_text("id,prediction\n")
    before = _results(out)
    commands = {
        "report.json": ["report", str(out)],
        "run.toml": ["export", str(out), "--to", "csv"],
        "weights.parquet": ["export", str(out), "--to", "jsonl"],
        "memberships.parquet": ["evaluate", str(out), "-p", str(tmp_path / "preds.csv")],
    }
    for name, command in commands.items():
        (out / name).write_bytes(before[name] + b"\n")
        assert run_command([*command, "--json"]) == 4
        assert run_command(["verify", str(out), "--quiet"]) == 4
        (out / name).write_bytes(before[name])
    assert _results(out) == before
    (out / "report.json").write_bytes(before["report.json"] + b"\n")
    assert run_command(["report", str(out), "--force"]) == 0
    assert run_command(["report", str(out)]) == 0
    assert _results(out) == before


def _killed_at(folder: Path, every: int) -> list[dict[str, Any]]:
    script = Path(__file__).resolve().parents[1] / "killed_writers.py"
    done = subprocess.run(
        [sys.executable, str(script), "run", str(folder), str(every)],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    return outcomes


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_the_results_are_of_one_run(tmp_path: Path, every: int) -> None:
    outcomes = _killed_at(tmp_path, every)
    assert len(outcomes) >= 36 // every
    assert {outcome["of"] for outcome in outcomes} == {"old", "new"}
    assert all(outcome["again"] for outcome in outcomes)


@pytest.mark.slow
def test_killed_at_random_moments_and_two_at_a_time(table: Path, tmp_path: Path) -> None:
    """Whatever happened, the next run exits 0 with the bytes of an undisturbed one."""
    out, alone = tmp_path / "out", weigh(table, "alone")
    expected, rng = _results(alone), np.random.default_rng(0)
    command = [sys.executable, "-m", "unskew", "weigh", str(table), "-o", str(out), "--overwrite"]
    for _ in range(10):
        runs = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
        time.sleep(rng.uniform(0.0, 4.0))
        runs[0].kill()
        assert [run.wait() for run in runs][1] in (0, 4)
        assert run_command([*command[3:], "--quiet"]) == 0
        assert _results(out) == expected
