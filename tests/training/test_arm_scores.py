"""Metrics of the arms on the held-out split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from training_runs import (
    FEW,
    read_json,
)
from unskew.cli.app import run_command

Captured = pytest.CaptureFixture[str]


def test_metrics_are_those_of_evaluating_the_predictions(shapes: Path, capsys: Captured) -> None:
    out = shapes / "results"
    assert (
        run_command(["evaluate", str(out), "-p", str(out / "predictions.parquet"), *FEW, "--json"])
        == 0
    )
    again, metrics = json.loads(capsys.readouterr().out), read_json(out / "metrics.json")
    numbers = [key for key in again if key not in ("origin", "notes", "models")]
    assert {key: metrics[key] for key in numbers} == {key: again[key] for key in numbers}
    assert metrics["split"] == "validation"
    assert {"accuracy", "balanced_accuracy", "calibration_error", "log_loss"} <= set(
        metrics["overall"]["figures"]
    )


def test_metrics_are_computed_as_by_hand(shapes: Path) -> None:
    """Weighted accuracy, log-loss and calibration error from the files alone."""
    out = shapes / "results"
    table = pd.read_parquet(out / "predictions.parquet").merge(
        pd.read_parquet(out / "weights.parquet"), on="id"
    )
    score = table[["score_disc", "score_square"]].to_numpy()
    weight = (table["weight"] / table["weight"].sum()).to_numpy()
    right = (table["prediction"] == table["y"]).to_numpy()
    own = np.where(table["y"] == "disc", score[:, 0], score[:, 1])
    figures = read_json(out / "metrics.json")["overall"]["figures"]
    assert figures["accuracy"]["value"] == pytest.approx(weight @ right)
    assert figures["log_loss"]["value"] == pytest.approx(-weight @ np.log(own))
    confidence = score.max(axis=1)
    place = np.clip(np.ceil(confidence * 15).astype(int) - 1, 0, 14)
    gaps = [abs((weight * (right - confidence))[place == at].sum()) for at in range(15)]
    assert figures["calibration_error"]["value"] == pytest.approx(sum(gaps))


def test_arms_are_compared_on_the_same_images(shapes: Path) -> None:
    metrics = read_json(shapes / "results" / "metrics.json")
    assert metrics["arm"] == "debiased"
    debiased, naive = (
        metrics["arms"][name]["overall"]["figures"]["accuracy"]["value"]
        for name in ("debiased", "naive")
    )
    assert metrics["gains"]["naive"]["accuracy"]["value"] == pytest.approx(debiased - naive)
    assert metrics["overall"]["figures"]["accuracy"]["value"] == debiased
    assert metrics["way"] == metrics["arms"]["debiased"]["way"]
    assert {name: arm["way"]["way"] for name, arm in metrics["arms"].items()} == {
        "debiased": "half",
        "naive": "weights",
    }
    by_class = next(part for part in metrics["breakdowns"] if part["column"] == "y")
    assert by_class["worst"]["value"] == min(
        cell["figures"]["accuracy"]["value"] for cell in by_class["cells"]
    )
    assert metrics["arms"]["debiased"]["worst"]["y"] == by_class["worst"]
