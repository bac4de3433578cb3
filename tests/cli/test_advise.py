"""`unskew advise`: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from run_data import error_of
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


def test_advice_is_printed_and_written(table: Path, capsys: Captured) -> None:
    folder = table.parent / "new" / "results"
    command = ["advise", str(table), "--stderr", "0.05", "--of", "z"]
    assert run_command([*command, "--json", "-o", str(folder)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((folder / "advice.json").read_text())
    assert [goal["wanted"] for goal in record["goals"]] == [0.05]
    assert {"a", "b", "target"} <= {option["name"] for option in record["options"]}
    assert run_command(command) == 0
    best = record["options"][0]["images"]
    assert f"{best:,}" in capsys.readouterr().out
    assert run_command([*command, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_costs_and_their_mistakes(table: Path, capsys: Captured) -> None:
    command = ["advise", str(table), "--ess", "500", "--cost"]
    assert run_command([*command, "a=2.5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    mine = next(option for option in record["options"] if option["name"] == "a")
    assert mine["cost"] == 2.5 * mine["images"]
    for wrong in ("a", "=3", "a=cheap", "moon=2", "a=-1"):
        assert error_of([*command, wrong], capsys)["exit_code"] == 2


def test_a_target_without_images_ends_with_code_3(table: Path, capsys: Captured) -> None:
    text = table.read_text()
    start = text.index("[target]")
    stop = text.index("[bias]")
    margins = "[target]\nmargins.label = { cat = 0.4, dog = 0.4, owl = 0.2 }\n\n"
    table.write_text(text[:start] + margins + text[stop:])
    assert run_command(["advise", str(table), "--of", "z", "--json"]) == 3
    record = json.loads(capsys.readouterr().out)
    assert list(record["uncovered"]) == ["label = owl"]
