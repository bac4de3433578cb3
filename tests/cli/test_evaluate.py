"""`unskew evaluate`: which options go together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


def test_options_that_go_with_predictions_are_refused_with_images_and_the_other_way_round(
    tmp_path: Path, capsys: Captured
) -> None:
    images, table = [str(tmp_path / "new")], ["-p", str(tmp_path / "predictions.parquet")]
    cases = {
        ("--split", "all", "--allow-missing"): (
            images,
            "--split and --allow-missing go with --predictions",
        ),
        ("--classification",): (images, "--classification goes with --predictions"),
        ("--arm", "naive"): (table, "--arm goes with images"),
    }
    for options, (judged, words) in cases.items():
        assert run_command(["evaluate", str(tmp_path), *judged, *options]) == 2
        assert words in capsys.readouterr().err


def test_pairs_are_judged_and_written_with_their_page(tmp_path: Path, capsys: Captured) -> None:
    results = tmp_path / "results"
    results.mkdir()
    person = np.repeat(np.arange(20), 2)
    weight = np.where(person % 2, 0.5, 1.5)
    table = pd.DataFrame({"id": np.arange(40).astype(str), "source": "s", "group": person})
    table = table.assign(weight=weight / weight.sum(), sample_weight=weight, split=None)
    table = table.assign(path=None, label=np.where(person % 2, "<b>f", "m"))
    table.to_parquet(results / "weights.parquet")
    a, b = np.triu_indices(40, 1)
    score = 3.0 * (person[a] == person[b]) + np.sin(np.arange(a.size))
    pairs = pd.DataFrame({"id_a": a, "id_b": b, "same": person[a] == person[b], "score": score})
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    out = tmp_path / "judged"
    command = ["evaluate", str(results), "--pairs", str(tmp_path / "pairs.csv"), "--by", "label"]
    assert run_command([*command, "-o", str(out), "--fmr", "0.05"]) == 0
    assert "Largest gaps by label" in capsys.readouterr().out
    record = json.loads((out / "pairs.json").read_text())
    assert record["overall"]["points"][0]["fmr"]["value"] <= 0.05
    page = (out / "pairs.html").read_text()
    assert "&lt;b&gt;f" in page
    assert "<b>f" not in page
    assert run_command([*command, "-o", str(out)]) == 2
    assert run_command([*command, "-p", str(tmp_path / "pairs.csv")]) == 2
    assert run_command([*command, "--positive", "m"]) == 2
    capsys.readouterr()
    for option in ("--replicates", "--seed"):  # nothing is random: not a word was worse
        assert run_command([*command, option, "0"]) == 2
        assert option in capsys.readouterr().err
    assert run_command([*command, "--target", "moon"]) == 2
    assert run_command(["evaluate", str(results), "-p", "x.csv", "--distance"]) == 2
    pairs.assign(id_b=pairs["id_a"]).to_csv(tmp_path / "pairs.csv", index=False)
    assert run_command(command) == 4
