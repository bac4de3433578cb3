"""A dry run tells blocks, bytes, passes and memory, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from part_runs import STRATA, TILT, save, write_pool
from unskew.cli.app import run_command


@pytest.mark.parametrize(("model", "passes"), [(STRATA, 4), (TILT, 9)])
def test_the_plan(
    tmp_path: Path, model: str, passes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pool(tmp_path)
    path, before = save(tmp_path, "run.toml", model), sorted(tmp_path.rglob("*"))
    command = ["weigh", str(path), "-o", str(tmp_path / "out"), "--dry-run"]
    assert run_command([*command, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["images"], plan["parts"], plan["in_memory"]) == (1500, 3, False)
    assert plan["block_rows"] <= 300  # a row group that is larger than a block is cut
    assert sum(plan["passes"].values()) == passes
    size = sum(part.stat().st_size for part in (tmp_path / "pool").iterdir())
    assert 0 < plan["bytes_per_pass"] < plan["bytes_all"] < size
    assert run_command(command) == 0
    assert "Memory: about" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def test_only_parts_have_a_plan(tmp_path: Path) -> None:
    write_pool(tmp_path)
    table = 'manifest = "all.parquet"\nimages = false\n'
    path = save(tmp_path, "run.toml", sources=table, engine="")
    assert run_command(["weigh", str(path), "-o", str(tmp_path / "out"), "--dry-run"]) == 2
