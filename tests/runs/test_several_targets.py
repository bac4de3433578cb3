"""A run with several targets: for each the files of its own run, the comparison, the refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import unskew
from raising import refused
from run_data import TABLE_SOURCES, error_of, weigh, write_disagreeing_sources
from unskew.cli.app import run_command
from unskew.config.run_config import read_config
from unskew.report.summary.plain import summary_from_json
from unskew.runs.evaluate import evaluate_run_targets
from unskew.runs.output import file_of
from unskew.target.settings import written_target

TABLES = {
    "city": "margins.shade = { dark = 0.4, light = 0.6 }",
    "farm": 'margins.shade = { file = "farm.csv", n = 200 }',
    "moon": 'uniform = "shade"',
}
BIAS = '[bias]\nfamily = "strata"\nby = ["shade"]\n'


def write_targets(folder: Path, names: str, file: str = "run.toml") -> Path:
    tables = "".join(f"[targets.{name}]\n{TABLES[name]}\n" for name in names.split())
    (folder / file).write_text(f"{TABLE_SOURCES}\n{tables}\n{BIAS}")
    return folder / file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("targets")
    write_disagreeing_sources(folder)
    (folder / "farm.csv").write_text("shade,count\ndark,9\nlight,1\n")
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> Path:
    return weigh(write_targets(folder, "city farm moon"))


def test_each_target_has_the_files_of_the_run_with_that_target_alone(
    folder: Path, results: Path
) -> None:
    for name in ("city", "farm"):
        (folder / "alone.toml").write_text(f"{TABLE_SOURCES}\n[target]\n{TABLES[name]}\n{BIAS}")
        alone = weigh(folder / "alone.toml", f"alone-{name}")
        for file in ("weights.parquet", "memberships.parquet", "solution.json"):
            own = results / file_of(file, None if name == "city" else name)
            assert own.read_bytes() == (alone / file).read_bytes()
    # `--target` is the same run: but for the command, the report is the same, too.
    out = folder / "chosen"
    chosen = ["weigh", str(folder / "run.toml"), "-o", str(out), "--target", "farm", "-q"]
    assert run_command(chosen) == 0
    for file in ("weights.parquet", "solution.json", "run.toml", "diagnostics.parquet"):
        assert (out / file).read_bytes() == (alone / file).read_bytes()
    assert run_command(["verify", str(results), "-q"]) == 0


def test_the_page_compares_the_targets(results: Path) -> None:
    text = (results / "report.json").read_text()
    panel = summary_from_json(text).targets
    assert panel is not None
    assert [(row.name, row.is_main) for row in panel.rows] == [
        ("city", True),
        ("farm", False),
        ("moon", False),
    ]
    # The shares of dark are 0.4, 0.9 and 0.5: weights differ by those of their strata.
    assert dict.fromkeys(["city farm"], 0.5) | {"city moon": 0.1, "farm moon": 0.4} == {
        f"{one} {other}": pytest.approx(apart, abs=1e-9) for one, other, apart in panel.distances
    }
    main = {outcome["outcome"]: outcome["value"] for outcome in json.loads(text)["outcomes"]}
    for outcome in panel.outcomes:
        assert outcome.means[0].value == main[outcome.outcome]
        values = {mean.name: mean.value for mean in outcome.means}
        assert values[outcome.lowest] == min(values.values())
        assert values[outcome.highest] == max(values.values())
    page = (results / "report.html").read_text()
    assert '<section id="targets"' in page
    assert run_command(["report", str(results), "-q"]) == 0
    assert (results / "report.html").read_text() == page


def test_predictions_are_judged_on_every_target_and_the_worst_is_named(
    folder: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"replicates": 20, "split": "all"}
    judged = evaluate_run_targets(results, folder / "p.csv", **options)
    for name, evaluation in judged.evaluations.items():
        table = pd.read_parquet(
            results / file_of("weights.parquet", None if name == "city" else name)
        )
        predicted = pd.read_csv(folder / "p.csv").set_index("id")["prediction"]
        right = predicted.loc[table["id"]].to_numpy() == table["label"].to_numpy()
        accuracy = evaluation.overall.figures["accuracy"].value
        assert accuracy == pytest.approx(float(right @ table["weight"]), abs=1e-12)
    accuracies = {
        name: own.overall.figures["accuracy"].value for name, own in judged.evaluations.items()
    }
    assert judged.worst("accuracy") == min(accuracies, key=accuracies.__getitem__)
    loss = {name: own.overall.figures for name, own in judged.evaluations.items()}
    assert set(judged.metrics) <= set(loss["city"])
    capsys.readouterr()
    command = ["evaluate", str(results), "-p", str(folder / "p.csv"), "--replicates", "20"]
    assert run_command([*command, "--split", "all", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown["targets"]) == ["city", "farm", "moon"]
    assert shown["worst"]["accuracy"] == judged.worst("accuracy")
    assert run_command([*command, "--split", "all", "--target", "farm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overall"] == shown["targets"]["farm"]["overall"]


def test_weights_of_one_target_are_exported_under_its_name(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["export", str(results), "--to", "csv", "-q"]
    assert run_command([*export, "--target", "farm"]) == 0
    assert run_command([*export, "--target", "city"]) == 0
    for file, table in (
        ("weights-farm.csv", "weights-farm.parquet"),
        ("weights.csv", "weights.parquet"),
    ):
        written = pd.read_csv(results / file)["weight"]
        # CSV has all digits.
        assert written.tolist() == pd.read_parquet(results / table)["weight"].tolist()
    error = error_of([*export, "--target", "frm"], capsys)
    assert error["exit_code"] == 2
    assert error["facts"]["allowed"] == ["city", "farm", "moon"]


def test_a_run_with_fewer_targets_removes_the_files_of_the_others_and_no_more(
    folder: Path, results: Path
) -> None:
    out = folder / "again"
    configuration = write_targets(folder, "moon farm", "two.toml")
    assert run_command(["weigh", str(configuration), "-o", str(out), "-q"]) == 0
    (out / "weights-mine.parquet").write_text("keep")
    assert (out / "weights-farm.parquet").exists()
    main = (out / "weights.parquet").read_bytes()
    assert main == (results / "weights-moon.parquet").read_bytes()
    only = write_targets(folder, "moon", "one.toml")
    assert run_command(["weigh", str(only), "-o", str(out), "-q", "--overwrite"]) == 0
    assert not (out / "weights-farm.parquet").exists()
    assert (out / "weights-mine.parquet").read_text() == "keep"
    assert (out / "weights.parquet").read_bytes() == main
    assert json.loads((out / "report.json").read_text())["targets"] is None
    assert run_command(["export", str(out), "--to", "csv", "--target", "moon", "-q"]) == 0


def test_one_target_that_is_not_identifiable_refuses_the_run_and_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_targets(folder, "city moon", "fog.toml").read_text()
    fog = "[targets.fog]\nmargins.shade = { dark = 0.3, light = 0.3, grey = 0.4 }\n"
    (folder / "fog.toml").write_text(text.replace("[bias]", f"{fog}[bias]"))
    capsys.readouterr()
    assert run_command(["check", str(folder / "fog.toml"), "--json"]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert shown["level"] == "no"
    levels = {row["name"]: row["level"] for row in shown["targets"]["rows"]}
    assert levels == {"city": "ok", "moon": "ok", "fog": "no"}
    assert "fog" in " ".join(shown["sentences"])
    out = folder / "foggy"
    assert run_command(["weigh", str(folder / "fog.toml"), "-o", str(out), "-q"]) == 3
    assert not list(out.glob("weights*"))
    assert '<section id="targets"' in (out / "report.html").read_text()
    assert run_command(["check", str(folder / "fog.toml"), "-q", "--target", "city"]) == 0
    with refused(unskew.CoverageError, targets=["fog"]):
        unskew.run(folder / "fog.toml")


def test_a_margin_known_up_to_a_set_is_bounded_on_the_page(folder: Path) -> None:
    (folder / "set.toml").write_text(
        f"{TABLE_SOURCES}\n[target]\n{TABLES['city']}\nwithin = 0.05\n{BIAS}"
        '[report]\noutcomes = ["label"]\n'
    )
    out = weigh(folder / "set.toml", "set")
    alone = weigh(write_targets(folder, "city", "city.toml"), "city")
    assert (out / "weights.parquet").read_bytes() == (alone / "weights.parquet").read_bytes()
    panel = summary_from_json((out / "report.json").read_text()).targets
    assert panel is not None
    assert panel.rows == ()
    (own,) = panel.sets
    assert [level for level, _, _ in own.bounds] == ["dark", "light"]
    assert own.bounds[0][1:] == pytest.approx((0.35, 0.45))
    config = read_config(folder / "set.toml")
    target = config.read_target()
    assert target is not None
    assert dict(written_target(target)["within"])["dark"] == list(target.within["dark"])
    for outcome in own.outcomes:
        low, centre, high = (mean.value or 0.0 for mean in outcome.means)
        assert low <= centre <= high
        assert outcome.difference == pytest.approx(high - low)
    assert "The set of margins" in (out / "report.html").read_text()
