"""What `unskew monitor` reads: roles as in the run, and images that it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from monitored_run import SHADES, draw_day
from raising import refused
from run_data import TABLE_SOURCES, init_vendors, weigh, write_picture, write_vendors
from unskew import monitor_run
from unskew.errors import ConfigError, DataError
from unskew.runs.monitor import STATE


def test_images_that_cannot_be_used_are_refused_by_name(solved: Path, tmp_path: Path) -> None:
    day = draw_day(1, np.random.default_rng(3))
    new, out = tmp_path / "new.csv", solved / "out"

    def monitor(frame: pd.DataFrame, **options: object) -> None:
        frame.to_csv(new, index=False)
        monitor_run(out, new, state=tmp_path / "s", **options)  # type: ignore[arg-type]

    with refused(DataError, sources=["moon"]):
        monitor(day.assign(site="moon"))
    with refused(DataError, column="id"):
        monitor(day.drop(columns="id"))
    with refused(ConfigError, option="--source", value="moon"):
        monitor(day, source="moon")
    with refused(ConfigError, option="--source"):
        monitor(day, source="north", of_target=True)
    with refused(ConfigError, option="--batch", value="week"):
        monitor(day, batch="week")
    with refused(DataError, column="day", count=1):
        monitor(day.assign(day=[None, *day["day"][1:]]), batch="day")
    with refused(ConfigError, option="max_uncovered"):
        monitor(day, max_uncovered=0.0)
    with refused(DataError, count=300):
        monitor_run(out, solved / "t.csv", state=tmp_path / "s")
    with refused(ConfigError, path=str(tmp_path / "none")):
        monitor_run(tmp_path / "none", new)
    with refused(DataError):
        monitor_run(tmp_path, new)
    assert not (tmp_path / "s" / STATE).exists()


def test_columns_that_new_images_lack_are_named(solved: Path, tmp_path: Path) -> None:
    frame = draw_day(1, np.random.default_rng(4)).drop(columns="species")
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = monitor_run(solved / "out", tmp_path / "new.csv", state=tmp_path / "s")
    assert any("label" in note for note in found.notes)
    assert next(one for one in found.streams[0].variables if one.variable == "label").units == 0


def test_groups_are_needed_where_the_run_has_them(solved: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = draw_day(0, rng, n=60).assign(burst=[f"b{k // 3}" for k in range(120)])
    table.to_csv(tmp_path / "t.csv", index=False)
    roles = 'source = "site"\ngroup = "burst"\n'
    (tmp_path / "run.toml").write_text(TABLE_SOURCES + roles + SHADES)
    out = weigh(tmp_path / "run.toml")
    new = draw_day(1, rng, n=12).assign(burst=[f"n{k // 2}" for k in range(24)])
    new.loc[0:1, "burst"] = "b0"
    new.drop(columns="burst").to_csv(tmp_path / "bare.csv", index=False)
    with refused(DataError, column="burst"):
        monitor_run(out, tmp_path / "bare.csv")
    new.to_csv(tmp_path / "new.csv", index=False)
    found = monitor_run(out, tmp_path / "new.csv")
    # Two images are of a burst of the run; the others are units of two.
    assert found.counted == 22
    assert sum(s.units for s in found.streams if s.kind != "all") == 11


def test_new_folders_of_images_are_represented_as_in_the_run(tmp_path: Path) -> None:
    vendors = write_vendors(tmp_path / "vendors")
    out = weigh(init_vendors(vendors, tmp_path))
    rng = np.random.default_rng(8)
    for at in range(6):
        write_picture(tmp_path / "new" / "bag" / f"n{at}.png", rng.uniform(40, 220, 3), rng, 12)
    shutil.copy(vendors / "north" / "bag" / "sku000.png", tmp_path / "new" / "bag" / "copy.png")
    found = monitor_run(out, tmp_path / "new", source="north", progress=False)
    assert (found.counted, found.known) == (6, 1)
    assert found.streams[0].name == "north"
    assert found.streams[0].units == 6
