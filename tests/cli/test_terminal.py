"""Tables and verdicts on a terminal."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

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
    assert "linked to one another" not in capsys.readouterr().out
