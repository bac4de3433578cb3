"""A forecast on the page of its run: made with it, before it or after it; not that of another run;
and never at the cost of the weights.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unskew.cli.app import run_command
from unskew.report.summary.plain import summary_from_json
from unskew.runs import forecast as forecast_page
from unskew.runs.output import FORECAST, PAGE

CONFIGURATION = """\
[sources]
manifest = "all.csv"
images = false
source = "source"
label = "label"

[target]
uniform = ["label"]

[bias]
family = "strata"
by = ["label"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sources that show three classes in other shares; what tells the classes apart are three
    numbers.
    """
    rng = np.random.default_rng(0)
    label = np.concatenate(
        [rng.choice(3, 240, p=[0.8, 0.15, 0.05]), rng.choice(3, 60, p=[0.3, 0.3, 0.4])]
    )
    numbers = np.eye(3)[label] + 0.6 * rng.standard_normal((300, 3))
    table = pd.DataFrame(numbers, columns=["red", "green", "blue"])
    table.insert(0, "source", np.repeat(["archive", "phone"], [240, 60]))
    table.insert(1, "label", np.array(["cat", "dog", "lynx"])[label])
    table.to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "run.toml").write_text(CONFIGURATION)
    return tmp_path


def _weigh(folder: Path, *options: str) -> int:
    return run_command(
        ["weigh", str(folder / "run.toml"), "-o", str(folder / "out"), "--quiet", *options]
    )


def _forecast(folder: Path, *options: str) -> int:
    return run_command(
        ["forecast", str(folder / "run.toml"), "-o", str(folder / "out"), "--quiet", *options]
    )


def _summary(folder: Path):
    return summary_from_json((folder / "out" / "report.json").read_text(encoding="utf-8"))


def _page(folder: Path) -> str:
    return (folder / "out" / "report.html").read_text(encoding="utf-8")


def test_with_the_weights_before_them_and_after_them_gives_the_same_panel(folder: Path) -> None:
    assert _weigh(folder, "--forecast") == 0
    together = _summary(folder).forecast
    assert together is not None
    assert [arm.name for arm in together.arms][:2] == ["naive", "debiased"]
    assert (folder / "out" / "forecast.json").is_file()
    for file in (folder / "out").iterdir():
        file.unlink()
    assert _weigh(folder) == 0
    assert _summary(folder).forecast is None
    assert "None was made" in _page(folder)
    assert _forecast(folder) == 0
    assert _summary(folder).forecast == together
    for file in (folder / "out").iterdir():
        if file.name != "forecast.json":
            file.unlink()
    assert _weigh(folder) == 0
    assert _summary(folder).forecast == together


def test_the_panel_says_what_the_forecast_says(folder: Path) -> None:
    assert _weigh(folder) == 0
    assert _forecast(folder, "--arms", "all") == 0
    record, panel = (
        json.loads((folder / "out" / "forecast.json").read_text()),
        _summary(folder).forecast,
    )
    assert panel.recommendation == record["recommendation"]
    assert panel.condition == record["condition"]
    assert panel.notes == tuple(record["notes"])
    assert len(panel.arms) > 3
    for arm, shown in zip(record["arms"], panel.arms, strict=True):
        assert shown.accuracy == pytest.approx(arm["accuracy"]["value"], rel=1e-9)
        assert shown.stderr == pytest.approx(arm["accuracy"]["stderr"], rel=1e-9)
        assert (shown.worst_class, shown.name) == (arm["worst_class"], arm["name"])
        assert shown.worst == pytest.approx(arm["by_class"][arm["worst_class"]]["value"], rel=1e-9)
    # Σ_c share_c × accuracy_c is the held-out accuracy extrapolated, up to clipping: the parts
    # belong to the whole.
    for at, arm in enumerate(panel.arms):
        total = sum(each.share * each.accuracy[at] for each in panel.classes)
        assert total == pytest.approx(arm.accuracy, abs=0.02)


def test_the_configuration_can_ask_for_it_and_the_command_line_go_before(folder: Path) -> None:
    (folder / "run.toml").write_text(CONFIGURATION + "\n[report]\nforecast = true\n")
    assert _weigh(folder, "--no-forecast") == 0
    assert _summary(folder).forecast is None
    assert "forecast = false" in (folder / "out" / "run.toml").read_text()
    assert _weigh(folder, "--overwrite") == 0
    assert _summary(folder).forecast is not None


def test_verify_makes_it_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _weigh(folder) == 0
    learner = ("--learner", "sklearn.naive_bayes:GaussianNB", "--way", "logit")
    assert _forecast(folder, "--arms", "all", *learner) == 0
    assert run_command(["verify", str(folder / "out"), "--quiet"]) == 0
    report = folder / "out" / "report.json"
    plain = json.loads(report.read_text(encoding="utf-8"))
    plain["forecast"]["arms"][1]["accuracy"] += 0.05
    report.write_text(json.dumps(plain), encoding="utf-8")
    assert run_command(["verify", str(folder / "out"), "--quiet"]) == 4
    assert "report.json: forecast" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (
            (
                "target",
                'uniform = ["label"]',
                "margins.label = { cat = 0.5, dog = 0.3, lynx = 0.2 }",
            ),
            "target",
        ),
        (("data", "", ""), "images or files"),
        (("seed", "[bias]", "[engine]\nseed = 7\n[bias]"), "engine"),
    ],
    ids=["target", "data", "seed"],
)
def test_a_forecast_of_other_inputs_is_not_shown_and_a_warning_names_the_difference(
    folder: Path, change: tuple[str, str, str], difference: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert _weigh(folder) == 0
    kind, before, after = change
    if kind == "data":
        table = pd.read_csv(folder / "all.csv")
        table.iloc[:-1].to_csv(folder / "all.csv", index=False)
    else:
        (folder / "run.toml").write_text(CONFIGURATION.replace(before, after))
    page = _page(folder)
    with caplog.at_level(logging.WARNING):
        assert _forecast(folder) == 0
        assert _page(folder) == page
        assert run_command(["report", str(folder / "out")]) == 0
    assert _page(folder) == page
    messages = [message for message in caplog.messages if "other inputs" in message]
    assert len(messages) == 2
    assert all(difference in message for message in messages)


def test_what_has_no_effect_does_not_part_them(folder: Path) -> None:
    assert _weigh(folder) == 0
    (folder / "run.toml").write_text(
        CONFIGURATION + '\n[report]\ntitle = "Another title"\n[engine]\njobs = 1\n'
    )
    assert _forecast(folder) == 0
    assert _summary(folder).forecast is not None
    assert _summary(folder).title == "Debiasing report"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "[]",
        "{}",
        '{"provenance": {}}',
        "no json",
        '{"verdict": "reweight", "provenance": null}',
    ],
    ids=lambda text: text[:8] or "empty",
)
def test_a_broken_forecast_is_left_aside(
    folder: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "forecast.json").write_text(broken)
    with caplog.at_level(logging.WARNING):
        assert _weigh(folder) == 0
    assert _summary(folder).forecast is None
    assert any("forecast.json is not shown" in each for each in caplog.messages)
    assert (folder / "out" / "forecast.json").read_text() == broken


def test_a_forecast_with_the_right_origin_but_cut_off_is_left_aside(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert _weigh(folder, "--forecast") == 0
    path = folder / "out" / "forecast.json"
    record = json.loads(path.read_text())
    del record["arms"][1]["by_class"]
    path.write_text(json.dumps(record))
    with caplog.at_level(logging.WARNING):
        assert _weigh(folder, "--overwrite") == 0
    assert _summary(folder).forecast is None
    assert any("checksum" in each for each in caplog.messages)
    (folder / "out" / "files.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert _weigh(folder, "--overwrite") == 0
    assert _summary(folder).forecast is None
    assert any("forecast of this version" in each for each in caplog.messages)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda table: table.drop(columns="label").assign(kind=table["label"]),
            "label of every image",
        ),
        (lambda table: table.assign(kind=table["label"], label="cat"), "one class only"),
        (
            lambda table: table.assign(kind=table["label"]).drop(columns=["red", "green", "blue"]),
            "a probe learns from numbers",
        ),
    ],
    ids=["no labels", "one class", "no numbers"],
)
def test_where_none_can_be_made_the_weights_come_all_the_same_and_the_page_says_why(
    folder: Path, change, why: str
) -> None:
    table = change(pd.read_csv(folder / "all.csv"))
    table.to_csv(folder / "all.csv", index=False)
    configuration = CONFIGURATION.replace('["label"]', '["kind"]')
    if "label" not in table.columns:
        configuration = configuration.replace('label = "label"\n', "")
    (folder / "run.toml").write_text(configuration)
    assert _weigh(folder, "--forecast") == 0
    assert (folder / "out" / "weights.parquet").is_file()
    assert not (folder / "out" / "forecast.json").exists()
    summary = _summary(folder)
    assert summary.forecast is None
    assert why in summary.notes["forecast"]
    assert "none can be made" in _page(folder)
    assert run_command(["verify", str(folder / "out"), "--quiet"]) == 0


def test_whatever_a_forecast_runs_into_the_weights_are_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ArithmeticError("a bug of ours")

    monkeypatch.setattr(forecast_page, "forecast_inputs", fail)
    with caplog.at_level(logging.WARNING):
        assert _weigh(folder, "--forecast") == 0
    assert (folder / "out" / "weights.parquet").is_file()
    assert any("a bug of ours" in each for each in caplog.messages)


def test_aggregates_only(folder: Path) -> None:
    """Six of the images are lynxes: neither the class nor a second one with it is shown, nor
    sentences that name or count them.
    """
    table = pd.read_csv(folder / "all.csv")
    few = np.flatnonzero(table["label"] == "lynx")[6:]
    table.loc[few, "label"] = "cat"
    table.to_csv(folder / "all.csv", index=False)
    (folder / "run.toml").write_text(
        CONFIGURATION + '\n[report]\nprivacy = "aggregate"\nforecast = true\n'
    )
    assert _weigh(folder) == 0
    panel = _summary(folder).forecast
    assert panel is not None
    assert [each.label for each in panel.classes] == ["cat"]
    assert all(arm.worst_class == "cat" for arm in panel.arms)
    assert all(each.share is None and each.ess is None for each in panel.classes)
    assert not any(
        "lynx" in text or "dog" in text
        for text in (panel.recommendation, panel.condition, panel.method, *panel.notes)
    )
    shown = _page(folder).split('id="forecast"')[1].split("</section>")[0]
    assert "lynx" not in shown
    assert "dog" not in shown
    # The forecast in the folder is of the same run, though paths and names are withheld in both.
    assert _forecast(folder, "--arms", "all") == 0
    assert len(_summary(folder).forecast.arms) > 2
    assert run_command(["verify", str(folder / "out"), "--quiet"]) == 0


def test_no_image_is_named_where_none_can_be_made_and_aggregates_are_asked_for(
    folder: Path,
) -> None:
    table = pd.read_csv(folder / "all.csv")
    table.loc[3, "label"] = None
    table["kind"] = table["label"].fillna("cat")
    table.to_csv(folder / "all.csv", index=False)
    (folder / "run.toml").write_text(
        CONFIGURATION.replace('["label"]', '["kind"]')
        + '\n[report]\nprivacy = "aggregate"\nforecast = true\n'
    )
    assert _weigh(folder) == 0
    note = _summary(folder).notes["forecast"]
    assert not any(each.isdigit() for each in note)


def test_a_learner_that_cannot_be_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (
        "LogisticRegression",
        "sklearn.linear_model:NoSuch",
        "no_such_module:Thing",
        "sklearn.pipeline:Pipeline",
    ):
        assert _forecast(folder, "--learner", name) == 2
        assert name in capsys.readouterr().err


def test_pages_and_files_are_those_of_the_pipeline() -> None:
    assert (FORECAST, PAGE) == ("forecast.json", "report.html")
