"""Commands whose arguments are addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import unskew
from raising import refused
from run_data import weigh, write_table_run
from unskew import ConfigError
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
    assert run_command(["verify", out]) == 2
    assert run_command(["verify", out, "--allow-code", bucket]) == 0


def test_what_is_allowed_by_its_name_is_not_fetched() -> None:
    arguments = ["weigh", "run.toml", "--allow-code", "tcp://10.0.0.5:8786"]
    with local_arguments(arguments) as local:
        assert local == arguments


HEAD = 'folder = ".."\n[sources]\nimages = false\n'
# What run.toml of results names: sources, other sections, files of the folder above.
ASKING = {
    "table": 'manifest = "BUCKET/table.csv"',
    "parts": 'parquet = "BUCKET/parts"',
    "image": 'manifest = "a.csv"\nimages = true\nallow_outside = true',
    "dataset": 'huggingface = "somebody/something"\nsource = "site"',
    "archive": 'cifar = "out/cifar-10-python.tar.gz"\ndownload = true',
    "sample": 'manifest = "t.csv"\n[target]\nsample = "BUCKET/table.csv"',
    "features": 'manifest = "t.csv"\n[represent]\nfeatures = [{ file = "BUCKET/f", id = "id" }]',
}


@pytest.mark.parametrize("kind", ASKING)
def test_results_of_a_stranger_ask_no_server(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until that is allowed; verify asked any, with the credentials of the user."""
    out = weigh(write_table_run(tmp_path))
    (tmp_path / "a.csv").write_text("source,label,path\na,cat,memory://b/1\nb,dog,memory://b/2\n")
    text = ASKING[kind].replace("BUCKET", "memory://b")
    text = HEAD.replace("images = false\n", "" if "images" in text else "images = false\n") + text
    target = "" if kind == "sample" else '\n[target]\nuniform = "label"'
    (out / "run.toml").write_text(f'{text}{target}\n[bias]\nfamily = "strata"\nby = ["label"]\n')
    asked: list[Any] = []
    for name in ("fsspec.filesystem", "datasets.load_dataset"):
        monkeypatch.setattr(name, lambda *words: asked.append(words))
    monkeypatch.setattr("urllib.request.urlopen", lambda *words, **_: asked.append(words))
    with refused(ConfigError, option="--allow-code"):
        unskew.verify_run(out)
    assert not asked
