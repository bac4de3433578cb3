"""Commands whose arguments are addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

import unskew
from unskew.cli.addresses import local_arguments
from unskew.cli.app import run_command
from unskew.files.addresses import local_folder, read_address, uploaded_folder


def test_a_run_from_address_to_address(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f'[sources]\nmanifest = "{bucket}/table.csv"\nimages = false\n'
        "[target]\nmargins.label = { x = 0.3, y = 0.7 }\n"
        '[bias]\nfamily = "strata"\nby = ["label"]\n'
    )
    assert run_command(["weigh", str(config), "-o", f"{bucket}/out", "-q"]) == 0
    with local_folder(f"{bucket}/out") as folder:
        names = {file.name for file in folder.iterdir()}
        table = unskew.read_weights_table(folder / "weights.parquet")
    assert {"files.json", "weights.parquet", "report.html"} <= names
    assert table.groupby("label")["weight"].sum()["x"] == pytest.approx(0.3)
    assert run_command(["weigh", str(config), "-o", f"{bucket}/out", "-q"]) == 2
    assert run_command(["export", f"{bucket}/out", "--to", "csv", "-o", f"{bucket}/w.csv"]) == 0
    assert read_address(f"{bucket}/w.csv", 10**6).count(b"\n") == 21
    assert run_command(["describe", f"{bucket}/table.csv"]) == 2
    assert "sources.manifest" in capsys.readouterr().err


def test_a_run_of_folders_at_an_address(bucket: str, tmp_path: Path) -> None:
    with uploaded_folder(f"{bucket}/north") as north, local_folder(f"{bucket}/img") as images:
        for row in range(20):
            (north / "xy"[row // 10]).mkdir(parents=True, exist_ok=True)
            (images / f"{row}.png").rename(north / "xy"[row // 10] / f"{row}.png")
    config = tmp_path / "run.toml"
    config.write_text(
        f'[sources.folders]\nnorth = "{bucket}/north"\nwest = "{bucket}/img"\n'
        '[represent]\nfeatures = ["brightness"]\n'
        '[target]\nsource = "west"\n[bias]\nfamily = "tilt"\nfeatures = ["brightness"]\n'
    )
    out = str(tmp_path / "out")
    assert run_command(["weigh", str(config), "-o", out, "-q"]) == 0
    assert run_command(["verify", out]) == 0


def test_what_is_allowed_by_its_name_is_not_fetched() -> None:
    arguments = ["weigh", "run.toml", "--allow-code", "tcp://10.0.0.5:8786"]
    with local_arguments(arguments) as local:
        assert local == arguments
