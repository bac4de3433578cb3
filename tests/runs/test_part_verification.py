"""Weights in parts: verified part by part, and exported as they are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import unskew
from part_runs import KNOWN, save, write_pool
from parted_pools import read_parts
from unskew.cli.app import run_command


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over parts in ``out``, for reading only."""
    folder = tmp_path_factory.mktemp("parts")
    write_pool(folder)
    unskew.run(save(folder, "run.toml", KNOWN), folder / "out")
    return folder


@pytest.fixture
def copied(solved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(solved, tmp_path / "copy"))


def wrong(out: Path) -> dict[str, str]:
    return {one.claim: one.found for one in unskew.verify_run(out) if not one.ok}


def test_a_run_is_what_it_claims_to_be(solved: Path) -> None:
    assert wrong(solved / "out") == {}


def test_weights_that_were_changed_with_their_checksums_are_found(copied: Path) -> None:
    from unskew.files.fingerprints import fingerprint_file

    part, listed = (copied / "out" / name for name in ("weights/part-1.parquet", "weights.json"))
    table = pd.read_parquet(part)
    table.loc[7, "weight"] *= 1.001
    table.to_parquet(part, index=False)
    assert (
        "part-1.parquet is not the file"
        in wrong(copied / "out")["weights/ contains the weights that follow from the inputs"]
    )
    listing = json.loads(listed.read_text())
    listing["parts"][1]["sha256"] = fingerprint_file(part)
    listed.write_text(json.dumps(listing))
    found = wrong(copied / "out")
    assert {claim.partition(" ")[0].rstrip(":") for claim in found} >= {
        *("files.json", "weights/", "the")
    }


def test_an_input_that_changed_is_named(copied: Path) -> None:
    part = copied / "pool" / "part-2.parquet"
    frame = pd.read_parquet(part)
    frame.iloc[:-1].to_parquet(part, index=False)
    found = wrong(copied / "out")
    assert "part-2.parquet has changed" in found["input: parts of the pool"]


def test_tables_are_exported_part_by_part(solved: Path, tmp_path: Path) -> None:
    weights = read_parts(solved / "out" / "weights")
    for to in ("csv", "jsonl"):
        written = unskew.export_run(solved / "out", to, tmp_path / f"weights.{to}")
        assert written.images == 1500
        read = pd.read_csv if to == "csv" else pd.read_json
        table = read(
            written.path, **({} if to == "csv" else {"lines": True, "precise_float": True})
        )
        assert table["id"].tolist() == weights["id"].tolist()
        assert table["weight"].tolist() == pytest.approx(weights["weight"].tolist(), rel=1e-14)


def test_class_weights_are_collected_from_all_parts(tmp_path: Path) -> None:
    unskew.run(write_pool(tmp_path), tmp_path / "out")
    written = unskew.export_run(tmp_path / "out", "class-weights")
    table = read_parts(tmp_path / "out" / "weights").groupby("label")["sample_weight"].mean()
    assert json.loads(written.path.read_text())["all"] == pytest.approx(table.to_dict())


def test_a_part_of_another_run_is_not_exported(copied: Path) -> None:
    first, second = (copied / "out" / "weights" / f"part-{at}.parquet" for at in (1, 2))
    shutil.copy(second, first)
    command = ["export", str(copied / "out"), "--to", "csv"]
    assert run_command(command) == 4
    assert not (copied / "out" / "weights.csv").exists()
    assert run_command([*command, "--force"]) == 0
