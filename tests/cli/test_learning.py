"""`unskew forecast` and `unskew rehearse`: what they print and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from run_data import error_of, init_vendors
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_forecast_and_rehearsal(vendors: Path, tmp_path: Path, capsys: Captured) -> None:
    configuration = init_vendors(vendors, tmp_path)
    capsys.readouterr()
    assert run_command(["forecast", str(configuration), "--json", "-o", str(tmp_path / "out")]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "out" / "forecast.json").read_text())
    assert run_command(["rehearse", str(configuration)]) == 0
    shown = capsys.readouterr().out
    assert "north" in shown
    assert "south" in shown


def test_arms_are_named_with_commas_and_blanks(table: Path, capsys: Captured) -> None:
    command = ["forecast", str(table), "--arms", " class_balanced , naive,", "--json"]
    assert run_command(command) == 0
    record = json.loads(capsys.readouterr().out)
    ways = ["weights", "half", "logit"]
    names = [arm["name"] for arm in record["arms"]]
    assert names == ["naive", "debiased", *ways, "class_balanced"]
    assert record["choice"]["way"] in ways
    error = error_of(["forecast", str(table), "--arms", "naif"], capsys)
    assert error["exit_code"] == 2
    assert error["facts"]["value"] == "naif"


def test_a_way_is_asked_for_by_name(table: Path, capsys: Captured) -> None:
    assert run_command(["forecast", str(table), "--way", "logit", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [arm["name"] for arm in record["arms"]] == ["naive", "debiased"]
    assert record["choice"]["way"] == record["arms"][1]["way"] == record["asked_way"] == "logit"
    for way in ("head", "halve"):
        error = error_of(["forecast", str(table), "--way", way], capsys)
        assert error["exit_code"] == 2
        assert error["facts"]["value"] == way


def test_a_rehearsal_is_written_as_it_is_printed(table: Path, capsys: Captured) -> None:
    folder = table.parent / "new" / "results"
    assert run_command(["rehearse", str(table), "-o", str(folder), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((folder / "rehearsal.json").read_text())
    assert [source["source"] for source in record["sources"]] == ["a", "b"]
    assert run_command(["rehearse", str(table), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
