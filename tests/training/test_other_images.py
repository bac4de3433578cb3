"""Other images, evaluated with the model of a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from training_runs import (
    FEW,
    read_json,
    write_shapes,
)
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


def test_other_images_are_judged_by_the_model_of_the_folder_alone(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The results lie elsewhere and the data are gone; images of the run itself give the scores
    that its predictions have.
    """
    out = tmp_path / "moved"
    shutil.copytree(shapes / "results", out)
    saved = tmp_path / "preds.csv"
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(shapes / "new" / "day"),
                *FEW,
                "--save",
                str(saved),
                "--json",
            ]
        )
        == 0
    )
    found, table = json.loads(capsys.readouterr().out), pd.read_csv(saved)
    assert found["coverage"]["judged"] == 24
    assert found["overall"]["figures"]["accuracy"]["value"] == pytest.approx(
        (table["y"] == table["prediction"]).mean()
    )
    assert [part["column"] for part in found["breakdowns"]][:2] == ["source", "y"]
    assert not any("exact copies" in note for note in found["notes"])
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(shapes / "night"),
                *FEW,
                "--save",
                str(tmp_path / "night.parquet"),
                "--json",
            ]
        )
        == 0
    )
    assert any(
        "60 of these images are exact copies" in note
        for note in json.loads(capsys.readouterr().out)["notes"]
    )
    again = pd.read_parquet(tmp_path / "night.parquet").set_index("id")
    held_out = pd.read_parquet(out / "predictions.parquet").set_index("id")
    held_out = held_out[held_out.index.str.startswith("night")]
    assert len(held_out)
    assert again.loc[held_out.index, "score_disc"].to_numpy() == pytest.approx(
        held_out["score_disc"].to_numpy(), abs=1e-6
    )


def test_images_of_an_unknown_class_are_an_error(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    write_shapes(tmp_path / "new", {"day": {"disc": 2, "sqare": 3}})
    assert run_command(["evaluate", str(shapes / "results"), str(tmp_path / "new" / "day")]) == 4
    said = capsys.readouterr().err
    assert "3 of 5 images have labels that are no class of the run: sqare" in said
    assert "Did you mean" in said
    assert run_command(["evaluate", str(shapes / "results")]) == 2
    assert "Got neither" in capsys.readouterr().err
    assert (
        run_command(
            [
                "evaluate",
                str(shapes / "results"),
                str(tmp_path / "new" / "day"),
                "--arm",
                "subsample",
            ]
        )
        == 2
    )
    assert "it trained debiased, naive" in capsys.readouterr().err


def test_a_checkpoint_of_another_model_is_refused(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The model of a run is replaced by one of two other classes' number."""
    out = tmp_path / "results"
    shutil.copytree(shapes / "results", out)
    record = read_json(out / "training.json") | {"classes": ["disc", "square", "star"]}
    (out / "training.json").write_text(json.dumps(record))
    assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
    assert "other classes" in capsys.readouterr().err
    (out / "training.json").write_text(json.dumps(record | {"classes": 3}))
    assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
    assert "no record of a training" in capsys.readouterr().err
    (out / "training.json").write_text(json.dumps(record))
    assert (
        run_command(
            [
                "evaluate",
                str(out),
                str(shapes / "new" / "day"),
                "--save",
                str(tmp_path / "nowhere" / "x.csv"),
            ]
        )
        == 2
    )
    assert "there is no folder" in capsys.readouterr().err
    shutil.copy(shapes / "results" / "training.json", out)
    for content in ((out / "arms" / "naive" / "model.pt").read_bytes(), b"nothing"):
        (out / "arms" / "debiased" / "model.pt").write_bytes(content)
        assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
        said = capsys.readouterr().err
        assert "the checkpoint of another model, or damaged" in said
        assert "--force" in said
    both = ["--arm", "debiased", "--arm", "naive", *FEW, "--quiet"]
    assert run_command(["train", str(shapes / "run.toml"), "-o", str(out), *both, "--resume"]) == 4
    assert "the checkpoint of another model" in capsys.readouterr().err
    (out / "training.json").write_text(
        json.dumps({name: value for name, value in record.items() if name != "models"})
    )
    assert run_command(["evaluate", str(out), str(shapes / "new" / "day")]) == 4
    assert "cannot be read" in capsys.readouterr().err
