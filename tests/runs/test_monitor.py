"""`unskew monitor` on files: state between looks, what is counted, refusals, exit codes, page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from raising import refused
from run_data import TABLE_SOURCES, init_vendors, weigh, write_picture, write_vendors
from unskew import monitor_run
from unskew.cli.app import run_command
from unskew.errors import ConfigError, DataError
from unskew.runs.monitor import IMAGES, PAGE, RECORD, STATE

Captured = pytest.CaptureFixture[str]
_MODEL = """
[target]
margins.shade = { dark = 0.4, light = 0.6 }

[bias]
family = "strata"
by = ["shade"]
"""


def _day(day: int, rng: np.random.Generator, dark: float = 0.4, n: int = 25) -> pd.DataFrame:
    """New images of two sources; ``dark`` is the share of dark ones in the second."""
    share = np.repeat([0.3, dark], n)
    return pd.DataFrame(
        {
            "id": [f"{day}-{k}" for k in range(2 * n)],
            "site": np.repeat(["north", "south"], n),
            "shade": np.where(rng.random(2 * n) < share, "dark", "light"),
            "species": rng.choice(["fox", "hare"], 2 * n),
            "day": f"2026-03-{day:02d}",
        }
    )


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in ``out``, and days 1 to 8 in a table; ``south`` is dark from day 5."""
    folder, rng = tmp_path_factory.mktemp("monitor"), np.random.default_rng(0)
    _day(0, rng, n=150).to_csv(folder / "t.csv", index=False)
    roles = 'source = "site"\nlabel = "species"\n'
    (folder / "run.toml").write_text(TABLE_SOURCES + roles + _MODEL)
    weigh(folder / "run.toml")
    days = [_day(day, rng, 0.4 if day < 5 else 0.95) for day in range(1, 9)]
    pd.concat(days).to_csv(folder / "days.csv", index=False)
    days[0].to_csv(folder / "day1.csv", index=False)
    pd.concat(days[1:3]).to_csv(folder / "day23.csv", index=False)
    return folder


def _state(folder: Path) -> dict[str, object]:
    state: dict[str, object] = json.loads((folder / STATE).read_text())
    return state


def test_drift_is_found_dated_and_written_down(solved: Path, tmp_path: Path) -> None:
    found = monitor_run(solved / "out", solved / "days.csv", batch="day", state=tmp_path / "s")
    assert found.drifted
    assert len(found.looks) == 8
    assert found.counted == 400
    drifted = [
        stream.name for stream in found.streams if stream.drifted and stream.kind == "source"
    ]
    assert drifted == ["south"]
    (south,) = [stream for stream in found.streams if stream.name == "south"]
    shade = next(one for one in south.variables if one.variable == "shade")
    assert shade.since in ("2026-03-04", "2026-03-05", "2026-03-06")
    assert abs(shade.change.difference) == pytest.approx(0.55, abs=4 * shade.change.stderr)
    assert {path.name for path in (tmp_path / "s").iterdir()} == {IMAGES, PAGE, RECORD, STATE}
    assert json.loads((tmp_path / "s" / RECORD).read_text())["drifted"] is True


def test_day_by_day_is_the_same_as_all_days_at_once(solved: Path, tmp_path: Path) -> None:
    monitor_run(solved / "out", solved / "day1.csv", batch="day", state=tmp_path / "a")
    monitor_run(solved / "out", solved / "day23.csv", batch="day", state=tmp_path / "a")
    monitor_run(solved / "out", solved / "days.csv", batch="day", state=tmp_path / "a")
    monitor_run(solved / "out", solved / "days.csv", batch="day", state=tmp_path / "b")
    one, other = _state(tmp_path / "a"), _state(tmp_path / "b")
    assert one["looks"] == other["looks"]
    assert one["evidence"] == other["evidence"]


def test_the_same_batch_again_changes_nothing_and_is_stated(solved: Path, tmp_path: Path) -> None:
    first = monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")
    before = _state(tmp_path / "s")
    again = monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")
    assert (first.counted, first.known, again.counted, again.known) == (50, 0, 0, 50)
    assert _state(tmp_path / "s") == before
    assert again.streams == first.streams
    assert any("50 of 50" in note for note in again.notes)


