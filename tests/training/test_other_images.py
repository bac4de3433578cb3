"""Other images, evaluated with the model of a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from run_data import error_of
from training_runs import (
    FEW,
    read_json,
    write_shapes,
)
from unskew.cli.app import run_command
from unskew.files.fingerprints import fingerprint_file
from unskew.training import other_images

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
    assert not any("Exact copies" in note for note in found["notes"])
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
        "Exact copies of images of the run: 60 of" in note
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
    judge = ["evaluate", str(shapes / "results"), str(tmp_path / "new" / "day")]
    error = error_of(judge, capsys)
    assert error["exit_code"] == 4
    assert error["facts"] == {
        "column": "label",
        "levels": ["sqare"],
        "allowed": ["disc", "square"],
        "count": 3,
    }
    assert "Did you mean 'square'?" in error["message"]
    error = error_of(["evaluate", str(shapes / "results")], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"option": "--predictions"})
    assert "neither" in error["message"]
    error = error_of([*judge, "--arm", "subsample"], capsys)
    assert error["exit_code"] == 2
    assert error["facts"]["allowed"] == ["debiased", "naive"]


def test_a_checkpoint_of_another_model_is_refused(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "results"
    shutil.copytree(shapes / "results", out)
    judge = ["evaluate", str(out), str(shapes / "new" / "day")]
    record = read_json(out / "training.json") | {"classes": ["disc", "square", "star"]}
    (out / "training.json").write_text(json.dumps(record))
    error = error_of(judge, capsys)
    assert (error["exit_code"], error["kind"]) == (4, "MixedResultsError")
    # What follows is seen without checksums, too.
    (out / "files.json").unlink()
    error = error_of(judge, capsys)
    assert (error["exit_code"], error["facts"]["levels"]) == (4, ["disc", "square"])
    assert error["facts"]["allowed"] == ["disc", "square", "star"]
    (out / "training.json").write_text(json.dumps(record | {"classes": 3}))
    error = error_of(judge, capsys)
    assert (error["exit_code"], error["facts"]) == (4, {"path": str(out / "training.json")})
    (out / "training.json").write_text(json.dumps(record))
    error = error_of([*judge, "--save", str(tmp_path / "nowhere" / "x.csv")], capsys)
    assert (error["exit_code"], error["facts"]) == (2, {"path": str(tmp_path / "nowhere")})
    shutil.copy(shapes / "results" / "training.json", out)
    for content in ((out / "arms" / "naive" / "model.pt").read_bytes(), b"nothing"):
        (out / "arms" / "debiased" / "model.pt").write_bytes(content)
        error = error_of(judge, capsys)
        model = str(out / "arms" / "debiased" / "model.pt")
        assert (error["exit_code"], error["facts"]) == (4, {"path": model})
        assert "--force" in error["message"]
    both = ["--arm", "debiased", "--arm", "naive", *FEW, "--quiet"]
    resume = ["train", str(shapes / "run.toml"), "-o", str(out), *both, "--resume"]
    error = error_of(resume, capsys)
    assert (error["exit_code"], error["facts"]) == (4, {"path": model})
    (out / "training.json").write_text(
        json.dumps({name: value for name, value in record.items() if name != "models"})
    )
    assert error_of(judge, capsys)["exit_code"] == 4


def test_a_model_that_names_a_module_of_the_folder_is_not_loaded(
    shapes: Path, tmp_path: Path, capsys: Captured
) -> None:
    """The checksum of model.pt is no defence: whoever writes the one writes the other."""
    torch = pytest.importorskip("torch")
    out = tmp_path / "results"
    shutil.copytree(shapes / "results", out)
    (out / "evil_network.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    record = read_json(out / "training.json")
    path = out / "arms" / record["arm"] / "model.pt"
    state = torch.load(path, weights_only=True)
    state["settings"]["model"] = "evil_network:f"
    torch.save(state, path)
    record["models"][record["arm"]] = fingerprint_file(path)
    (out / "training.json").write_text(json.dumps(record))
    (out / "files.json").unlink()  # a stranger would have written that, too
    for folder in (tmp_path, out):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.syspath_prepend(str(out))
            error = error_of(["evaluate", str(out), str(shapes / "new" / "day"), *FEW], capsys)
        assert error["facts"]["option"] == "--allow-code"
        assert (error["exit_code"], error["facts"]["value"]) == (2, "evil_network")
    assert not (tmp_path / "ran").exists()


def test_formulas_in_saved_predictions_are_text(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["=cmd()", "a"], "score": [-0.5, 1.0]})
    other_images._save(frame, tmp_path / "saved.csv")
    assert (tmp_path / "saved.csv").read_text() == "id,score\n'=cmd(),-0.5\na,1.0\n"
