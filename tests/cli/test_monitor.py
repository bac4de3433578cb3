"""The command monitor: exit codes, JSON, silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitored_run import write_monitored_run
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in ``out``, and days of new images."""
    return write_monitored_run(tmp_path_factory.mktemp("monitor"))


def test_exit_codes_and_json(solved: Path, tmp_path: Path, capsys: Captured) -> None:
    base = ["monitor", str(solved / "out")]
    one = [*base, str(solved / "day1.csv"), "--state", str(tmp_path / "s")]
    assert run_command([*one, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert run_command([*base, str(solved / "days.csv"), "--batch", "day", *one[3:], "--json"]) == 3
    record = json.loads(capsys.readouterr().out)
    assert record["drifted"]
    assert record["known"] == 50
    assert run_command([*base, str(tmp_path / "nothing.csv")]) == 2
    assert run_command([*one, "--restart"]) == 0
    assert "north" in capsys.readouterr().out
