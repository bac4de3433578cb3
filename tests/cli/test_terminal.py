"""Tables and verdicts on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from run_data import write_disagreeing_sources
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_titles_are_not_folded_by_narrow_tables(table: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(table.parent / "t.csv")]) == 0
    assert "Classes: images in all, and in each source\n" in capsys.readouterr().out


def test_one_source_is_linked_to_nothing(table: Path, capsys: Captured) -> None:
    pd.DataFrame({"source": "a", "label": ["cat", "dog"] * 20}).to_csv(
        table.parent / "t.csv", index=False
    )
    assert run_command(["check", str(table)]) == 0
    assert "sources also overlap" not in capsys.readouterr().out


def test_sources_that_disagree_are_two_lines_of_the_verdict(
    tmp_path: Path, capsys: Captured
) -> None:
    configuration = write_disagreeing_sources(tmp_path)
    weigh = ["weigh", str(configuration), "-o", str(tmp_path / "out")]
    assert run_command(weigh) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The sources disagree on share of label = well" in text
    assert "Without night the others agree" in text
    assert "quote the interval for a source like none of these" in text
    assert run_command([*weigh, "--overwrite", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {panel["verdict"] for panel in record["outcomes"]} == {"disagree"}
    assert record["outcomes"][0]["odd_source"] == "night"
