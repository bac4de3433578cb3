"""`unskew split`: its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from part_runs import PARTS, save, write_pool
from parted_pools import read_parts
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


def test_of_parts_groups_are_assigned_by_their_hash(tmp_path: Path, capsys: Captured) -> None:
    write_pool(tmp_path)
    config = save(tmp_path, "run.toml", sources=PARTS + 'group = "label"\n')
    command = ["split", str(config), "--shares", "train=0.5,test=0.5"]
    assert run_command([*command, "-o", str(tmp_path / "splits.csv"), "--quiet"]) == 2
    assert run_command([*command, "-o", str(tmp_path / "groups"), "--quiet"]) == 0
    config = save(tmp_path, "run.toml")
    assert run_command([*command, "-o", str(tmp_path / "images"), "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    table, groups = (read_parts(tmp_path / name) for name in ("images", "groups"))
    pool = read_parts(tmp_path / "pool")
    assert table["id"].tolist() == pool["id"].tolist()
    # 1,500 images: three standard deviations of a share of a half are 0.04.
    assert abs((table["split"] == "train").mean() - 0.5) < 0.04
    shown = table.groupby(["source", "split"]).size()
    assert {source: dict(row) for source, row in counts.items()} == {
        source: shown[source].to_dict() for source in counts
    }
    assert groups["split"].groupby(pool["label"]).nunique().max() == 1
    # Whatever the blocks.
    save(tmp_path, "run.toml", engine="[engine]\nsubsample = 400\nblock_rows = 70\n")
    assert run_command([*command, "-o", str(tmp_path / "again"), "--quiet"]) == 0
    assert read_parts(tmp_path / "again").equals(table)
