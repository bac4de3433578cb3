"""`unskew evaluate --predictions`: tables, JSON, metrics.json, privacy, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from raising import refused
from run_data import weigh, write_disagreeing_sources, write_hospitals
from unskew.cli.app import run_command
from unskew.errors import ConfigError, DataError
from unskew.runs.evaluate import check_place, evaluate_run, run_rules

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
        "unweighted",
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
    assert "other − " in capsys.readouterr().out


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


def test_answers_on_unlabelled_images_of_the_target(hospitals: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(1)
    score = 1 / (1 + np.exp(-rng.normal(rng.choice([-1, 1], 2000), 1)))
    file = hospitals / "target.csv"
    pd.DataFrame({"id": [f"new{at}" for at in range(2000)], "score": score}).to_csv(
        file, index=False
    )
    run = ["evaluate", str(hospitals / "results"), "-p", str(hospitals / "preds.csv")]
    run += ["--target-predictions", str(file), "--replicates", "0"]
    assert run_command(run) == 0
    assert "weights alone" in capsys.readouterr().out
    assert run_command([*run, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record["augmented"]) == {"accuracy", "log_loss"}
    assert "target_predictions" in record["origin"]["fingerprints"]
    accuracy = record["augmented"]["accuracy"]
    assert accuracy["weighted"]["value"] == pytest.approx(
        record["overall"]["figures"]["accuracy"]["value"]
    )


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


def test_mistakes_have_messages_and_exit_codes(
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
    assert record["overall"]["figures"]["accuracy"]["unweighted"] == pytest.approx(right.mean())


def test_weights_of_another_population_are_noted(
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
        "--force",  # the report is edited below
    ]
    report = json.loads((results / "report.json").read_text(encoding="utf-8"))
    for population, expected in (
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
                note == f"The weights, and so these figures, describe {population}."
                for note in notes
            )
            == expected
        )


def test_nothing_is_replaced_unless_asked(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    check_place(tmp_path, False)
    file.write_text("{}")
    with refused(ConfigError, path=str(file), option="overwrite"):
        check_place(tmp_path, False)
    check_place(tmp_path, True)
    with refused(ConfigError, path=str(file)):
        check_place(file, True)


def test_the_stricter_of_settings_and_report_decides_on_privacy(tmp_path: Path) -> None:
    assert run_rules(tmp_path) == (False, {})
    settings, report = tmp_path / "run.toml", tmp_path / "report.json"
    settings.write_text("[target.bins]\nage = [0, 40]\n[report]\nprivacy = 'full'")
    assert run_rules(tmp_path) == (False, {"age": [0, 40]})
    report.write_text('{"privacy": "aggregate"}')
    assert run_rules(tmp_path) == (True, {"age": [0, 40]})
    report.write_text('{"privacy": "full"}')
    settings.write_text("[report]\nprivacy = 'aggregate'")
    assert run_rules(tmp_path) == (True, {})


@pytest.mark.parametrize("name", ["run.toml", "report.json"])
def test_a_damaged_file_of_the_run_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{")
    with refused(DataError, path=str(tmp_path / name)):
        run_rules(tmp_path)


def test_only_the_columns_asked_for_are_read(hospitals: Path) -> None:
    """An unknown one is an error that lists those that exist."""
    options = {"predictions": hospitals / "preds.csv", "replicates": 0}
    found = evaluate_run(hospitals / "results", by=["sex*age"], **options)
    assert found.breakdown("sex*age").column == "sex*age"
    with refused(ConfigError, option="by", column="agee") as caught:
        evaluate_run(hospitals / "results", by=["agee"], **options)
    assert {"age", "sex"} <= set(caught.value.facts["allowed"])


@pytest.mark.parametrize("share_k", [(0.3, 0.3, 0.3), (0.3, 0.3)])
def test_sources_on_which_a_model_is_worse_are_named(
    share_k: tuple[float, ...], tmp_path: Path, capsys: Captured
) -> None:
    results = weigh(write_disagreeing_sources(tmp_path, share_k))
    evaluate = ["evaluate", str(results), "-p", str(tmp_path / "p.csv")]
    assert run_command(evaluate) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The sources disagree on accuracy" in text
    assert ("cannot say" in text) == (len(share_k) == 2)
    assert ("Without night the others agree" in text) == (len(share_k) == 3)
    assert run_command([*evaluate, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["compared"]["accuracy"]
    assert compared["agreement"]["disagree"]
    # Without the file there is nothing to compare by.
    (results / "memberships.parquet").unlink()
    assert run_command([*evaluate, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"] == {}
