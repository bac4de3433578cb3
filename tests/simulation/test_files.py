"""A simulation as files: manifest or folders, links or copies, everything or nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from simulation.small_population import save_square, simulations_of, weigh_folder
from unskew.cli.app import run_command
from unskew.errors import ConfigError, DataError
from unskew.runs.inputs import load_config, read_inputs
from unskew.simulation.databases import (
    read_population,
    simulate_censored,
    simulate_overlapping_classes,
)
from unskew.simulation.files import check_new_folder, write_simulation
from unskew.simulation.truth import compare_with_truth


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("overlapping-classes", "manifest"),
        ("overlapping-classes", "folders"),
        ("acquisition", "manifest"),
        ("censored", "folders"),
        pytest.param("acquisition", "folders", marks=pytest.mark.slow),
        pytest.param("censored", "manifest", marks=pytest.mark.slow),
    ],
)
def test_the_configuration_debiases_without_an_edit(
    kind: str, form: Any, population: unskew.Pool, tmp_path: Path
) -> None:
    simulation = simulations_of(population)[kind]
    out = tmp_path / "simulated"
    write_simulation(simulation, out, form=form)
    weigh_folder(out, tmp_path / "results")
    comparison = compare_with_truth(out, tmp_path / "results")
    assert comparison.images == simulation.scenario.source.size
    assert comparison.missing == 0
    assert comparison.true.weight_distance == 0.0
    if kind == "overlapping-classes":
        # The target's margin is given, so the weighted labels have it exactly.
        assert comparison.debiased.label_distance == pytest.approx(0.0, abs=1e-9)
    if kind != "acquisition":
        assert comparison.debiased.weight_distance < comparison.naive.weight_distance


def test_manifest_and_folders_show_the_same_images(population: unskew.Pool, tmp_path: Path) -> None:
    simulation = simulations_of(population)["overlapping-classes"]
    pools = {}
    for form in ("manifest", "folders"):
        write_simulation(simulation, tmp_path / form, form=form)  # type: ignore[arg-type]
        pools[form] = read_inputs(
            load_config(tmp_path / form / "run.toml", jobs=1), progress=False
        ).pool.frame
    columns = ["id", "source", "label", "group", "content"]
    left, right = (
        frame.set_index("id").sort_index()[columns[1:]].astype(str) for frame in pools.values()
    )
    pd.testing.assert_frame_equal(left, right)


def test_the_truth_is_that_of_the_scenario(population: unskew.Pool, tmp_path: Path) -> None:
    simulation = simulations_of(population)["acquisition"]
    write_simulation(simulation, tmp_path / "simulated")
    truth = pd.read_parquet(tmp_path / "simulated" / "truth.parquet")
    record = json.loads((tmp_path / "simulated" / "truth.json").read_text(encoding="utf-8"))
    omega = truth[[f"omega_{name}" for name in simulation.names]].to_numpy()
    np.testing.assert_allclose(omega, simulation.scenario.omega)
    normalizer = np.array([record["sources"][name]["normalizer"] for name in simulation.names])
    # Ω_k is the mean of ω_k over the population.
    from unskew.scenarios.image_acquisition import soft_bins

    feature = population.frame[["border_hsv_h", "border_hsv_s", "border_hsv_v"]].to_numpy()
    np.testing.assert_allclose(normalizer, soft_bins(feature, 0.7).mean(axis=0), rtol=1e-12)
    assert truth["weight"].sum() == pytest.approx(1.0)
    share = np.array([record["sources"][name]["images"] for name in simulation.names]) / len(truth)
    product = truth["weight"] * (omega @ (share / normalizer))
    np.testing.assert_allclose(product, product.iloc[0], rtol=1e-9)
    assert (
        len(pd.read_parquet(tmp_path / "simulated" / "population.parquet"))
        == record["population"]
        == len(population)
    )


def test_the_same_seed_gives_the_same_files(population: unskew.Pool, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_simulation(
            simulate_overlapping_classes(population, overlap=0.2, n_sources=2, seed=7),
            tmp_path / name,
        )
    for file in ("manifest.csv", "run.toml", "truth.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("link", ["hard", "symbolic", "copy"])
def test_images_are_linked_or_copied(link: Any, population: unskew.Pool, tmp_path: Path) -> None:
    simulation = simulate_censored(population, hidden=["cat"], sizes=[20, 5], seed=0)
    write_simulation(simulation, tmp_path / "out", form="folders", link=link)
    files = sorted((tmp_path / "out").rglob("*.png"))
    assert len(files) == 25
    assert population.images is not None
    for file in files:
        assert file.is_symlink() == (link == "symbolic")
        original = Path(str(population.images.place(int(file.name.split("-")[0]))))
        assert os.path.samefile(file, original) == (link != "copy")
        assert file.read_bytes() == original.read_bytes()


@pytest.mark.parametrize("form", ["manifest", "folders"])
def test_a_folder_behind_a_link_finds_its_images(
    form: Any, population: unskew.Pool, tmp_path: Path
) -> None:
    """ ".." leads out of where the folder really is, not out of the link."""
    (tmp_path / "really" / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "really" / "far" / "away")
    simulation = simulate_overlapping_classes(population, overlap=0.3, n_sources=4, sizes=80)
    write_simulation(
        simulation, tmp_path / "link" / "out", form=form, link="symbolic", progress=False
    )
    pool = read_inputs(
        load_config(tmp_path / "link" / "out" / "run.toml", jobs=1), progress=False
    ).pool
    assert len(pool) == 80


def test_images_without_files_are_written_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "digits.npz",
        images=rng.integers(0, 256, (20, 5, 5, 3), dtype=np.uint8),
        label=np.tile(["a", "b"], 10),
    )
    population = read_population(tmp_path / "digits.npz", jobs=1, progress=False)
    simulation = simulate_overlapping_classes(population, overlap=0.3, n_sources=2, seed=0)
    with refused(ConfigError, option="as"):
        write_simulation(simulation, tmp_path / "manifest")
    assert not (tmp_path / "manifest").exists()
    write_simulation(simulation, tmp_path / "folders", form="folders")
    weigh_folder(tmp_path / "folders", tmp_path / "results")


def test_nothing_is_replaced_and_nothing_half_written(
    photos: Path, population: unskew.Pool, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine", encoding="utf-8")
    with refused(ConfigError, path=str(tmp_path / "mine")):
        check_new_folder(tmp_path / "mine", photos)
    with refused(ConfigError, path=str(photos / "out")) as caught:
        check_new_folder(photos / "out", photos)
    assert f"inside {str(photos)!r}" in str(caught.value)
    with refused(ConfigError, path=str(tmp_path / "no" / "where")):
        check_new_folder(tmp_path / "no" / "where", photos)
    check_new_folder(tmp_path / "new", photos)

    class BrokenError(Exception): ...

    def fail(*_: object) -> None:
        raise BrokenError

    simulation = simulate_censored(population, hidden=["cat"], seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unskew.simulation.files._write_truth", fail)
        with pytest.raises(BrokenError):
            write_simulation(simulation, tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf_8_needs_folders(tmp_path: Path) -> None:
    for name in (b"a", b"b"):
        folder = os.fsencode(tmp_path) + b"/clean/" + name
        os.makedirs(folder)
        for at in range(4):
            save_square(Path(os.fsdecode(folder + b"/\xe9%d.png" % at)), (at, 0, 0))
    simulation = simulate_overlapping_classes(
        read_population(tmp_path / "clean"), overlap=0.5, n_sources=2, seed=0
    )
    with refused(DataError, option="as"):
        write_simulation(simulation, tmp_path / "manifest")
    write_simulation(simulation, tmp_path / "folders", form="folders")
    weigh_folder(tmp_path / "folders", tmp_path / "results")


def test_the_commands(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, results = str(tmp_path / "my out"), str(tmp_path / "results")
    assert (
        run_command(
            [
                "simulate",
                "overlapping-classes",
                str(photos),
                "-o",
                out,
                "--sources",
                "4",
                "--overlap",
                "0.3",
            ]
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Next: unskew weigh '{out}/run.toml' -o '{out}/results'" in shown
    assert f"Then: unskew simulate compare '{out}' '{out}/results'" in shown
    assert run_command(["weigh", f"{out}/run.toml", "-o", results, "-q"]) == 0
    assert run_command(["simulate", "compare", out, results]) == 0
    assert "total variation" in capsys.readouterr().out
    assert run_command(["simulate", "compare", out, results, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["debiased"]["label_distance"] == pytest.approx(
        0.0, abs=1e-9
    )
    assert (
        run_command(["simulate", "censored", str(photos), "-o", out, "--hidden", "cat", "--json"])
        == 2
    )
    assert out in json.loads(capsys.readouterr().out)["error"]["message"]
    assert (
        run_command(
            [
                "simulate",
                "acquisition",
                str(photos),
                "-o",
                out + "2",
                "--feature",
                "brightness",
                "--json",
                "-j",
                "1",
            ]
        )
        == 0
    )
    shown = json.loads(capsys.readouterr().out)
    assert list(shown["sources"]) == ["bin_0", "bin_1"]
    assert (
        run_command(["simulate", "acquisition", str(tmp_path / "nowhere"), "-o", out + "3", "-q"])
        == 2
    )
