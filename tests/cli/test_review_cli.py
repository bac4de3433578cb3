"""What a stranger met who tried to break the command line: each was broken once."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import write_picture
from unskew.cli.app import run_command

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
    frame = pd.DataFrame(
        {"source": np.repeat(["a", "b"], 40), "label": label, "z": rng.normal(size=80)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "run.toml").write_text(TABLE + STRATA)
    return tmp_path / "run.toml"


def test_a_reader_that_goes_away_is_no_error(table: Path) -> None:
    """`unskew check run.toml | head -1`."""
    for further in ([], ["--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-m", "unskew", "check", str(table), *further],
            stdout=writing,
            stderr=subprocess.PIPE,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")


def test_several_labels_for_an_image(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"source": np.repeat(["a", "b"], 30), "label": rng.choice(["cat", "dog", "cat;dog"], 60)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    everything = '\n[bias]\nfamily = "subpopulation"\nqueries = { a = "all", b = "all" }\n'
    (tmp_path / "run.toml").write_text(TABLE + 'label_separator = ";"\n' + everything)
    assert (
        run_command(["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"])
        == 0
    )
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
def test_what_goes_wrong_is_json_too(
    case: str, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(table.parent)
    (table.parent / "empty").mkdir()
    (table.parent / "uncovered.toml").write_text(
        table.read_text().replace(
            'uniform = "label"', "margins.label = { cat = 1, dog = 1, fox = 1 }"
        )
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


def test_a_bug_and_a_stop_are_json_too(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for error, code in (
        (ZeroDivisionError("a bug"), 1),
        (KeyboardInterrupt(), 130),
        (MemoryError(), 4),
        (OSError(28, "No space left"), 4),
    ):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("unskew.runs.pipeline.weigh_splits", fail)
        assert run_command(["check", str(table), "--json"]) == code
        assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code


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


def test_what_the_library_logs_is_a_note_and_quiet_is_quiet(
    tmp_path: Path, capsys: Captured
) -> None:
    rng = np.random.default_rng(0)
    for at in range(4):
        write_picture(
            tmp_path / "photos" / ("cat" if at else "") / f"p{at}.png",
            rng.uniform(40, 220, 3),
            rng,
            side=8,
        )
    assert run_command(["describe", str(tmp_path / "photos"), "--quick"]) == 0
    assert capsys.readouterr().err.startswith("note: ")
    assert run_command(["describe", str(tmp_path / "photos"), "--quick", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not logging.getLogger("unskew").handlers


def test_names_with_escape_sequences_are_shown_not_obeyed(tmp_path: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(tmp_path / "\x1b[31mred")]) == 2
    assert "\x1b" not in capsys.readouterr().err


def weighed(table: Path, out: str = "out") -> Path:
    assert run_command(["weigh", str(table), "-o", str(table.parent / out), "--quiet"]) == 0
    return table.parent / out


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 4, b"a,b\n1,2\n", b'"id'])
def test_a_broken_table_of_splits_is_said_in_words(
    content: bytes, table: Path, capsys: Captured
) -> None:
    (table.parent / "splits.csv").write_bytes(content)
    table.write_text(table.read_text().replace("images", 'split = { file = "splits.csv" }\nimages'))
    assert run_command(["check", str(table)]) == 4
    shown = capsys.readouterr().err
    assert "splits.csv" in shown
    assert "unskew split" in shown


def test_splitting_what_is_split(table: Path, capsys: Captured) -> None:
    splits = table.parent / "splits.csv"
    assert (
        run_command(
            ["split", str(table), "-o", str(splits), "--shares", "train=0.6,test=0.4", "--json"]
        )
        == 0
    )
    assert list(json.loads(capsys.readouterr().out)["a"]) == ["train", "test"]
    table.write_text(table.read_text().replace("images", 'split = { file = "splits.csv" }\nimages'))
    assert run_command(["split", str(table), "-o", str(table.parent / "again.csv")]) == 2
    shown = capsys.readouterr().err
    assert "[sources]" in shown
    assert "overwrite=True" not in shown


def test_a_split_has_one_share(table: Path, capsys: Captured) -> None:
    assert run_command(["split", str(table), "--shares", "train=0.5,train=0.5"]) == 2
    assert "'train' has two shares" in capsys.readouterr().err


def test_features_of_pixels_need_images(table: Path, capsys: Captured) -> None:
    table.write_text(table.read_text() + '\n[represent]\nfeatures = ["brightness"]\n')
    assert run_command(["check", str(table)]) == 2
    assert "images = false" in capsys.readouterr().err


def test_a_target_sample_may_be_a_table_too(table: Path) -> None:
    pd.DataFrame({"label": ["cat", "cat", "dog"] * 20, "other": 1}).to_csv(
        table.parent / "sample.csv", index=False
    )
    table.write_text(table.read_text().replace('uniform = "label"', 'sample = "sample.csv"'))
    weights = pd.read_parquet(weighed(table) / "weights.parquet")
    np.testing.assert_allclose(weights.groupby("label")["weight"].sum()["cat"], 2 / 3)


def test_verify_where_there_is_nothing(tmp_path: Path, capsys: Captured) -> None:
    assert run_command(["verify", str(tmp_path / "nothing")]) == 4
    assert "there is no folder" in capsys.readouterr().err
    assert run_command(["verify", str(tmp_path)]) == 4
    shown = capsys.readouterr().err
    assert "holds no report.json" in shown
    assert "JSON (" not in shown


def test_results_moved_away_from_the_data(
    table: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Captured
) -> None:
    moved = tmp_path_factory.mktemp("elsewhere") / "deep" / "results"
    moved.parent.mkdir()
    weighed(table).rename(moved)
    assert run_command(["verify", str(moved)]) == 2
    assert "--data" in capsys.readouterr().err
    assert run_command(["verify", str(moved), "--data", str(table.parent / "nothing")]) == 2
    assert run_command(["verify", str(moved), "--data", str(table.parent)]) == 0
    assert "Everything agrees" in capsys.readouterr().out


def test_quiet_verify_shows_what_differs_alone(table: Path, capsys: Captured) -> None:
    out = weighed(table)
    assert run_command(["verify", str(out), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    weights = pd.read_parquet(out / "weights.parquet")
    weights.assign(weight=weights["weight"][::-1].to_numpy()).to_parquet(
        out / "weights.parquet", index=False
    )
    assert run_command(["verify", str(out), "--quiet"]) == 4
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("DIFFERS")
    assert not [line for line in shown if line.startswith("ok")]


def test_titles_are_not_folded_by_narrow_tables(table: Path, capsys: Captured) -> None:
    assert run_command(["describe", str(table.parent / "t.csv")]) == 0
    assert "Classes: images in all, and in each source\n" in capsys.readouterr().out


def test_results_never_take_the_place_of_the_configuration(table: Path, capsys: Captured) -> None:
    before = table.read_text()
    assert run_command(["weigh", str(table), "-o", str(table.parent), "--overwrite"]) == 2
    assert "-o" in capsys.readouterr().err
    assert table.read_text() == before
    other = table.with_name("other.toml")
    other.write_text(before)
    assert run_command(["weigh", str(other), "-o", str(table.parent)]) == 2
    assert table.read_text() == before


def test_a_refusal_leaves_no_weights_of_another_run(table: Path) -> None:
    out = weighed(table)
    (out / "notes.txt").write_text("mine")
    table.write_text(
        table.read_text().replace(
            'uniform = "label"', "margins.label = { cat = 1, dog = 1, fox = 1 }"
        )
    )
    assert run_command(["weigh", str(table), "-o", str(out), "--overwrite", "--quiet"]) == 3
    assert sorted(each.name for each in out.iterdir()) == [
        "notes.txt",
        "report.html",
        "report.json",
        "run.toml",
    ]
    assert run_command(["verify", str(out), "--quiet"]) == 0
    table.write_text(TABLE + STRATA)
    assert run_command(["weigh", str(table), "-o", str(out), "--quiet"]) == 0


def test_stopped_while_writing_the_same_command_goes_on(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = weighed(table)
    before = {each.name: each.read_bytes() for each in out.iterdir()}

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("unskew.runs.output.write_summary", stopped)
        assert (
            run_command(["weigh", str(table), "-o", str(out), "--overwrite", "--seed", "3"]) == 130
        )
        assert {each.name: each.read_bytes() for each in out.iterdir()} == before
        command = ["weigh", str(table), "-o", str(table.parent / "new"), "--quiet"]
        assert run_command(command) == 130
        assert not (table.parent / "new").exists()
    assert run_command(command) == 0


def test_images_that_stop_a_run_are_listed(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    for at in range(8):
        write_picture(
            tmp_path / "photos" / ("cat" if at % 2 else "dog") / f"p{at}.png",
            rng.uniform(40, 220, 3),
            rng,
            side=8,
        )
    (tmp_path / "photos" / "cat" / "p1.png").write_text("no picture")
    assert (
        run_command(["init", str(tmp_path / "photos"), "-o", str(tmp_path / "run.toml"), "--quiet"])
        == 0
    )
    command = ["weigh", str(tmp_path / "run.toml"), "-o", str(tmp_path / "out"), "--quiet"]
    assert run_command(command) == 4
    assert "unreadable.csv" in capsys.readouterr().err
    assert pd.read_csv(tmp_path / "out" / "unreadable.csv")["id"].tolist() == ["photos/cat/p1.png"]
    (tmp_path / "photos" / "cat" / "p1.png").unlink()
    assert run_command(command) == 0
    assert not (tmp_path / "out" / "unreadable.csv").exists()


def test_a_path_through_a_file_is_said(table: Path, capsys: Captured) -> None:
    assert run_command(["weigh", str(table), "-o", str(table.parent / "t.csv" / "out")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    rng = np.random.default_rng(0)
    for at in range(8):
        write_picture(
            tmp_path / "photos" / ("cat" if at % 2 else "dog") / f"p{at}.png",
            rng.uniform(40, 220, 3),
            rng,
            side=8,
        )
    assert (
        run_command(["init", str(tmp_path / "photos"), "-o", str(tmp_path / "run.toml"), "--quiet"])
        == 0
    )
    monkeypatch.setattr("unskew.runs.inputs.may_write", lambda folder: False)
    assert run_command(["check", str(tmp_path / "run.toml")]) == 0
    assert "represent.cache" in capsys.readouterr().err
    assert not (tmp_path / ".unskew-cache").exists()


def test_what_a_missing_key_expects_is_one_line(table: Path, capsys: Captured) -> None:
    table.write_text(TABLE + '\n[bias]\nfamily = "known"\n')
    assert run_command(["check", str(table)]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert "{source: column | function | number}" in first
    assert "``" not in first
    assert len(first) < 250


def test_files_into_folders_that_are_not_there(table: Path, capsys: Captured) -> None:
    for command in (["init", str(table.parent / "t.csv")], ["split", str(table)]):
        assert run_command([*command, "-o", str(table.parent / "nowhere" / "new")]) == 2
        assert "there is no folder" in capsys.readouterr().err
        assert run_command([*command, "-o", str(table.parent), "--overwrite"]) == 2
        assert "is a folder" in capsys.readouterr().err


def test_groups_in_the_pool_but_not_in_the_sample() -> None:
    import unskew

    rng = np.random.default_rng(0)
    pool = unskew.Pool.from_arrays(
        rng.choice(["a", "b"], 120), z=rng.normal(size=120), group=[f"g{at}" for at in range(120)]
    )
    sample = unskew.Pool.from_arrays(["t"] * 60, z=rng.normal(size=60))
    weights = unskew.debias(pool, unskew.bias.Tilt(["z"]), unskew.Target.sample(sample))
    assert weights.ess_groups is not None


def test_one_source_is_linked_to_nothing(table: Path, capsys: Captured) -> None:
    pd.DataFrame({"source": "a", "label": ["cat", "dog"] * 20}).to_csv(
        table.parent / "t.csv", index=False
    )
    assert run_command(["check", str(table)]) == 0
    assert "linked to one another" not in capsys.readouterr().out


def test_stopped_while_the_command_line_is_still_loading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C within the first moments, in the middle of an import: words and 130, no traceback."""
    import builtins
    import sys

    from unskew.__main__ import main

    real = builtins.__import__

    def stopped(name: str, *rest: object, **named: object) -> object:
        if name == "unskew.cli.app":
            raise KeyboardInterrupt
        return real(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "unskew.cli.app", raising=False)
    monkeypatch.setattr(builtins, "__import__", stopped)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "unskew: Stopped. Nothing had begun yet.\n"
