"""Runs over Parquet parts: in memory up to the subsample, block by block beyond it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from part_runs import KNOWN, STRATA, TILT, save, write_pool
from parted_pools import read_parts
from raising import refused
from unskew import ConfigError, DataError
from unskew.cli.app import run_command
from unskew.runs import part_run

TABLE = 'manifest = "all.parquet"\nimages = false\n'


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_up_to_the_subsample_the_files_are_those_of_a_table(tmp_path: Path) -> None:
    write_pool(tmp_path)
    of_parts = unskew.run(save(tmp_path, "parts.toml", engine=""), tmp_path / "parts")
    of_table = unskew.run(save(tmp_path, "table.toml", STRATA, TABLE, ""), tmp_path / "table")
    assert of_parts.files == of_table.files
    one, other = (
        pd.read_parquet(tmp_path / name / "weights.parquet") for name in ("parts", "table")
    )
    np.testing.assert_allclose(one["weight"], other["weight"], rtol=1e-10)
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize(
    "model",
    [STRATA, KNOWN, pytest.param(TILT, marks=pytest.mark.slow)],
    ids=["strata", "known", "tilt"],
)
def test_beyond_it_weights_and_totals_are_those_in_memory(tmp_path: Path, model: str) -> None:
    write_pool(tmp_path)
    run = unskew.run(save(tmp_path, "run.toml", model), tmp_path / "out")
    whole = unskew.run(save(tmp_path, "table.toml", model, TABLE, ""), tmp_path / "table")
    weights = read_parts(tmp_path / "out" / "weights")
    # The ridge of 1e-6 of a tilt is on features as the subsample scales them.
    np.testing.assert_allclose(weights["weight"], whole.weights.weight, rtol=1e-8)
    report, expected = (read_json(tmp_path / name / "report.json") for name in ("out", "table"))
    for row, other in zip(report["sources"], expected["sources"], strict=True):
        assert row["name"] == other["name"]
        for name in ("images", "share", "weight_share", "ess"):
            assert row[name] == pytest.approx(other[name], rel=1e-6), name
    for name in ("images", "pool", "ess", "largest_weight"):
        for row, other in zip(report["strata"], expected["strata"], strict=True):
            assert row[name] == pytest.approx(other[name], rel=1e-6), name
    for name in ("images", "ess", "design_effect", "largest_sample_weight"):
        assert report["weights"][name] == pytest.approx(expected["weights"][name], rel=1e-6)
    assert "subsample of" in report["verdict"]["sentences"][-1]
    assert "1,500 images" in report["verdict"]["sentences"][-1]
    solution = read_json(tmp_path / "out" / "solution.json")
    assert solution["ess"] == pytest.approx(whole.weights.weights.ess)
    assert sum(solution["images"]) == 1500
    with refused(DataError):
        _ = run.weights.weight


def test_a_run_in_memory_takes_the_place_of_one_in_parts(tmp_path: Path) -> None:
    unskew.run(write_pool(tmp_path), tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert (tmp_path / "out" / "weights" / "part-0.parquet").exists()
    unskew.run(save(tmp_path, "whole.toml", engine=""), tmp_path / "out", overwrite=True)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"weights.parquet", "mine.txt"} <= names
    assert not {"weights", "weights.json"} & names


def test_what_was_written_before_an_end_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = write_pool(tmp_path), tmp_path / "out"

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(part_run, "write_page_of", fails)
        with refused(DataError):
            unskew.run(path, out)
    assert {entry.name for entry in out.iterdir()} == {".weights-unfinished"}
    kept = (out / ".weights-unfinished" / "part-1.parquet").stat().st_ino
    (out / ".weights-unfinished" / "of-another-run.parquet").touch()
    unskew.run(path, out)
    assert (out / "weights" / "part-1.parquet").stat().st_ino == kept
    names = {entry.name for entry in (out / "weights").glob("*.parquet")}
    assert names == {f"part-{number}.parquet" for number in range(3)}
    assert not (out / ".weights-unfinished").exists()


def test_a_damaged_part_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_pool(tmp_path)
    part = tmp_path / "pool" / "part-1.parquet"
    part.write_bytes(part.read_bytes()[:-300])
    for command in (["weigh", str(path), "-o", str(tmp_path / "out")], ["check", str(path)]):
        assert run_command(command) == 4
        assert "part-1.parquet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_check_judges_the_subsample_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_pool(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert run_command(["check", str(path), "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert "of 1,500 images" in verdict["sentences"][-1]
    assert sorted(tmp_path.rglob("*")) == before
    # What weighing would refuse, check refuses.
    held = save(tmp_path, "held.toml", TILT.replace('"a"\n', '"a"\nholdout = 0.5\n'))
    assert run_command(["check", str(held)]) == 2
    assert "held out of parts" in capsys.readouterr().err


def test_a_model_that_is_fitted_to_the_subsample_is_verified(tmp_path: Path) -> None:
    write_pool(tmp_path)
    model = '[bias]\nfamily = "box"\nfeatures = ["z_0"]\nquantile = 0.02\n'
    path, out = save(tmp_path, "run.toml", model), tmp_path / "out"
    unskew.run(path, out)
    assert "outside their own source" in (out / "report.html").read_text()
    assert run_command(["verify", str(out)]) == 0


def test_a_target_that_is_not_identifiable_has_its_page(tmp_path: Path) -> None:
    write_pool(tmp_path)
    model = STRATA.replace("y = 0.3", "y = 0.2, z = 0.1")
    path, out = save(tmp_path, "run.toml", model), tmp_path / "out"
    assert run_command(["weigh", str(path), "-o", str(out), "--quiet"]) == 3
    names = {entry.name for entry in out.iterdir()}
    assert names == {"report.html", "report.json", "run.toml", "files.json"}


def test_what_needs_all_images_at_once_says_what_to_do(tmp_path: Path) -> None:
    path, out = write_pool(tmp_path), tmp_path / "out"
    unskew.run(path, out)
    with refused(ConfigError, key="engine.subsample"):
        unskew.evaluate_run(out, path)
    assert run_command(["export", str(out), "--to", "mixture"]) == 2
    (tmp_path / "other" / "weights").mkdir(parents=True)
    with refused(DataError, path=str(tmp_path / "other" / "weights")):
        unskew.run(path, tmp_path / "other")


@pytest.mark.slow
def test_killed_at_any_step_the_results_are_of_one_run(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[1] / "killed_writers.py"
    command = [sys.executable, str(script), "parts", str(tmp_path), "5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    outcomes = json.loads(done.stdout)
    assert len(outcomes) >= 8
    assert {outcome["of"] for outcome in outcomes} == {"old", "new"}
    assert all(outcome["again"] for outcome in outcomes)
