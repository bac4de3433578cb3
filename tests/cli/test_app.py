"""The commands as a user meets them: output, exit codes, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import (
    error_of,
    init_vendors,
    write_hospitals,
    write_product_photos,
)
from unskew.cli.app import app, run_command

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")


def test_every_command_has_help_that_teaches(capsys: Captured) -> None:
    assert run_command(["--help"]) == 0
    shown = capsys.readouterr().out
    names = [
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
    ]
    assert set(names) >= {
        "describe",
        "init",
        "check",
        "weigh",
        "export",
        "split",
        "verify",
        "report",
        "demo",
    }
    for name in names:
        assert name in shown
        assert run_command([name, "--help"]) == 0
        assert len(capsys.readouterr().out) > 300
    # Names of sections are no markup.
    for name, section in (("split", "[sources]"), ("forecast", "[learn]")):
        assert run_command([name, "--help"]) == 0
        assert section in capsys.readouterr().out


def test_no_command_and_wrong_commands_are_wrong_calls(capsys: Captured) -> None:
    assert run_command([]) in (0, 2)
    assert run_command(["weight"]) == 2
    assert "weigh" in capsys.readouterr().err
    assert run_command(["weigh"]) == 2


def test_describe_shows_classes_properties_and_sizes(vendors: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(vendors / "north"), str(vendors / "south")]) == 0
    shown = capsys.readouterr().out
    for word in ("north", "south", "bag", "shoe", "brightness", "No image is an exact copy"):
        assert word in shown
    assert "\x1b[" not in shown


def test_describe_in_json(vendors: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(vendors), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in record["sources"]] == ["north", "south"]
    assert {row["level"]: row["images"] for row in record["labels"]} == {"bag": 28, "shoe": 32}


def test_init_writes_what_weigh_runs_unchanged(
    vendors: Path, tmp_path: Path, capsys: Captured
) -> None:
    configuration = tmp_path / "run.toml"
    assert (
        run_command(
            ["init", str(vendors / "north"), str(vendors / "south"), "-o", str(configuration)]
        )
        == 0
    )
    assert "#" in configuration.read_text()
    assert run_command(["init", str(vendors / "north"), "-o", str(configuration)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "Can this be debiased?" in shown
    assert "report.html" in shown
    table = pd.read_parquet(tmp_path / "out" / "weights.parquet")
    assert table["weight"].sum() == pytest.approx(1.0)
    share = table.groupby("label")["weight"].sum()
    np.testing.assert_allclose(share, 0.5)


def test_a_missing_place_is_named_with_the_nearest(vendors: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(vendors / "nrth")]) == 2
    assert "north" in capsys.readouterr().err


def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, capsys: Captured) -> None:
    configuration = write_hospitals(tmp_path)
    configuration.write_text(configuration.read_text().replace("group =", "gruop ="))
    assert run_command(["check", str(configuration)]) == 2
    shown = capsys.readouterr().err
    assert "gruop" in shown
    assert "group" in shown
    assert ":6" in shown
    assert "Traceback" not in shown


def test_uncovered_mass_is_not_identifiable_and_the_page_says_why(
    tmp_path: Path, capsys: Captured
) -> None:
    configuration = write_hospitals(tmp_path)
    registry = pd.read_csv(tmp_path / "registry.csv")
    pd.concat([registry, pd.DataFrame({"age": [50], "sex": ["x"], "count": [900]})]).to_csv(
        tmp_path / "registry.csv", index=False
    )
    assert run_command(["check", str(configuration)]) == 3
    assert "x" in capsys.readouterr().out
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["level"] == "no"
    assert (tmp_path / "out" / "report.html").is_file()
    assert not (tmp_path / "out" / "weights.parquet").exists()


def test_too_many_unreadable_images_stop_the_run(tmp_path: Path, capsys: Captured) -> None:
    configuration = write_product_photos(tmp_path, per_vendor=30, phones=80)
    for path in sorted((tmp_path / "north").rglob("*.jpg"))[:5]:
        path.write_text("not a picture")
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 4
    shown = capsys.readouterr().err
    assert "tolerance" in shown
    configuration.write_text(
        configuration.read_text().replace("[represent]", "tolerance = 0.2\n\n[represent]")
    )
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    aside = pd.read_csv(tmp_path / "out" / "unreadable.csv")
    assert len(aside) == 5
    assert list(aside.columns) == ["id", "source", "path", "reason"]


def test_a_download_without_a_network_is_an_error_that_names_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    import urllib.error
    import urllib.request

    def refused(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    place = tmp_path / "cifar-10-python.tar.gz"
    assert run_command(["describe", str(place), "--download"]) in (2, 4)
    shown = capsys.readouterr().err
    assert "cs.toronto.edu" in shown
    assert not place.exists()
    assert run_command(["describe", str(tmp_path), "--download"]) in (2, 4)


def test_split_and_its_use(vendors: Path, tmp_path: Path, capsys: Captured) -> None:
    configuration = init_vendors(vendors, tmp_path)
    command = [
        "split",
        str(configuration),
        "-o",
        str(tmp_path / "splits.csv"),
        "--shares",
        "train=0.5,test=0.5",
        "--json",
    ]
    assert run_command(command) == 0
    assert json.loads(capsys.readouterr().out) == {
        "north": {"test": 15, "train": 15},
        "south": {"test": 15, "train": 15},
    }
    configuration.write_text(
        configuration.read_text().replace(
            "[sources]\n", '[sources]\nsplit = { file = "splits.csv" }\n'
        )
    )
    assert run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    table = pd.read_parquet(tmp_path / "out" / "weights.parquet")
    np.testing.assert_allclose(table.groupby("split")["weight"].sum(), 1.0)


def test_exports_and_the_same_page_again(vendors: Path, tmp_path: Path) -> None:
    configuration = init_vendors(vendors, tmp_path)
    run_command(["weigh", str(configuration), "-o", str(tmp_path / "out"), "--quiet"])
    for to in ("csv", "jsonl", "class-weights"):
        assert run_command(["export", str(tmp_path / "out"), "--to", to]) == 0
        assert run_command(["export", str(tmp_path / "nothing"), "--to", to]) in (2, 4)
    first = (tmp_path / "out" / "report.html").read_text()
    (tmp_path / "out" / "report.html").unlink()
    assert run_command(["report", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.html").read_text() == first


def test_the_program_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unskew", "describe", str(tmp_path / "nothing")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_every_command_that_ends_well_prints_json(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(table.parent)
    for command in (
        ["describe", "t.csv"],
        ["init", "t.csv", "-o", "new.toml"],
        ["check", "run.toml"],
        ["weigh", "new.toml", "-o", "out"],
        ["verify", "out"],
        ["report", "out"],
        ["split", "run.toml"],
        *[["export", "out", "--to", to] for to in ("csv", "jsonl", "class-weights")],
    ):
        assert run_command([*command, "--json"]) == 0, command
        assert json.loads(capsys.readouterr().out), command


def test_files_into_folders_that_are_not_there(table: Path, capsys: Captured) -> None:
    for command in (["init", str(table.parent / "t.csv")], ["split", str(table)]):
        error = error_of([*command, "-o", str(table.parent / "nowhere" / "new")], capsys)
        assert (error["exit_code"], error["facts"]) == (2, {"path": str(table.parent / "nowhere")})
        error = error_of([*command, "-o", str(table.parent), "--overwrite"], capsys)
        assert (error["exit_code"], error["facts"]) == (2, {"path": str(table.parent)})
