"""`unskew evaluate` as a user meets it: words, JSON, metrics.json, privacy, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from run_data import write_hospitals
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results (aggregate) and the predictions of two models."""
    folder = tmp_path_factory.mktemp("hospitals")
    configuration = write_hospitals(folder)
    configuration.write_text(
        configuration.read_text().replace('split = "split"', 'split = "split"\nlabel = "finding"')
    )
    assert run_command(["weigh", str(configuration), "-o", str(folder / "results"), "--quiet"]) == 0
    table = pd.read_parquet(folder / "results" / "weights.parquet")
    rng = np.random.default_rng(0)
    yes = (table["label"] == "yes").to_numpy()
    for name, skill in (("preds.csv", 1.0), ("other.csv", 2.0)):
        score = 1 / (1 + np.exp(-rng.normal(skill * np.where(yes, 1, -1), 1)))
        pd.DataFrame({"id": table["id"], "score": score.round(4)}).to_csv(
            folder / name, index=False
        )
    return folder


def test_a_table_for_a_person(hospitals: Path, capsys: Captured) -> None:
    run = [
        "evaluate",
        str(hospitals / "results"),
        "-p",
        str(hospitals / "preds.csv"),
        "--by",
        "age",
        "--by",
        "sex",
        "--replicates",
        "50",
    ]
    assert run_command(run) == 0
    shown = capsys.readouterr().out
    for word in (
        "On the target",
        "balanced accuracy",
        "AUROC",
        "sensitivity",
        "naive",
        "By source",
        "alpha",
        "By age",
        "[40, 60)",
        "By sex",
    ):
        assert word in shown
    assert "positive class is 'yes'" in shown
    assert "\x1b[" not in shown
    assert run_command([*run, "--second", str(hospitals / "other.csv")]) == 0
    assert "second − first" in capsys.readouterr().out


def test_json_and_the_file_are_the_same_and_nothing_is_replaced(
    hospitals: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "judged"
    run = [
        "evaluate",
        str(hospitals / "results"),
        "-p",
        str(hospitals / "preds.csv"),
        "--second",
        str(hospitals / "other.csv"),
    ]
    run += ["--replicates", "50", "-o", str(out)]
    assert run_command([*run, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert record["split"] == "test"
    assert record["overall"]["difference"]["auroc"]["interval"][0] > 0
    assert len(record["origin"]["fingerprints"]) == 3
    assert run_command(run) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run_command([*run, "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_an_aggregate_run_gives_aggregates_only(hospitals: Path, capsys: Captured) -> None:
    run = [
        "evaluate",
        str(hospitals / "results"),
        "-p",
        str(hospitals / "preds.csv"),
        "--by",
        "sex",
        "--replicates",
        "0",
        "--json",
    ]
    assert run_command(run) == 0
    text = capsys.readouterr().out
    record = json.loads(text)
    assert record["private"]
    table = pd.read_parquet(hospitals / "results" / "weights.parquet")
    assert not any(f'"{each}"' in text for each in {*table["id"], *table["group"]})
    # The few patients of unknown sex are withheld, and with them the smaller of the others.
    (sex,) = (part for part in record["breakdowns"] if part["column"] == "sex")
    assert all(cell["groups"] >= 10 for cell in sex["cells"])
    assert sex["withheld"] == 0 or "(missing)" not in [cell["name"] for cell in sex["cells"]]


def test_mistakes_have_words_and_exit_codes(
    hospitals: Path, tmp_path: Path, capsys: Captured
) -> None:
    results, preds = str(hospitals / "results"), str(hospitals / "preds.csv")
    assert run_command(["evaluate", results]) == 2
    assert run_command(["evaluate", str(tmp_path), "-p", preds]) == 4
    assert "unskew weigh" in capsys.readouterr().err
    assert run_command(["evaluate", results, "-p", str(tmp_path / "none.csv")]) == 2
    few = tmp_path / "few.csv"
    pd.read_csv(preds).head(30).to_csv(few, index=False)
    assert run_command(["evaluate", results, "-p", str(few)]) == 4
    assert "--allow-missing" in capsys.readouterr().err
    assert run_command(["evaluate", results, "-p", preds, "--by", "weightt"]) == 2
    assert run_command(["evaluate", results, "-p", preds, "-o", preds]) == 2


def test_the_figures_are_those_of_the_weights(hospitals: Path, capsys: Captured) -> None:
    assert (
        run_command(
            [
                "evaluate",
                str(hospitals / "results"),
                "-p",
                str(hospitals / "preds.csv"),
                "--replicates",
                "0",
                "--json",
            ]
        )
        == 0
    )
    record = json.loads(capsys.readouterr().out)
    table = pd.read_parquet(hospitals / "results" / "weights.parquet").set_index("id")
    score = pd.read_csv(hospitals / "preds.csv").set_index("id")["score"]
    test = table[table["split"] == "test"]
    right = (score[test.index] >= 0.5) == (test["label"] == "yes")
    # The weights of a split sum to 1.
    assert record["overall"]["figures"]["accuracy"]["value"] == pytest.approx(
        (test["weight"] * right).sum()
    )
    assert record["overall"]["figures"]["accuracy"]["naive"] == pytest.approx(right.mean())


def test_weights_that_speak_of_another_population_say_so(
    hospitals: Path, tmp_path: Path, capsys: Captured
) -> None:
    """As of a Box: the part of the population within the boxes, whatever the target."""
    results = tmp_path / "results"
    shutil.copytree(hospitals / "results", results)
    run = [
        "evaluate",
        str(results),
        "-p",
        str(hospitals / "preds.csv"),
        "--replicates",
        "50",
        "--json",
    ]
    report = json.loads((results / "report.json").read_text(encoding="utf-8"))
    for population, said in (
        ("the target", 0),
        ("the target of the biasing functions", 0),
        ("the part within the boxes", 1),
    ):
        report["verdict"]["population"] = population
        (results / "report.json").write_text(json.dumps(report), encoding="utf-8")
        assert run_command(run) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert (
            sum(
                note == f"The weights, and so these figures, speak of {population}."
                for note in notes
            )
            == said
        )
