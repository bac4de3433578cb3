"""Which training an output folder contains, and what may replace or continue it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from raising import refused
from run_data import error_of
from training_runs import FEW, copy_run, read_json
from unskew import ConfigError
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


def test_force_replaces_a_training_and_leaves_other_files_alone(tmp_path: Path) -> None:
    from unskew.training.folder import check_training_folder, clear_training

    out = tmp_path / "out"
    (out / "arms" / "debiased").mkdir(parents=True)
    (out / "notes.txt").write_text("mine")
    with refused(ConfigError, path=str(out / "arms")):
        check_training_folder(out, resume=False, force=True)
    (out / "training.json").write_text(
        '{"status": "started", "arm": "a", "arms": {}, "classes": [], "preprocessing": {}}'
    )
    with refused(ConfigError, path=str(out), value="started and not finished"):
        check_training_folder(out, resume=False, force=False)
    check_training_folder(out, resume=False, force=True)
    clear_training(out)
    assert [each.name for each in out.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "metrics.json",
        "model-card.md",
        "history.csv",
        "predictions.parquet",
        "projections.npz",
        "report.html",
    ],
)
def test_files_that_no_training_wrote_are_not_replaced_without_force(
    tmp_path: Path, name: str
) -> None:
    from unskew.training.folder import check_training_folder

    (tmp_path / "forecast.json").write_text("of unskew forecast, which a training takes up")
    (tmp_path / "unreadable.csv").write_text("of a training that was refused")
    check_training_folder(tmp_path, resume=False, force=False)
    (tmp_path / name).write_text("mine")
    for resume in (False, True):
        with refused(ConfigError, path=str(tmp_path / name)):
            check_training_folder(tmp_path, resume=resume, force=False)
    check_training_folder(tmp_path, resume=False, force=True)


def test_a_table_of_splits_that_no_training_wrote_is_not_replaced(tmp_path: Path) -> None:
    from unskew.training.folder import check_split_table, check_training_folder

    check_split_table(tmp_path, "id,split\na,train\n")
    (tmp_path / "splits.csv").write_text("id,split\na,train\n")
    check_training_folder(tmp_path, resume=False, force=False)
    check_split_table(tmp_path, None)
    check_split_table(tmp_path, "id,split\na,train\n")
    with refused(ConfigError, path=str(tmp_path / "splits.csv")):
        check_split_table(tmp_path, "id,split\na,validation\n")
    for name in ("run.toml", "report.html", "report.json"):
        (tmp_path / name).write_text("of a run that was refused")
    check_training_folder(tmp_path, resume=False, force=False)
    check_split_table(tmp_path, "id,split\na,validation\n")


def test_weights_of_a_trained_model_are_not_replaced_without_the_model(
    shapes: Path, capsys: Captured
) -> None:
    out = shapes / "results"
    before = {each: each.stat().st_mtime_ns for each in out.rglob("*")}
    for options in ([], ["--overwrite"], ["--overwrite", "--seed", "3"]):
        error = error_of(["weigh", str(shapes / "run.toml"), "-o", str(out), *options], capsys)
        assert (error["exit_code"], error["facts"]) == (2, {"path": str(out)})
        assert "--force" in error["message"]
    assert {each: each.stat().st_mtime_ns for each in out.rglob("*")} == before


def test_a_run_is_neither_replaced_nor_mixed_with_another(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    run = ["train", str(shapes / "run.toml"), "-o", str(shapes / "results")]
    before = (shapes / "results" / "metrics.json").stat().st_mtime_ns
    error = error_of(run, capsys)
    assert error["facts"] == {"path": str(shapes / "results"), "value": "finished"}
    assert "--resume" in error["message"]
    assert "--force" in error["message"]
    assert error_of([*run, "--resume", "--force"], capsys)["facts"] == {"option": "--resume"}
    error = error_of([*run, "--resume", "--epochs", "3"], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"path": str(shapes / "results")})
    assert "learn.epochs is 3, and was 2" in error["message"]
    assert "debiased, and were debiased, naive" in error["message"]
    assert (shapes / "results" / "metrics.json").stat().st_mtime_ns == before
    (tmp_path / "weighed").mkdir()
    shutil.copy(shapes / "results" / "weights.parquet", tmp_path / "weighed")
    weighed = str(tmp_path / "weighed")
    error = error_of(["train", str(shapes / "run.toml"), "-o", weighed, "--resume"], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"path": weighed})


def test_a_run_that_continues_with_other_images_is_refused_and_they_are_named(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = copy_run(shapes, tmp_path)
    image = next((folder / "night" / "disc").glob("*.png"))
    shutil.copy(next((folder / "day" / "square").glob("*.png")), image)
    both = ["--arm", "debiased", "--arm", "naive"]
    assert (
        run_command(
            ["train", str(folder / "run.toml"), "-o", str(folder / "results"), "--resume", *both]
        )
        == 2
    )
    assert f"night/disc/{image.name}" in capsys.readouterr().err


def test_a_folder_that_was_renamed_can_be_continued(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Also where training.json names the table of splits by its former place, as it once did."""
    folder = copy_run(shapes, tmp_path)
    run = [
        "train",
        str(folder / "run.toml"),
        "--arm",
        "debiased",
        "--arm",
        "naive",
        *FEW,
        "--quiet",
        "--resume",
        "-o",
    ]
    before = (folder / "results" / "arms" / "naive" / "model.pt").read_bytes()
    (folder / "results").rename(folder / "moved")
    record = read_json(folder / "moved" / "training.json")
    assert record["settings"]["sources.split"] == {"file": "OUT/splits.csv"}
    record["settings"]["sources.split"] = {"file": "results/splits.csv"}
    for _ in range(2):
        assert run_command([*run, str(folder / "moved")]) == 0
        assert (folder / "moved" / "arms" / "naive" / "model.pt").read_bytes() == before
        (folder / "moved" / "training.json").write_text(json.dumps(record))
        (folder / "moved" / "files.json").unlink()  # it had none then
    record["settings"]["sources.split"] = {"file": "elsewhere/table.csv"}
    (folder / "moved" / "training.json").write_text(json.dumps(record))
    (folder / "moved" / "files.json").unlink(missing_ok=True)
    assert run_command([*run, str(folder / "moved")]) == 2
    assert '{"file": "elsewhere/table.csv"}' in capsys.readouterr().err
