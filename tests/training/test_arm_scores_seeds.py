"""Arms trained with several seeds: each resumes by itself, and all are judged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import error_of
from training_runs import FEW, read_json, write_training_run
from unskew.cli.app import run_command

pytest.importorskip("torch")

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms, two seeds, one epoch; then a third seed of both with --resume."""
    folder = tmp_path_factory.mktemp("seeded")
    train = ["train", str(write_training_run(folder)), "-o", str(folder / "out"), "--epochs", "1"]
    train += ["--arm", "debiased", "--arm", "naive", *FEW, "--quiet"]
    assert run_command([*train, "--seeds", "2"]) == 0
    before = _models(folder / "out")
    assert run_command([*train, "--seeds", "3", "--resume"]) == 0
    after = _models(folder / "out")
    assert {name: after[name] for name in before} == before
    assert len(after) == 6
    return folder


def _models(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.glob("arms/*/model.pt")}


def test_figures_are_means_over_the_models_of_all_seeds(seeded: Path) -> None:
    out = seeded / "out"
    metrics, record = read_json(out / "metrics.json"), read_json(out / "training.json")
    assert metrics["seeds"] == record["seeds"] == [0, 1, 2]
    assert len(set(record["models"].values())) == 6
    weight = pd.read_parquet(out / "weights.parquet").set_index("id")["sample_weight"]
    values = {}
    for arm in ("debiased", "naive"):
        figure = metrics["arms"][arm]["overall"]["figures"]["accuracy"]
        tables = [
            pd.read_parquet(out / "arms" / name / "predictions.parquet")
            for name in (arm, f"{arm}-seed-1", f"{arm}-seed-2")
        ]
        values[arm] = np.array(
            [
                np.average(table["y"] == table["prediction"], weights=weight[table["id"]])
                for table in tables
            ]
        )
        assert figure["by_seed"] == pytest.approx(values[arm])
        assert figure["value"] == pytest.approx(values[arm].mean())
        assert figure["spread"] == pytest.approx(values[arm].std(ddof=1))
    gap = metrics["gains"]["naive"]["accuracy"]
    assert gap["by_seed"] == pytest.approx(values["debiased"] - values["naive"])
    by_class = next(part for part in metrics["gains_by"]["naive"] if part["column"] == "y")
    assert [cell["name"] for cell in by_class["cells"]] == ["disc", "square"]
    history = pd.read_csv(out / "history.csv")
    assert history.groupby("arm")["seed"].apply(list).to_dict() == {
        "debiased": [0, 1, 2],
        "naive": [0, 1, 2],
    }
    # One number has one interval, wherever it is shown.
    arm, figures = (
        read_json(out / "report.json")["training"]["arms"][0],
        metrics["overall"]["figures"],
    )
    page, card = ((out / name).read_text() for name in ("report.html", "model-card.md"))
    worst = next(part["worst"] for part in metrics["breakdowns"] if part["column"] == "y")
    for name, figure in (("accuracy", figures["accuracy"]), ("worst", worst)):
        assert arm[f"{name}_interval"] == pytest.approx(figure["interval"])
        ends = [100 * value for value in figure["interval"]]
        assert "({:.1f} to {:.1f})".format(*ends) in page
        assert "({:.1f}% to {:.1f}%)".format(*ends) in card
    assert figures["worst_class"]["interval"] == pytest.approx(worst["interval"])
    assert "3 seeds (0 to 2)" in card
    assert f"{100 * values['naive'].std(ddof=1):.1f} |" in card


def test_other_images_are_judged_by_every_arm_and_seed(seeded: Path, capsys: Captured) -> None:
    judge = ["evaluate", str(seeded / "out"), str(seeded / "night"), *FEW]
    assert run_command([*judge, "--json", "--save", str(seeded / "preds.csv")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["arms"]) == ["debiased", "naive"]
    assert (found["trainings"], len(found["origin"]["fingerprints"]["models"])) == (3, 6)
    saved = pd.read_csv(seeded / "preds.csv")
    accuracy = found["overall"]["figures"]["accuracy"]
    assert accuracy["by_seed"][0] == pytest.approx((saved["y"] == saved["prediction"]).mean())
    path = seeded / "out" / "training.json"
    record = path.read_text()
    path.write_text(json.dumps(json.loads(record) | {"unlearned": ["disc"]}))
    assert run_command([*judge, "--json", "--force"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(
        "40 of 60 images are of classes that train had no image of" in note for note in notes
    )
    path.write_text(record)
    assert run_command(judge) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "spread of 3 seeds" in shown
    assert "debiased against naive, accuracy by class" in shown


def test_a_second_model_is_an_arm_or_a_file(seeded: Path, capsys: Captured) -> None:
    out = seeded / "out"
    own = ["evaluate", str(out), "-p", str(out / "predictions.parquet"), *FEW, "--json"]
    assert run_command([*own, "--second", "naive"]) == 0
    pair = json.loads(capsys.readouterr().out)
    metrics = read_json(out / "metrics.json")
    naive = metrics["arms"]["naive"]["overall"]["figures"]["accuracy"]
    assert pair["models"] == ["predictions", "naive"]
    assert pair["overall"]["second"]["accuracy"]["value"] == pytest.approx(naive["value"])
    images = ["evaluate", str(out), str(seeded / "night"), *FEW, "--json"]
    assert run_command([*images, "--arm", "naive", "--save", str(seeded / "naive.csv")]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert list(alone["arms"]) == ["naive"]
    assert run_command([*images, "--arm", "debiased", "--second", str(seeded / "naive.csv")]) == 0
    other = json.loads(capsys.readouterr().out)
    # Both are called naive, but here it is the file of the first seed.
    assert list(other["arms"]) == ["debiased", "naive"]
    first = alone["overall"]["figures"]["accuracy"]["by_seed"][0]
    assert other["arms"]["naive"]["overall"]["figures"]["accuracy"]["value"] == pytest.approx(first)
    error = error_of([*images, "--second", "nave"], capsys)
    assert (error["exit_code"], error["facts"]["option"]) == (2, "--second")
    assert error["facts"]["allowed"] == ["debiased", "naive"]
