"""files.json: a results folder is of one run, whenever its writer was killed, or an error."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raising import refused
from unskew import ConfigError
from unskew.errors import MixedResultsError
from unskew.files.atomic import written_together
from unskew.files.checksums import (
    LISTING,
    UNFINISHED,
    check_files,
    check_listing,
    find_changes,
    finish_publishing,
    publish,
    unfinished_folder,
)

WRITERS = Path(__file__).resolve().parents[1] / "killed_writers.py"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The results of a run, and a file of the user's."""
    _write(tmp_path / "out", {"a": "1", "b": "1", "run.toml": 'folder = ".."\nn = 3\n'})
    (tmp_path / "out" / "mine").write_text("mine")
    return tmp_path / "out"


def _write(out: Path, files: dict[str, str], names: str = "") -> None:
    with written_together(out, names) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)


def _listing(out: Path) -> dict[str, Any]:
    listing: dict[str, Any] = json.loads((out / LISTING).read_text())
    return listing


@pytest.mark.parametrize("kind", ["files", "exchange", "folder"])
def test_killed_before_any_step_the_folder_is_of_one_run(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, str(WRITERS), kind, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    outcomes = json.loads(done.stdout)
    assert [outcome["step"] for outcome in outcomes] == list(range(1, len(outcomes) + 1))
    assert {outcome["of"] for outcome in outcomes} == {"old", "new"}
    # Once the new files count, they do at every later step.
    assert [outcome["of"] for outcome in outcomes] == sorted(
        (outcome["of"] for outcome in outcomes), reverse=True
    )
    assert all(outcome["again"] for outcome in outcomes)


def test_later_files_join_the_list_and_what_is_deleted_leaves_it(out: Path) -> None:
    check_files(out, ("a", "b", "run.toml"))
    _write(out, {"c": "2", "a": "2"}, names="b")
    assert set(_listing(out)["files"]) == {"a", "c", "run.toml"}
    check_files(out, ("a", "b", "c", "run.toml"))
    (out / "c").unlink()
    check_files(out, ("a", "c"))
    assert find_changes(out) == {}


def test_a_changed_file_is_named_and_the_others_are_usable(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (out / "b").write_text("2")
    check_files(out, ("a",))
    with refused(MixedResultsError, path=str(out / "b")):
        check_files(out, ("a", "b"))
    assert caplog.messages == []
    check_files(out, ("a", "b"), force=True)
    assert str(out / "b") in caplog.text
    assert set(find_changes(out) or {}) == {"b"}


def test_the_folder_of_the_data_may_be_edited_and_no_other_setting(out: Path) -> None:
    settings = out / "run.toml"
    settings.write_text(settings.read_text().replace("..", "/data"))
    check_files(out, ("run.toml",))
    settings.write_text(settings.read_text().replace("3", "4"))
    with refused(MixedResultsError, path=str(settings)):
        check_files(out, ("run.toml",))


def test_an_older_folder_is_used_with_a_note(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    (out / LISTING).unlink()
    with caplog.at_level(logging.WARNING):
        check_files(out, ("a", "b", "not there"))
    assert "a, b" in caplog.text
    assert find_changes(out) is None
    check_files(out / "no folder", ("a",))


def _step_out(listing: dict[str, Any]) -> None:
    listing["unfinished"] = {"folder": f"{UNFINISHED}-x/../..", "removed": []}


def _delete_outside(listing: dict[str, Any]) -> None:
    listing["unfinished"] = {"folder": f"{UNFINISHED}-x", "removed": ["../precious"]}


def _delete_a_name_of_no_file(listing: dict[str, Any]) -> None:
    listing["unfinished"] = {"folder": f"{UNFINISHED}-x", "removed": ["\x00", "\ud800"]}


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"\xff\xfe", b"[]", b"[" * 99_999, b'{"format": 1, "files": 3}'),
        *(_step_out, _delete_outside, _delete_a_name_of_no_file, "a pipe"),
    ],
)
def test_a_damaged_or_hostile_list_is_an_error_and_moves_nothing(out: Path, damage: Any) -> None:
    (out.parent / "precious").write_text("precious")
    if callable(damage):
        listing = _listing(out)
        damage(listing)
        damage = json.dumps(listing).encode()
    (out / LISTING).unlink()
    (out / LISTING).write_bytes(damage) if damage != "a pipe" else os.mkfifo(out / LISTING)
    with refused(MixedResultsError, path=str(out / LISTING)):
        check_files(out, ("a",))
    finish_publishing(out)
    assert (out.parent / "precious").read_text() == "precious"
    assert unfinished_folder(out) is None


def test_no_link_is_followed_to_finish_what_a_stranger_left(out: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("precious")
    (out / f"{UNFINISHED}-x").symlink_to(elsewhere)
    journal = {"folder": f"{UNFINISHED}-x", "removed": []}
    (out / LISTING).write_text(json.dumps(_listing(out) | {"unfinished": journal}))
    with refused(MixedResultsError, path=str(out / LISTING)):
        check_files(out, ("a",))
    assert (elsewhere / "precious").exists()


def test_a_list_of_the_users_own_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / LISTING).write_text('["mine"]')
    with refused(ConfigError, path=str(tmp_path / LISTING)):
        check_listing(tmp_path)
    with refused(ConfigError, path=str(tmp_path / LISTING)), written_together(tmp_path, ()):
        pytest.fail("the block runs")
    assert (tmp_path / LISTING).read_text() == '["mine"]'


def test_a_name_that_is_a_folder_stops_before_anything_moves(out: Path) -> None:
    (out / "c").mkdir()
    staging = out / f"{UNFINISHED}-x"
    staging.mkdir()
    for name in "bc":
        (staging / name).write_text("2")
    before = _listing(out)
    with pytest.raises(IsADirectoryError):
        publish(staging, out, ())
    assert (out / "b").read_text() == "1"
    assert _listing(out) == before
