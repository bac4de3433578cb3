"""`unskew evaluate`: which options go together."""

from __future__ import annotations

from pathlib import Path

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
