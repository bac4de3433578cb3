"""`unskew export`: what goes to standard output."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from unskew.cli.app import run_command


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    (folder / "t.csv").write_text("source,label\n" + "a,x\na,y\nb,x\n" * 10)
    (folder / "run.toml").write_text(
        '[sources]\nmanifest = "t.csv"\nimages = false\n'
        "[target]\nmargins.label = { x = 0.5, y = 0.5 }\n"
        '[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    assert run_command(["weigh", str(folder / "run.toml"), "-o", str(folder / "out"), "-q"]) == 0
    return folder / "out"


def test_one_file_goes_to_standard_output(
    results: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    before = sorted(results.iterdir())
    assert run_command(["export", str(results), "--to", "csv", "-o", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode())))
    assert len(rows) == 30
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1)
    assert run_command(["export", str(results), "--to", "class-weights", "-o", "-"]) == 0
    assert "x" in json.dumps(json.loads(capfdbinary.readouterr().out))
    assert sorted(results.iterdir()) == before


def test_a_folder_does_not(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["export", str(results), "--to", "mixture", "-o", "-"]) == 2
    assert "jsonl" in capsys.readouterr().err
