"""`unskew simulate`: what is drawn is written, printed, and compared with the truth."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from run_data import error_of
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_sources_have_the_sizes_asked_for_and_known_normalizers(
    vendors: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "my out"
    command = ["simulate", "overlapping-classes", str(vendors / "north"), "-o", str(out)]
    command += ["--sources", "2", "--overlap", "0.25", "--sizes", "40,20", "--seed", "3"]
    assert run_command([*command, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["scenario"] == "overlapping-classes"
    assert [each["images"] for each in record["sources"].values()] == [40, 20]
    assert all(each["normalizer"] > 0 for each in record["sources"].values())
    assert {"run.toml", "truth.parquet"} <= {Path(name).name for name in record["files"]}
    assert {path.name for path in out.iterdir()} >= {Path(name).name for name in record["files"]}
    # The same seed draws the same images.
    again = [str(tmp_path / "again") if word == str(out) else word for word in command]
    assert run_command([*again, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    name = "truth.parquet"
    pd.testing.assert_frame_equal(
        pd.read_parquet(out / name), pd.read_parquet(tmp_path / "again" / name)
    )


def test_nothing_is_replaced(vendors: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = ["simulate", "censored", str(vendors / "north"), "--hidden", "bag"]
    error = error_of([*command, "-o", str(tmp_path)], capsys)
    assert error["exit_code"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_hidden_label_is_hidden_and_the_run_is_compared_with_the_truth(
    vendors: Path, tmp_path: Path, capsys: Captured
) -> None:
    out, results = str(tmp_path / "out"), str(tmp_path / "out" / "results")
    command = ["simulate", "censored", str(vendors / "north"), "-o", out]
    assert run_command([*command, "--hidden", "bag", "--sizes", "40,20"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Next: unskew weigh {out}/run.toml -o {results}" in shown
    assert f"Then: unskew simulate compare {out} {results}" in shown
    assert run_command(["weigh", f"{out}/run.toml", "-o", results, "--quiet"]) == 0
    assert run_command(["simulate", "compare", out, results, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["true"]["weight_distance"] == 0.0
    assert record["debiased"]["weight_distance"] <= record["naive"]["weight_distance"]


def test_sizes_that_are_no_numbers_and_labels_that_nobody_has(
    vendors: Path, tmp_path: Path, capsys: Captured
) -> None:
    command = ["simulate", "censored", str(vendors / "north"), "-o", str(tmp_path / "out")]
    assert error_of([*command, "--hidden", "bag", "--sizes", "many"], capsys)["exit_code"] == 2
    error = error_of([*command, "--hidden", "hat"], capsys)
    assert error["exit_code"] == 2
    assert "hat" in error["message"]
    assert error_of(command, capsys)["exit_code"] == 2
    assert not (tmp_path / "out").exists()
