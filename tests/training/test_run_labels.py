"""`unskew train` and `unskew evaluate` on images with any number of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from run_data import error_of
from unskew.cli.app import run_command

pytest.importorskip("torch")

LABELS = ("edema", "effusion", "nodule")
CONFIGURATION = """
[sources]
manifest = "images.csv"
labels = ["edema", "effusion", "nodule"]
images = false

[target.margins.age]
old = 0.7
young = 0.3

[bias]
family = "strata"
by = ["age"]

[learn]
preset = "probe"
ridge = 0.01
way = "half"
arms = ["debiased", "naive"]
"""


def write_table(path: Path, n: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    old = rng.random(n) < np.where(np.arange(n) < 0.7 * n, 0.1, 0.6)
    present = rng.random((n, 3)) < np.where(old[:, None], (0.6, 0.5, 0.3), (0.1, 0.15, 0.3))
    frame = pd.DataFrame(
        {
            "id": [f"{seed}-{at}" for at in range(n)],
            "source": np.where(np.arange(n) < 0.7 * n, "clinic", "ward"),
            "age": np.where(old, "old", "young"),
        }
    )
    for m, name in enumerate(LABELS):
        frame[name] = present[:, m].astype(int)
        frame[f"x_{m}"] = 1.5 * present[:, m] + rng.normal(size=n)
    frame["nodule"] = frame["nodule"].mask(rng.random(n) < 0.2)
    frame.to_csv(path, index=False)
    return frame


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("findings")
    write_table(folder / "images.csv")
    write_table(folder / "new.csv", 200, seed=1)
    (folder / "run.toml").write_text(CONFIGURATION)
    out = str(folder / "out")
    assert run_command(["train", str(folder / "run.toml"), "-o", out, "--quiet"]) == 0
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_metrics_and_the_card_are_by_label(findings: Path) -> None:
    out = findings / "out"
    metrics = read(out / "metrics.json")
    assert metrics["task"] == "multi-label"
    assert metrics["classes"] == list(LABELS)
    labels = next(part for part in metrics["breakdowns"] if part["column"] == "y")
    wanted = {"auroc", "average_precision", "f1", "label_accuracy", "calibration_error"}
    for cell in labels["cells"]:
        assert wanted <= set(cell["figures"])
        assert cell["figures"]["auroc"]["interval"] is not None
    assert metrics["gains"]["naive"]["label_accuracy"]["interval"] is not None
    assert set(metrics["way"]["labels"]) == set(LABELS)
    card = (out / "model-card.md").read_text(encoding="utf-8")
    assert "mean of 3 labels" in card
    assert "Worst label" in card
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "mean of 3 labels" in page
    predictions = pd.read_parquet(out / "predictions.parquet")
    assert predictions["y_nodule"].isna().any()
    assert not predictions["y_edema"].isna().any()


def test_predictions_are_evaluated_as_they_were_trained(findings: Path, capsys: Any) -> None:
    out = findings / "out"
    given = ["evaluate", str(out), "--predictions", str(out / "predictions.parquet"), "--json"]
    assert run_command([*given, "--by", "age"]) == 0
    again, metrics = json.loads(capsys.readouterr().out), read(out / "metrics.json")
    assert again["overall"] == metrics["overall"]
    assert again["breakdowns"] == metrics["breakdowns"]


def test_other_images_are_read_as_those_of_the_run(findings: Path, capsys: Any) -> None:
    given = ["evaluate", str(findings / "out"), str(findings / "new.csv"), "--json"]
    assert run_command([*given, "--replicates", "0"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["task"] == "multi-label"
    assert set(result["arms"]) == {"debiased", "naive"}
    table = pd.read_csv(findings / "new.csv")
    known = table["nodule"].notna().sum()
    nodule = next(cell for cell in result["breakdowns"][1]["cells"] if cell["name"] == "nodule")
    assert nodule["images"] == (table["nodule"] == 1).sum()
    assert any(f"nodule ({len(table) - known})" in note for note in result["notes"])


def test_a_folder_is_resumed_exported_and_verified(findings: Path) -> None:
    out = str(findings / "out")
    assert run_command(["train", str(findings / "run.toml"), "-o", out, "--resume", "--quiet"]) == 0
    assert run_command(["verify", out, "--quiet"]) == 0
    for form in ("csv", "jsonl"):
        place = str(findings / f"weights.{form}")
        assert run_command(["export", out, "--to", form, "-o", place, "--quiet"]) == 0


def test_what_labels_cannot_do_is_refused_by_name(findings: Path, capsys: Any) -> None:
    given = ["train", str(findings / "run.toml"), "-o", str(findings / "other")]
    for arm in ("class_balanced", "logit_adjustment"):
        error = error_of([*given, "--arm", arm, "--arm", "debiased"], capsys)
        assert (error["exit_code"], error["facts"]["value"]) == (2, arm)
    error = error_of([*given, "--way", "head"], capsys)
    assert (error["exit_code"], error["facts"]["value"]) == (2, "head")


def test_unknown_labels_of_other_images_are_refused(findings: Path, capsys: Any) -> None:
    given = ["evaluate", str(findings / "out")]
    table = pd.read_csv(findings / "new.csv")
    table.drop(columns="nodule").to_csv(findings / "fewer.csv", index=False)
    error = error_of([*given, str(findings / "fewer.csv")], capsys)
    assert (error["exit_code"], error["facts"]["column"]) == (4, "nodule")
    table.assign(nodule="yes").to_csv(findings / "words.csv", index=False)
    error = error_of([*given, str(findings / "words.csv")], capsys)
    assert (error["exit_code"], error["facts"]["column"]) == (4, "nodule")


def test_a_label_that_nobody_has_is_said(tmp_path: Path, capsys: Any) -> None:
    write_table(tmp_path / "images.csv", 300).assign(nodule=0).to_csv(
        tmp_path / "images.csv", index=False
    )
    (tmp_path / "run.toml").write_text(CONFIGURATION)
    out = tmp_path / "out"
    given = ["train", str(tmp_path / "run.toml"), "-o", str(out), "--replicates", "20"]
    assert run_command(given) == 0
    assert "nodule" in capsys.readouterr().out
    assert any("nodule" in note for note in read(out / "metrics.json")["notes"])
    assert read(out / "training.json")["unlearned"] == ["nodule"]
