"""What a stranger met who tried to break the command line: each was broken once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import write_picture
from unskew.cli import run_command

pytestmark = pytest.mark.filterwarnings("ignore::unskew.errors.UnskewWarning")
Captured = pytest.CaptureFixture[str]

TABLE = """\
[sources]
manifest = "t.csv"
images = false
"""
STRATA = """
[target]
uniform = "label"

[bias]
family = "strata"
by = ["label"]
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two sources without images; the configuration."""
    rng = np.random.default_rng(0)
    label = rng.choice(["cat", "dog"], 80)
    frame = pd.DataFrame({"source": np.repeat(["a", "b"], 40), "label": label, "z": rng.normal(size=80)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "run.toml").write_text(TABLE + STRATA)
    return tmp_path / "run.toml"


def test_several_labels_for_an_image(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"source": np.repeat(["a", "b"], 30), "label": rng.choice(["cat", "dog", "cat;dog"], 60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    everything = '\n[bias]\nfamily = "subpopulation"\nqueries = { a = "all", b = "all" }\n'
    (tmp_path / "run.toml").write_text(TABLE + 'label_separator = ";"\n' + everything)
    assert run_command(["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    assert run_command(["verify", str(tmp_path / "out"), "--quiet"]) == 0
    (tmp_path / "run.toml").write_text(TABLE + 'label_separator = ";"\n' + STRATA)
    assert run_command(["check", str(tmp_path / "run.toml")]) == 4
    assert "label holds lists" in capsys.readouterr().err


WRONG = {
    "no such command": (["wiegh", "--json"], 2),
    "no argument": (["check", "--json"], 2),
    "no such option": (["check", "run.toml", "--json", "--sed", "3"], 2),
    "a negative seed": (["check", "run.toml", "--json", "--seed", "-1"], 2),
    "no cores": (["check", "run.toml", "--json", "--jobs", "0"], 2),
    "no configuration": (["check", "nothing.toml", "--json"], 2),
    "no place": (["describe", "nothing", "--json"], 2),
    "an empty folder": (["describe", "empty", "--json"], 4),
    "a place that init cannot read": (["init", "empty", "--json", "-o", "new.toml"], 4),
    "a configuration that is there": (["init", "t.csv", "--json", "-o", "run.toml"], 2),
    "no results": (["verify", "nothing", "--json"], 4),
    "no page": (["report", "nothing", "--json"], 4),
    "nothing to export": (["export", "nothing", "--to", "csv", "--json"], 4),
    "no such format": (["export", "nothing", "--to", "xls", "--json"], 2),
    "no shares": (["split", "run.toml", "--shares", "train", "--json"], 2),
    "not identifiable": (["check", "uncovered.toml", "--json"], 3),
    "a demo in a folder of others": (["demo", "-o", ".", "--json"], 2),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_goes_wrong_is_json_too(case: str, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(table.parent)
    (table.parent / "empty").mkdir()
    (table.parent / "uncovered.toml").write_text(
        table.read_text().replace('uniform = "label"', "margins.label = { cat = 1, dog = 1, fox = 1 }")
    )
    arguments, code = WRONG[case]
    assert run_command(arguments) == code
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert "Traceback" not in shown.err
    if code != 3:
        assert told["error"]["exit_code"] == code
        assert len(told["error"]["message"]) > 10


def test_every_mistake_of_a_configuration_is_in_the_json(table: Path, capsys: Captured) -> None:
    table.write_text(table.read_text().replace("images", "imges").replace("family", "famly"))
    assert run_command(["check", str(table), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert {each["line"] for each in problems} >= {3}
    assert {each["key"] for each in problems} >= {"sources.imges", "bias.famly"}


def test_a_bug_and_a_stop_are_json_too(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    for error, code in ((ZeroDivisionError("a bug"), 1), (KeyboardInterrupt(), 130), (MemoryError(), 4), (OSError(28, "No space left"), 4)):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("unskew.pipeline.weigh_splits", fail)
        assert run_command(["check", str(table), "--json"]) == code
        assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code


def test_every_command_that_ends_well_prints_json(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
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


def test_what_the_library_logs_is_a_note_and_quiet_is_quiet(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    for at in range(4):
        write_picture(tmp_path / "photos" / ("cat" if at else "") / f"p{at}.png", rng.uniform(40, 220, 3), rng, side=8)
    assert run_command(["describe", str(tmp_path / "photos"), "--quick"]) == 0
    assert capsys.readouterr().err.startswith("note: ")
    assert run_command(["describe", str(tmp_path / "photos"), "--quick", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not logging.getLogger("unskew").handlers


def test_names_with_escape_sequences_are_shown_not_obeyed(tmp_path: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(tmp_path / "\x1b[31mred")]) == 2
    assert "\x1b" not in capsys.readouterr().err
