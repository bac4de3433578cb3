"""Errors as a user and a program meet them: text, exit codes, JSON, notes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from run_data import (
    ask_for_foxes,
    write_hospitals,
    write_picture,
)
from unskew.cli.app import run_command
from unskew.cli.error_messages import explain, remarks
from unskew.errors import DataError, UnskewWarning

Captured = pytest.CaptureFixture[str]


pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_a_reader_that_goes_away_is_no_error(table: Path) -> None:
    """`unskew check run.toml | head -1`."""
    for further in ([], ["--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "unskew", "check", str(table), *further],
            stdout=writing,
            stderr=subprocess.PIPE,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")


WRONG = {
    "no such command": (["wiegh", "--json"], 2),
    "no argument": (["check", "--json"], 2),
    "no such option": (["check", "run.toml", "--json", "--sed", "3"], 2),
    "a negative seed": (["check", "run.toml", "--json", "--seed", "-1"], 2),
    "no cores": (["check", "run.toml", "--json", "--jobs", "0"], 2),
    "no configuration": (["check", "nothing.toml", "--json"], 2),
    "no place": (["describe", "nothing", "--json"], 2),
    "an empty folder": (["describe", "empty", "--json"], 4),
    "a place that init cannot read": (["init", "empty", "--json", "-o", "new.toml"], 4),
    "a configuration that is there": (["init", "t.csv", "--json", "-o", "run.toml"], 2),
    "no results": (["verify", "nothing", "--json"], 4),
    "no page": (["report", "nothing", "--json"], 4),
    "nothing to export": (["export", "nothing", "--to", "csv", "--json"], 4),
    "no such format": (["export", "nothing", "--to", "xls", "--json"], 2),
    "no shares": (["split", "run.toml", "--shares", "train", "--json"], 2),
    "not identifiable": (["check", "uncovered.toml", "--json"], 3),
    "a demo in a folder of others": (["demo", "-o", ".", "--json"], 2),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_goes_wrong_is_json_too(
    case: str, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(table.parent)
    (table.parent / "empty").mkdir()
    uncovered = table.with_name("uncovered.toml")
    uncovered.write_text(table.read_text())
    ask_for_foxes(uncovered)
    arguments, code = WRONG[case]
    assert run_command(arguments) == code
    shown = capsys.readouterr()
    record = json.loads(shown.out)
    assert "Traceback" not in shown.err
    if code != 3:
        assert record["error"]["exit_code"] == code
        assert len(record["error"]["message"]) > 10


def test_every_mistake_of_a_configuration_is_in_the_json(table: Path, capsys: Captured) -> None:
    table.write_text(table.read_text().replace("images", "imges").replace("family", "famly"))
    assert run_command(["check", str(table), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert {each["line"] for each in problems} >= {3}
    assert {each["key"] for each in problems} >= {"sources.imges", "bias.famly"}


def test_a_bug_and_a_stop_are_json_too(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for error, code in (
        (ZeroDivisionError("a bug"), 1),
        (KeyboardInterrupt(), 130),
        (MemoryError(), 4),
        (OSError(28, "No space left"), 4),
    ):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("unskew.runs.pipeline.weigh_checked_splits", fail)
        assert run_command(["check", str(table), "--json"]) == code
        assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code


def test_what_the_library_logs_is_a_note_and_quiet_is_quiet(
    tmp_path: Path, capsys: Captured
) -> None:
    rng = np.random.default_rng(0)
    for at in range(4):
        write_picture(
            tmp_path / "photos" / ("cat" if at else "") / f"p{at}.png",
            rng.uniform(40, 220, 3),
            rng,
            side=8,
        )
    assert run_command(["describe", str(tmp_path / "photos"), "--quick"]) == 0
    assert capsys.readouterr().err.startswith("note: ")
    assert run_command(["describe", str(tmp_path / "photos"), "--quick", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not logging.getLogger("unskew").handlers


def test_names_with_escape_sequences_are_shown_not_obeyed(tmp_path: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(tmp_path / "\x1b[31mred")]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    configuration = write_hospitals(tmp_path)

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unskew.runs.pipeline.weigh_checked_splits", stopped)
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 130
    assert "run the same command again" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


def test_a_bug_of_ours_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    configuration = write_hospitals(tmp_path)

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("unskew.runs.pipeline.weigh_checked_splits", broken)
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out")]) == 1
    assert "bug in unskew" in capsys.readouterr().err


def test_the_json_of_an_error_carries_its_facts(table: Path, capsys: Captured) -> None:
    table.write_text(table.read_text() + '\n[report]\noutcomes = ["age"]\n')
    assert run_command(["check", str(table), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "ConfigError"
    assert error["facts"] == {"key": "report.outcomes", "column": "age"}
    out = str(table.parent / "t.csv")
    assert run_command(["weigh", str(table), "-o", out, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["facts"] == {"path": out}


def test_facts_that_are_no_json_are_made_plain(capsys: Captured) -> None:
    error = DataError("3 rows", count=np.int64(3), value=np.nan, ids=("a", "b"))
    assert explain(error, as_json=True) == 4
    record = json.loads(capsys.readouterr().out)["error"]
    assert record == {
        "kind": "DataError",
        "message": "3 rows",
        "exit_code": 4,
        "page": "reference/errors.md#unskew.DataError",
        "facts": {"count": 3, "value": None, "ids": ["a", "b"]},
    }


def test_warnings_name_settings_not_functions(capsys: pytest.CaptureFixture[str]) -> None:
    words = "Multiply by Strata(['age']) in a Product, or call calibrate_weights afterwards."
    with remarks(quiet=False):
        warnings.simplefilter("always")
        warnings.warn(words, UnskewWarning, stacklevel=1)
    shown = " ".join(capsys.readouterr().err.split())
    assert "family = \"strata\", by = ['age']" in shown
    assert "calibrate_weights" not in shown


def test_an_error_names_the_section_of_the_docs_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none.toml")
    assert run_command(["check", missing, "--json"]) != 0
    output = capsys.readouterr()
    error = json.loads(output.out)["error"]
    page, _, name = error["page"].partition("#")
    assert name == f"unskew.{error['kind']}"
    assert f"docs/{error['page']}" in output.err
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    assert f"::: {name}\n" in text
