"""Databases before there is a configuration: described, and the first configuration written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from raising import refused
from run_data import write_picture
from unskew.config.run_config import effective_settings, read_config, resolved
from unskew.errors import ConfigError
from unskew.runs.first_look import describe_folders, write_starting_config
from unskew.runs.pipeline import run


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two vendors with two classes each; one photo is there twice, and one is broken."""
    rng = np.random.default_rng(0)
    for vendor, kind, count in (
        ("north", "bag", 6),
        ("north", "shoe", 3),
        ("south", "bag", 3),
        ("south", "shoe", 6),
    ):
        for at in range(count):
            place = tmp_path / vendor / kind / f"{at}.png"
            write_picture(place, rng.uniform(40, 220, 3), rng, side=8)
    copied = (tmp_path / "north" / "bag" / "0.png").read_bytes()
    (tmp_path / "south" / "bag" / "copy.png").write_bytes(copied)
    (tmp_path / "south" / "bag" / "broken.png").write_text("no picture")
    return tmp_path


@pytest.mark.parametrize("quick", [False, True])
def test_every_image_is_counted_the_copies_and_the_broken_too(photos: Path, quick: bool) -> None:
    found = describe_folders([photos / "north", photos / "south"], quick=quick, progress=False)
    assert {row.name: row.images for row in found.sources} == {"north": 9, "south": 10}
    assert {row.level: row.images for row in found.labels} == {"bag": 10, "shoe": 9}
    assert {row.name: row.unreadable for row in found.sources} == {"north": 0, "south": 1}
    assert {(row.source, row.other, row.images) for row in found.copies} == {
        *(("north", "south", 1), ("south", "north", 1))
    }
    assert ("brightness" in {row.name for row in found.columns}) is not quick


def test_a_table_without_images_is_described_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("source,label\na,cat\na,dog\nb,cat\n")
    found = describe_folders([tmp_path / "t.csv"])
    assert (found.images, found.has_pixels) == (3, False)
    assert {row.level: dict(row.by_source) for row in found.labels} == {
        "cat": {"a": 1, "b": 1},
        "dog": {"a": 1, "b": 0},
    }


def test_the_first_configuration_runs_from_its_own_folder(photos: Path) -> None:
    (photos / "south" / "bag" / "broken.png").unlink()
    (photos / "runs").mkdir()
    output = photos / "runs" / "first.toml"
    write_starting_config([photos / "north", photos / "south"], output)
    assert "first.toml" in output.read_text()
    config = read_config(output)
    assert config.sources.folders == {"north": "../north", "south": "../south"}
    done = run(config, progress=False)
    label = done.inputs.pool.frame.set_index("id")["label"]
    table = done.weights.frame().set_index("id")
    # Its target: every class equally frequent.
    np.testing.assert_allclose(table["weight"].groupby(label).sum(), [0.5, 0.5])


def test_what_is_there_is_replaced_only_if_wanted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("source,label\na,cat\na,dog\nb,cat\nb,dog\n")
    output = tmp_path / "run.toml"
    output.write_text("mine")
    with refused(ConfigError, path=str(output)):
        write_starting_config([tmp_path / "t.csv"], output)
    assert output.read_text() == "mine"
    write_starting_config([tmp_path / "t.csv"], output, overwrite=True)
    assert read_config(output).sources.manifest == "t.csv"


def test_only_archives_are_downloaded(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("source,label\na,cat\n")
    with refused(ConfigError, option="--download"):
        describe_folders([tmp_path / "t.csv"], download=True)
    with refused(ConfigError, option="--download"):
        write_starting_config([tmp_path / "t.csv"], tmp_path / "run.toml", download=True)
    assert not (tmp_path / "run.toml").exists()


def test_what_a_new_configuration_promises_was_tried(photos: Path) -> None:
    table = photos / "all.csv"
    files = sorted(photos.glob("*/*/*.png"))
    rows = [f"{file.relative_to(photos)},{file.parts[-3]},{file.parts[-2]}" for file in files]
    table.write_text("\n".join(["img,source,label", *rows, "north/gone.png,north,bag"]))
    start = write_starting_config([table], photos / "run.toml", progress=False)
    # One is broken, one is missing: more than a run tolerates by default.
    assert (start.images, start.unusable, start.problem, start.tried) == (21, 2, None, True)
    config = read_config(photos / "run.toml")
    assert (config.sources.path, config.sources.tolerance) == ("img", 0.1)
    assert config.target is not None
    assert config.target.guessed is True
    verdict = run(config, progress=False).summary.verdict
    assert verdict.placeholder
    assert verdict.headline.startswith("The target is a placeholder")
    known = config.target.model_copy(update={"guessed": None})
    assert effective_settings(resolved(config)) == effective_settings(
        resolved(config.model_copy(update={"target": known}))
    )


def test_a_configuration_that_does_not_run_is_not_called_ready(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "source,label,split,group\na,cat,train,1\na,dog,test,1\nb,cat,train,2\nb,dog,test,2\n"
    )
    start = write_starting_config([tmp_path / "t.csv"], tmp_path / "run.toml", progress=False)
    assert start.problem is not None
    assert "group" in start.problem
