"""`unskew monitor` on files: state between looks, what is counted, drift and its date."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from monitored_run import draw_day
from raising import refused
from unskew import monitor_run
from unskew.cli.app import run_command
from unskew.errors import ConfigError, DataError
from unskew.files.checksums import LISTING
from unskew.runs.monitor import IMAGES, PAGE, RECORD, STATE


def _state(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / STATE).read_text())
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
    assert {path.name for path in (tmp_path / "s").iterdir()} == {
        *(IMAGES, PAGE, RECORD, STATE),
        "files.json",
    }
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


def test_a_state_and_images_of_different_looks_are_refused(solved: Path, tmp_path: Path) -> None:
    """They are written together; a process that is killed leaves those of one look."""
    monitor_run(solved / "out", solved / "day1.csv", batch="day", state=tmp_path / "s")
    state = (tmp_path / "s" / STATE).read_bytes()
    monitor_run(solved / "out", solved / "day23.csv", batch="day", state=tmp_path / "s")
    (tmp_path / "s" / STATE).write_bytes(state)
    with refused(DataError, path=str(tmp_path / "s" / STATE)):
        monitor_run(solved / "out", solved / "day23.csv", batch="day", state=tmp_path / "s")


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
    frame = draw_day(1, np.random.default_rng(3)).drop(columns="site")
    frame.loc[:19, "shade"] = "pitch black"
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = monitor_run(solved / "out", tmp_path / "new.csv", of_target=True, state=tmp_path / "s")
    (stream,) = found.streams
    assert stream.kind == "target"
    assert stream.outside.outside == 20
    assert stream.unseen == (("shade", "pitch black", 20),)
    assert found.drifted
    assert stream.outside.low > 0.05


def test_a_state_that_was_cut_off_is_refused(solved: Path, tmp_path: Path) -> None:
    monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")
    path = tmp_path / "s" / STATE
    good = json.loads(path.read_text())
    changes = [{"looks": {}}, {"looks": [1, 2]}, {"evidence": "x"}, {"evidence": [{"north": "x"}]}]
    for text in ["{", *(json.dumps(good | change) for change in changes)]:
        path.write_text(text)
        with refused(DataError, path=str(path)):
            monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")


@pytest.mark.parametrize(
    "change",
    [
        {"settings": []},
        {"looks": {"0": 1}},
        {"looks": ["a", "b"]},
        {"evidence": [None]},
        {"evidence": []},
        {"evidence": [{"a": {"label": "x"}}]},
        {"evidence": [{"another source": {"label": 0.5}}]},
    ],
)
def test_a_state_that_somebody_invented_is_refused(
    solved: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    """Its checksum is right: the stranger wrote that, too."""
    monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")
    path = tmp_path / "s" / STATE
    path.write_text(json.dumps(_state(tmp_path / "s") | change))
    (tmp_path / "s" / LISTING).unlink()
    with refused(DataError, path=str(path)):
        monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")


@pytest.mark.parametrize("lost", ["north", "(all sources)", "(target)"])
def test_a_state_that_lost_a_whole_stream_is_refused(
    solved: Path, tmp_path: Path, lost: str
) -> None:
    monitor_run(solved / "out", solved / "day1.csv", state=tmp_path / "s")
    path, state = tmp_path / "s" / STATE, _state(tmp_path / "s")
    del state["evidence"][0][lost]
    path.write_text(json.dumps(state))
    (tmp_path / "s" / LISTING).unlink()
    with refused(DataError, path=str(path), names=[lost]):
        monitor_run(solved / "out", solved / "day23.csv", state=tmp_path / "s")


def test_a_link_in_the_results_does_not_say_where_the_state_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "monitor").symlink_to(tmp_path / "elsewhere")
    with refused(ConfigError, option="--state", path=str(tmp_path / "results" / "monitor")):
        monitor_run(tmp_path / "results", tmp_path)
    assert not list((tmp_path / "elsewhere").iterdir())
