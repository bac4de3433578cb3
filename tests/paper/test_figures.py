"""Figures on small data: files, tables, what is made again and what is not; errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from paper import class_experiments, theorem, theorem_limits
from paper.__main__ import run_paper
from paper.acquisition_experiments import bin_sizes, channel_marginals
from paper.catalogue import list_figures
from paper.experiment import (
    Cell,
    Experiment,
    Folders,
    Tables,
    Workers,
    forget_cells,
    run_experiment,
)
from paper.figures import write_figures
from raising import refused
from small_cifar import make_data
from unskew.errors import ConfigError, DataError

SETS = {"cifar10": "a", "cifar100": "b"}


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def _fewer_overlaps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_experiments, "OVERLAPS_SHOWN", (0.1, 0.2))
        patch.setattr(class_experiments, "OVERLAPS_SWEPT", (1e-6, 0.1, 0.2))
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def drawn(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("figures")
    write_figures(data, out, only=["3", "4", "5", "6"], runs=1)
    return out


def _times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}


def test_every_figure_of_the_article_is_there_for_both_data_sets() -> None:
    figures = list_figures(SETS)
    numbers = {figure.number for figure in figures}
    assert numbers == set("123456789") | {f"B{number}" for number in range(1, 8)}
    assert {figure.number for figure in figures if not figure.shows_images} == set("123") | {
        f"B{number}" for number in range(3, 8)
    }
    for number in ("4", "5", "6", "7", "8", "9", "B1", "B2"):
        assert {
            figure.slug.rsplit("-", 1)[1] for figure in figures if figure.number == number
        } == set(SETS)
    assert len({figure.slug for figure in figures}) == len(figures)
    for number in ("5", "6", "8"):
        runs = {
            cell["run"]
            for figure in figures
            if figure.number == number
            for cell in figure.experiment.cells
        }
        assert runs == set(range(8))


def test_each_has_a_picture_a_drawing_a_table_and_its_settings(drawn: Path) -> None:
    slugs = {path.stem for path in drawn.glob("*.csv")}
    assert len(slugs) == 4
    for slug in slugs:
        assert (drawn / f"{slug}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (drawn / f"{slug}.svg").read_text(encoding="utf-8")
        record = json.loads((drawn / f"{slug}.json").read_text(encoding="utf-8"))
        assert record["found"]
        assert record["fingerprint"]


def test_the_tables_hold_what_they_say(drawn: Path) -> None:
    masses = pd.read_csv(drawn / "figure-05-class-distribution-cifar10.csv")
    totals = masses.groupby(["overlap", "run", "arm"])["mass"].sum()
    np.testing.assert_allclose(totals, 1.0, atol=1e-9)
    exact = masses[masses["arm"] == "exact"]
    assert len(exact)
    assert (exact["mass"] - 0.1).abs().max() < 1e-10
    counts = pd.read_csv(drawn / "figure-04-images-per-class-cifar10.csv")
    assert (counts.groupby(["overlap", "source"])["images"].sum() == 200).all()


@pytest.mark.slow
def test_all_figures_can_be_drawn(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theorem, "SIZES", (100, 400))
    monkeypatch.setattr(theorem_limits, "BOX_SIZES", (200, 800))
    monkeypatch.setattr(theorem_limits, "RULE_SIZES", (100, 400))
    monkeypatch.setattr(theorem_limits, "LINK_SIZES", (10, 30))
    monkeypatch.setattr(theorem, "N_OF_OVERLAPS", 2000)
    monkeypatch.setattr(class_experiments, "STEPS_SHOWN", (100, 4000))
    done = write_figures(data, tmp_path, runs=2)
    assert [figure.number for figure in done.figures] == [
        *"123456789",
        *(f"B{number}" for number in range(1, 8)),
    ]
    assert all((tmp_path / name).stat().st_size for figure in done.figures for name in figure.files)
    # Cells go when all that is drawn from them is there; labels and borders stay.
    assert {path.name.split("-")[0] for path in (tmp_path / ".cache").iterdir()} == {"population"}


def test_bins_hold_all_images(data: Path, tmp_path: Path) -> None:
    rows = bin_sizes({"data": "cifar10"}, Folders(data, tmp_path))["sizes"]
    sizes = pd.DataFrame(rows)
    assert (sizes.groupby(["sizes", "decay"], dropna=False)["images"].sum() == 1000).all()


def test_draws_without_links_are_named(drawn: Path) -> None:
    distances = pd.read_csv(drawn / "figure-06-distance-of-weights-cifar10.csv")
    broken = distances[(distances["overlap"] < 1e-5) & (distances["arm"] == "exact")]
    assert not broken["connected"].any()
    assert broken["distance"].isna().all()
    assert set(broken["unlinked"]) == {"1 | 2 | 3 | 4 | 5"}
    findings = json.loads(
        (drawn / "figure-06-distance-of-weights-cifar10.json").read_text(encoding="utf-8")
    )["found"]
    assert any(
        "1 of 1 draws are not connected (of the first: 1 | 2 | 3 | 4 | 5)" in line
        for line in findings
    )


def test_what_is_there_is_not_made_again(data: Path, drawn: Path) -> None:
    before = _times(drawn)
    done = write_figures(data, drawn, only=["3", "5"], runs=1)
    assert not any(figure.is_new for figure in done.figures)
    assert _times(drawn) == before


def test_a_lost_picture_is_drawn_from_its_table(data: Path, drawn: Path) -> None:
    before = _times(drawn)
    os.remove(drawn / "figure-03-two-biasing-functions.png")
    write_figures(data, drawn, only=["3"], runs=1)
    after = _times(drawn)
    assert (
        after["figure-03-two-biasing-functions.csv"]
        == before["figure-03-two-biasing-functions.csv"]
    )
    assert (
        after["figure-03-two-biasing-functions.png"] > before["figure-03-two-biasing-functions.png"]
    )


def test_other_settings_and_force_compute_anew(data: Path, tmp_path: Path) -> None:
    first = write_figures(data, tmp_path, only=["4"], runs=1)
    again = write_figures(data, tmp_path, only=["4"], runs=1, force=True)
    assert [figure.is_new for figure in (*first.figures, *again.figures)] == [True, True]
    os.utime(data / "cifar10" / "train-000.webp")
    # The same images: the same numbers, whatever the date of the file.
    assert not write_figures(data, tmp_path, only=["4"], runs=1).figures[0].is_new


def test_a_data_set_that_is_missing_is_named(data: Path, tmp_path: Path) -> None:
    done = write_figures(data, tmp_path, only=[" 4"], runs=1)
    assert any("CIFAR-100 is not in" in note for note in done.notes)


_COMPUTED: list[int] = []


def _square(cell: Cell, folders: Folders) -> Tables:
    assert folders.data is not None
    if cell["x"] == 2 and not (folders.data / "repaired").exists():
        raise DataError("a cell that fails")
    _COMPUTED.append(cell["x"])
    return {"squares": [{"x": cell["x"], "y": cell["x"] ** 2}]}


def test_an_experiment_goes_on_where_it_stopped(tmp_path: Path) -> None:
    experiment = Experiment("squares", {}, [{"x": x} for x in range(4)], _square)
    folders, kept = Folders(tmp_path, tmp_path), tmp_path / "kept"
    _COMPUTED.clear()
    with pytest.raises(DataError, match="fails"):
        run_experiment(experiment, folders, kept)
    (tmp_path / "repaired").touch()
    tables = run_experiment(experiment, folders, kept)
    assert _COMPUTED == [0, 1, 2, 3]
    assert tables == {"squares": [{"x": x, "y": x**2} for x in range(4)]}
    forget_cells(experiment, kept)
    assert not list(kept.iterdir())


def test_processes_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    from paper.synthetic import overlapping_functions

    experiment = Experiment(
        "functions", {}, [{"copy": copy} for copy in range(4)], overlapping_functions
    )
    with Workers(2) as workers:
        parallel = run_experiment(
            experiment, Folders(tmp_path, tmp_path), tmp_path / "two", workers=workers
        )
    assert parallel == run_experiment(experiment, Folders(tmp_path, tmp_path), tmp_path / "one")


def _no_such_folder(data: Path, tmp_path: Path) -> dict[str, Any]:
    return {"data": tmp_path / "nowhere", "out": tmp_path / "out"}


def _no_cifar(data: Path, tmp_path: Path) -> dict[str, Any]:
    return {"data": tmp_path, "out": tmp_path / "out"}


def _out_is_a_file(data: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    return {"data": data, "out": tmp_path / "out"}


@pytest.mark.parametrize(
    ("make", "culprit"),
    [(_no_such_folder, "data"), (_no_cifar, "data"), (_out_is_a_file, "out")],
)
def test_an_unusable_folder_is_named(make: Any, culprit: str, data: Path, tmp_path: Path) -> None:
    arguments = make(data, tmp_path)
    with refused(ConfigError, path=str(arguments[culprit])):
        write_figures(**arguments)


def test_an_unknown_figure_is_refused_with_the_known_ones(data: Path, tmp_path: Path) -> None:
    with refused(ConfigError, value="12") as caught:
        write_figures(data, tmp_path / "out", only=["12"])
    assert caught.value.facts["allowed"][:2] == ["1", "2"]


def test_missing_sheets_are_named(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    (data / "cifar10" / "test-000.webp").unlink()
    with refused(DataError, path=str(data / "cifar10"), count=0, limit=1000):
        write_figures(data, tmp_path / "out", only=["4"])


def test_the_command_prints_json_and_returns_exit_codes(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_paper(["figures", "--data", str(data), "-o", str(out), "--only", "3", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [figure["number"] for figure in printed["figures"]] == ["3"]
    assert (out / printed["figures"][0]["files"][0]).is_file()
    assert run_paper(["figures", "--data", str(tmp_path / "no"), "-o", str(out), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "ConfigError"


def test_the_command_says_what_the_figures_show(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run_paper(
            [
                "figures",
                "--data",
                str(data),
                "-o",
                str(tmp_path),
                "--only",
                "3,2",
                "--jobs",
                "1",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "Figure 3" in printed
    assert "κ = " in printed
    assert "Figure 2" in printed
    assert (
        run_paper(["figures", "--data", str(data), "-o", str(tmp_path), "--only", "3", "--quiet"])
        == 0
    )
    assert capsys.readouterr().out == ""


def test_acquisition_cells_have_every_arm(data: Path, tmp_path: Path) -> None:
    tables = channel_marginals(
        {"data": "cifar10", "sizes": "balanced", "decay": 1.0, "run": 0},
        Folders(data, tmp_path / "cache"),
    )
    assert {row["arm"] for row in tables["distances"]} == {
        "naive",
        "article",
        "as_published",
        "exact",
        "soft_box",
        "true",
    }
    assert {row["arm"] for row in tables["marginals"]} >= {"test", "naive"}
    # A density: 32 bins of width 1/32.
    frame = pd.DataFrame(tables["marginals"])
    np.testing.assert_allclose(frame.groupby(["arm", "channel"])["density"].mean(), 1.0, atol=1e-9)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was_and_its_processes_end(
    data: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "paper",
        "figures",
        "--data",
        str(data),
        "-o",
        str(tmp_path),
        "--only",
        "6",
        "--jobs",
        "2",
    ]

    def kept() -> int:
        return len(list(tmp_path.glob(".cache/distances-*/*.json")))

    started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while kept() < 5 and started.poll() is None:
        time.sleep(0.05)
    started.kill()
    # The workers hold the other end of its output, which closes when the last of them has ended.
    started.communicate(timeout=60)
    assert kept() >= 5
    subprocess.run([*command, "--quiet"], cwd=ROOT, check=True, timeout=300)
    assert (tmp_path / "figure-06-distance-of-weights-cifar10.csv").is_file()
    assert kept() == 0
