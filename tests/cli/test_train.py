"""`unskew train`: options that do not go together, refusals, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from run_data import ask_for_foxes, error_of
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")

PROBE = ["--preset", "probe", "--replicates", "20"]


def _train(configuration: Path, *options: str) -> list[str]:
    return ["train", str(configuration), "-o", str(configuration.parent / "out"), *PROBE, *options]


def test_weights_of_a_table_go_with_no_arm(table: Path, capsys: Captured) -> None:
    weights = str(table.parent / "weights.csv")
    error = error_of(_train(table, "--weights", weights, "--arm", "naive"), capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"option": "--weights"})
    assert not (table.parent / "out").exists()


def test_options_replace_the_settings_of_the_file(table: Path, capsys: Captured) -> None:
    error = error_of(_train(table, "--preset", "quick"), capsys)
    assert error["exit_code"] == 2
    assert "preset" in error["message"]
    error = error_of(_train(table, "--way", "head"), capsys)
    assert (error["exit_code"], error["facts"]["value"]) == (2, "head")
    error = error_of(_train(table, "--way", "halv"), capsys)
    assert error["exit_code"] == 2
    assert "way" in error["message"]
    error = error_of(_train(table, "--arm", "naif"), capsys)
    assert error["exit_code"] == 2
    assert "naif" in error["message"]


def test_a_target_that_nobody_saw_is_not_trained_for(table: Path, capsys: Captured) -> None:
    pytest.importorskip("torch", reason="training: pip install 'unskew[torch]'")
    ask_for_foxes(table)
    assert run_command(_train(table)) == 3
    assert "fox" in capsys.readouterr().out
    assert run_command(_train(table, "--force", "--json")) == 3
    assert json.loads(capsys.readouterr().out)["level"] == "no"
    assert not list((table.parent / "out").glob("*model*"))


def test_what_is_printed_for_people_machines_and_nobody(table: Path, capsys: Captured) -> None:
    pytest.importorskip("torch", reason="training: pip install 'unskew[torch]'")
    assert run_command(_train(table, "--arm", "debiased", "--arm", "naive", "--json")) == 0
    record = json.loads(capsys.readouterr().out)
    out = table.parent / "out"
    assert (record["arm"], list(record["arms"])) == ("debiased", ["debiased", "naive"])
    assert record["arms"]["debiased"]["overall"] == record["overall"]
    assert record["folder"] == str(out)
    assert {"model-card.md", "metrics.json"} <= set(record["files"])
    assert (record["way"]["way"], record["arms"]["naive"]["way"]["way"]) == ("half", "weights")
    assert "| way | half" in (out / "model-card.md").read_text()
    written = json.loads((out / "metrics.json").read_text())
    assert written["arms"] == record["arms"]
    # What is there is not thrown away unasked.
    assert run_command(_train(table)) == 2
    capsys.readouterr()
    assert run_command(_train(table, "--force", "--quiet")) == 0
    assert capsys.readouterr().out == ""
