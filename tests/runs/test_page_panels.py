"""forecast.json and rehearsal.json of the same inputs are on the page of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from run_data import write_table_run
from unskew.cli.app import run_command

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_a_rehearsal_joins_the_page_of_its_run_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table_run(tmp_path)
    folder = tmp_path / "results"
    page = folder / "report.html"
    assert run_command(["rehearse", str(table), "-o", str(folder)]) == 0
    assert not page.exists()
    assert run_command(["weigh", str(table), "-o", str(folder)]) == 0
    assert 'id="rehearsal"' in page.read_text()
    page.unlink()
    assert run_command(["report", str(folder), "--force"]) == 0
    assert 'id="rehearsal"' in page.read_text()
    capsys.readouterr()
    assert run_command(["verify", str(folder), "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert any(check["claim"] == "report.json: rehearsal" and check["ok"] for check in checks)
    assert run_command(["weigh", str(table), "-o", str(folder), "--seed", "5", "--overwrite"]) == 0
    assert 'id="rehearsal"' not in page.read_text()
    assert run_command(["rehearse", str(table), "-o", str(folder), "--seed", "5"]) == 0
    assert 'id="rehearsal"' in page.read_text()
