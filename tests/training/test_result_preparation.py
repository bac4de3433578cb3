"""What `unskew train` prints about classes and weights before it trains."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from training_runs import CONFIGURATION, FEW, read_json, write_shapes
from unskew.cli.app import run_command
from unskew.learn.ways import WayChoice, WayScore
from unskew.training.result import Preparation, TrainingResult

Captured = pytest.CaptureFixture[str]


def _prepared(label: list[int], weight: list[float], n_train: int) -> Preparation:
    """Classes cat, dog, fox; the first images are train."""
    training = SimpleNamespace(
        has_label_sets=False,
        splits=SimpleNamespace(train="train"),
        label=np.array(label),
        classes=("cat", "dog", "fox"),
        rows=lambda split: np.arange(n_train),
    )
    nothing = cast(Any, None)
    arm = SimpleNamespace(name="debiased", weight=np.array(weight))
    return Preparation(nothing, cast(Any, training), nothing, cast(Any, (arm,)), nothing, {})


def test_classes_that_train_cannot_teach_are_named_with_the_reason() -> None:
    end = "such a class cannot be learned, and predictions of it mean nothing."
    assert _prepared([0, 1, 2], [1, 1, 1], 3).unlearned() == []
    assert _prepared([0, 1, 0, 2], [1, 1, 1, 1], 3).unlearned() == [
        f"train has no image of fox: {end}"
    ]
    assert _prepared([0, 1, 2, 2], [1, 1, 0, 0], 4).unlearned() == [
        f"All images of fox (2) in train have weight 0 (debiased): {end}"
    ]


def test_the_first_of_several_targets_is_named() -> None:
    prepared = _prepared([0, 1, 2], [1, 1, 1], 3)
    assert prepared.chosen_target() == []
    (line,) = replace(prepared, targets=("city", "farm")).chosen_target()
    assert "Of 2 targets" in line
    assert "city" in line


@pytest.mark.parametrize("privacy", ["full", "aggregate"])
def test_held_out_images_of_classes_that_train_lacks_are_counted_with_their_weight(
    privacy: str,
) -> None:
    """Of the four held-out images (weights 1, 1, 1, 5) one is a fox, which train does not show."""
    training = SimpleNamespace(
        has_label_sets=False,
        splits=SimpleNamespace(train="train", held_out="test"),
        label=np.array([0, 1, 0, 1, 1, 2]),
        classes=("cat", "dog", "fox"),
        rows=lambda split: np.arange(2) if split == "train" else np.arange(2, 6),
        inputs=SimpleNamespace(config=SimpleNamespace(report=SimpleNamespace(privacy=privacy))),
    )
    weight = np.array([1, 1, 1, 1, 1, 5.0])
    run = SimpleNamespace(weights=SimpleNamespace(sample_weight=weight))
    arm, nothing = SimpleNamespace(name="debiased", weight=weight), cast(Any, None)
    prepared = Preparation(nothing, cast(Any, training), cast(Any, run), (arm,), nothing, {})
    (sentence,) = prepared.unlearnable()
    assert "of 4 images of test, with 62 % of its weight" in sentence
    assert ("fox" in sentence, sentence.startswith("1 ")) == ((privacy == "full"),) * 2
    training.label[5] = 1
    assert prepared.unlearnable() == []


@pytest.mark.parametrize("privacy", ["full", "aggregate"])
def test_classes_without_held_out_images_are_named_with_their_weight(privacy: str) -> None:
    """Two of the three classes of train, with 3 of 5 of its weight, are not judged."""
    training = SimpleNamespace(
        has_label_sets=False,
        splits=SimpleNamespace(train="train", held_out="test"),
        label=np.array([0, 1, 2, 0, 2]),
        classes=("cat", "dog", "fox"),
        rows=lambda split: np.arange(3) if split == "train" else np.arange(3, 5),
        inputs=SimpleNamespace(config=SimpleNamespace(report=SimpleNamespace(privacy=privacy))),
    )
    weight = np.array([2.0, 1.0, 2.0, 1.0, 0.0])
    run = SimpleNamespace(weights=SimpleNamespace(sample_weight=weight))
    arm, nothing = SimpleNamespace(name="debiased", weight=weight), cast(Any, None)
    prepared = Preparation(nothing, cast(Any, training), cast(Any, run), (arm,), nothing, {})
    (sentence,) = prepared.unjudged()
    assert "60 % of the weight of train" in sentence
    assert ("dog, fox" in sentence) == (privacy == "full")
    weight[4] = 1.0
    training.label[3] = 1
    training.label[0] = 1
    assert prepared.unjudged() == []


def test_a_class_without_held_out_images_is_named_wherever_the_accuracy_is_shown(
    tmp_path: Path, capsys: Captured
) -> None:
    """Half of the target are squares; there are two, and both are in train."""
    pytest.importorskip("torch")
    write_shapes(tmp_path, {"day": {"disc": 20, "square": 1}, "night": {"disc": 20, "square": 1}})
    (tmp_path / "run.toml").write_text(CONFIGURATION)
    assert (
        run_command(
            [
                "train",
                str(tmp_path / "run.toml"),
                "-o",
                str(tmp_path / "out"),
                "--epochs",
                "1",
                *FEW,
            ]
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "Accuracy on a part of the target" in shown
    assert "Accuracy on the target" not in shown
    uncovered = "label = square (0.5)"
    assert uncovered in shown
    assert uncovered in read_json(tmp_path / "out" / "metrics.json")["notes"][0]
    assert "cover a part of the population only" in (tmp_path / "out" / "model-card.md").read_text()
    assert (
        run_command(
            [
                "evaluate",
                str(tmp_path / "out"),
                "-p",
                str(tmp_path / "out" / "predictions.parquet"),
                "--json",
                *FEW,
            ]
        )
        == 0
    )
    assert uncovered in json.loads(capsys.readouterr().out)["notes"][0]


@pytest.mark.parametrize(("seeds", "name"), [((0,), "Way: "), ((0, 1), "Way of the first seed: ")])
def test_the_way_is_printed_with_its_table_and_whose_it_is(seeds: Any, name: str) -> None:
    rows = (WayScore("half", 0.01, 0.72, 0.0, 0.0), WayScore("logit", 0.1, 0.7, -0.02, 0.01))
    choice = WayChoice("half", 0.01, "half: because.", rows, 0.72, 500.0)
    alone = replace(choice, scores=rows[:1])

    def lines(own: WayChoice) -> list[str]:
        scores = SimpleNamespace(main="debiased", choices={"debiased": own}, seeds=seeds)
        return TrainingResult(Path("out"), cast(Any, scores), (), {})._way()

    assert lines(choice) == [
        f"{name}half: because.",
        "  half    72.0%   +0.0 ± 0.0 points  (chosen)",
        "  logit   70.0%   -2.0 ± 1.0 points",
    ]
    assert lines(alone) == [f"{name}half: because."]