def test_a_look_that_was_interrupted_is_counted_once(solved: Path, tmp_path: Path) -> None:
    monitor_run(solved / "out", solved / "day1.csv", batch="day", state=tmp_path / "s")
    state = (tmp_path / "s" / STATE).read_bytes()
    whole = monitor_run(solved / "out", solved / "day23.csv", batch="day", state=tmp_path / "s")
    # The table of images was written, the state was not.
    (tmp_path / "s" / STATE).write_bytes(state)
    again = monitor_run(solved / "out", solved / "day23.csv", batch="day", state=tmp_path / "s")
    assert again.counted == whole.counted == 100
    assert again.streams == whole.streams


def test_other_weights_begin_a_new_watch_only_if_asked(solved: Path, tmp_path: Path) -> None:
    shutil.copytree(solved, tmp_path / "run")
    out, new = tmp_path / "run" / "out", tmp_path / "run" / "day1.csv"
    monitor_run(out, new)
    with refused(ConfigError, key="max_uncovered"):
        monitor_run(out, new, max_uncovered=0.1)
    table = pd.read_csv(tmp_path / "run" / "t.csv")
    table.iloc[:-3].to_csv(tmp_path / "run" / "t.csv", index=False)
    command = ["weigh", str(tmp_path / "run" / "run.toml"), "-o", str(out), "--overwrite", "-q"]
    assert run_command(command) == 0
    with refused(ConfigError, option="--restart", key="weights"):
        monitor_run(out, new)
    assert monitor_run(out, new, restart=True).looks == monitor_run(out, new).looks


def test_target_images_outside_the_pool(solved: Path, tmp_path: Path) -> None:
    frame = _day(1, np.random.default_rng(3)).drop(columns="site")
    frame.loc[:19, "shade"] = "pitch black"
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = monitor_run(solved / "out", tmp_path / "new.csv", target=True, state=tmp_path / "s")
    (stream,) = found.streams
    assert stream.kind == "target"
    assert stream.outside.outside == 20
    assert stream.unseen == (("shade", "pitch black", 20),)
    assert found.drifted
    assert stream.outside.low > 0.05


def test_images_that_cannot_be_used_are_refused_by_name(solved: Path, tmp_path: Path) -> None:
    day = _day(1, np.random.default_rng(3))
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
        monitor(day, source="north", target=True)
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


def test_a_state_that_was_cut_off_is_refused(solved: Path, tmp_path: Path) -> None:
    monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")
    (tmp_path / "s" / STATE).write_text("{")
    with refused(DataError, path=str(tmp_path / "s" / STATE)):
        monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")


def test_columns_that_new_images_lack_are_named(solved: Path, tmp_path: Path) -> None:
    frame = _day(1, np.random.default_rng(4)).drop(columns="species")
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = monitor_run(solved / "out", tmp_path / "new.csv", state=tmp_path / "s")
    assert any("label" in note for note in found.notes)
    assert next(one for one in found.streams[0].variables if one.variable == "label").units == 0


def test_groups_are_needed_where_the_run_has_them(solved: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = _day(0, rng, n=60).assign(burst=[f"b{k // 3}" for k in range(120)])
    table.to_csv(tmp_path / "t.csv", index=False)
    roles = 'source = "site"\ngroup = "burst"\n'
    (tmp_path / "run.toml").write_text(TABLE_SOURCES + roles + _MODEL)
    out = weigh(tmp_path / "run.toml")
    new = _day(1, rng, n=12).assign(burst=[f"n{k // 2}" for k in range(24)])
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


def test_exit_codes_and_json(solved: Path, tmp_path: Path, capsys: Captured) -> None:
    base = ["monitor", str(solved / "out")]
    one = [*base, str(solved / "day1.csv"), "--state", str(tmp_path / "s")]
    assert run_command([*one, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert run_command([*base, str(solved / "days.csv"), "--batch", "day", *one[3:], "--json"]) == 3
    record = json.loads(capsys.readouterr().out)
    assert record["drifted"]
    assert record["known"] == 50
    assert run_command([*base, str(tmp_path / "nothing.csv")]) == 2
    assert run_command([*one, "--restart"]) == 0
    assert "north" in capsys.readouterr().out


def test_the_page_shows_hostile_names_and_requests_nothing(solved: Path, tmp_path: Path) -> None:
    frame = _day(1, np.random.default_rng(3)).drop(columns="site")
    frame.loc[:19, "shade"] = "<script>alert(1)</script>"
    frame.to_csv(tmp_path / "new.csv", index=False)
    monitor_run(solved / "out", tmp_path / "new.csv", target=True, state=tmp_path / "s")
    page = (tmp_path / "s" / PAGE).read_text()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<figure") == 1
    assert "Drift" in page
