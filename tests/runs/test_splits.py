"""`unskew split`: its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert run_command(["split", str(table), "-o", str(table.parent / "again.csv")]) == 2
    shown = capsys.readouterr().err
    assert "[sources]" in shown
    assert "overwrite=True" not in shown


def test_a_split_has_one_share(table: Path, capsys: Captured) -> None:
    assert run_command(["split", str(table), "--shares", "train=0.5,train=0.5"]) == 2
    assert "'train' has two shares" in capsys.readouterr().err
