"""`unskew split`: its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from run_data import error_of
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


def test_splitting_what_is_split(table: Path, capsys: Captured) -> None:
    splits = table.parent / "splits.csv"
    assert (
        run_command(
            ["split", str(table), "-o", str(splits), "--shares", "train=0.6,test=0.4", "--json"]
        )
        == 0
    )
    assert list(json.loads(capsys.readouterr().out)["a"]) == ["train", "test"]
    table.write_text(table.read_text().replace("images", 'split = { file = "splits.csv" }\nimages'))
    error = error_of(["split", str(table), "-o", str(table.parent / "again.csv")], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"levels": ["test", "train"]})
    assert "[sources]" in error["message"]
    assert "overwrite=True" not in error["message"]


def test_a_split_has_one_share(table: Path, capsys: Captured) -> None:
    error = error_of(["split", str(table), "--shares", "train=0.5,train=0.5"], capsys)
    assert (error["exit_code"], error["facts"]["level"]) == (2, "train")
