"""The model card: its content, and that no name in it is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pandas as pd
import pytest

from training_runs import read_json
from unskew.evaluation.predictions import evaluate_predictions
from unskew.learn.presets import OF_PROBES
from unskew.learn.ways import WayChoice, WayScore
from unskew.report.summary.plain import summary_from_json
from unskew.training.arm_scores import Scores
from unskew.training.model_card import CardFacts, escape_markdown, render_card


def test_names_are_no_markup_in_a_card() -> None:
    assert escape_markdown("<script>alert(1)</script>") == "\\<script\\>alert(1)\\</script\\>"
    assert escape_markdown("a|b\n# [x](../y) *z* `q`") == "a\\|b \\# \\[x\\](../y) \\*z\\* \\`q\\`"
    assert escape_markdown("a\x1b[31m") == "a\\x1b\\[31m".replace("\\x", "\\\\x")


def test_the_card_tells_what_where_and_for_whom(shapes: Path) -> None:
    card, record = (
        (shapes / "results" / "model-card.md").read_text(),
        read_json(shapes / "results" / "training.json"),
    )
    for word in (
        "disc, square",
        "16 × 16 pixels",
        "day",
        "night",
        "Strata",
        "equally weighted",
        "conditional on the bias model",
        "torch",
    ):
        assert word in card
    gap = read_json(shapes / "results" / "metrics.json")["gains"]["naive"]["accuracy"]
    assert (
        "| {:+.1f} | {:+.1f} to {:+.1f} |".format(
            *(100 * value for value in (gap["value"], *gap["interval"]))
        )
        in card
    )
    assert record["fingerprints"]["images"] in card
    assert record["fingerprints"]["weights of debiased"] in card
    assert record["status"] == "finished"


HOSTILE = "<b>a|b</b> & `c` *d*\n# e"


@pytest.fixture
def hostile(shapes: Path) -> tuple[CardFacts, Scores]:
    """A card in which every name that comes from outside is markup."""
    table = pd.DataFrame(
        {"id": range(40), "source": HOSTILE, "label": [HOSTILE, "x"] * 20, "sample_weight": 1.0}
    )
    predictions = pd.DataFrame({"id": range(40), "prediction": [HOSTILE] * 40})
    evaluation = evaluate_predictions(table, predictions, replicates=5)
    summary = summary_from_json((shapes / "results" / "report.json").read_text())
    facts = CardFacts(
        title=HOSTILE,
        summary=replace(summary, target=(HOSTILE,)),
        settings={"model": HOSTILE, "preset": "fast", "weighting": "loss", "seed": 0},
        input=HOSTILE,
        classes=[HOSTILE, *[f"class {at}" for at in range(60)]],
        images={HOSTILE: 40, "test": None},
        parameters=None,
        fingerprints={HOSTILE: "0" * 64},
        arm="debiased",
        sentences=(HOSTILE,),
        epoch=3,
        epochs=9,
        versions={HOSTILE: HOSTILE},
        command="unskew  train\nrun.toml",
    )
    return facts, Scores("debiased", {"debiased": evaluation}, {}, {}, part_only=HOSTILE)


def test_no_name_from_outside_is_markup(hostile: tuple[CardFacts, Scores]) -> None:
    card = render_card(*hostile)
    assert "&amp;" not in card
    assert "&" in card
    assert not re.search(r"(?<!\\)<b>", re.sub(r"(?<!\\)`[^`\n]*`", "", card))
    lines = card.splitlines()
    assert not [line for line in lines if line.startswith("# e")]
    # Every row of a table has as many cells as its head.
    for is_table, rows in groupby(lines, key=lambda line: line.startswith("|")):
        if is_table:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "    unskew train run.toml" in lines


def test_long_lists_are_cut_and_private_names_withheld(hostile: tuple[CardFacts, Scores]) -> None:
    facts, scores = hostile
    row = next(line for line in render_card(facts, scores).splitlines() if "| classes |" in line)
    assert row.startswith("| classes | 61: ")
    assert row.endswith("class 38 … |")
    private = render_card(replace(facts, classes=None), scores)
    assert "| classes | withheld |" in private
    assert "class 38" not in private


def test_a_card_says_which_way_was_chosen_and_from_which(hostile: tuple[CardFacts, Scores]) -> None:
    facts, scores = hostile
    assert "| way |" not in render_card(facts, scores)
    rows = (WayScore("weights", 0.1, 0.7, -0.02, 0.01), WayScore("half", 0.01, 0.72, 0.0, 0.0))
    choice = WayChoice("half", 0.01, "half: because.", rows, 0.71, 500.0)
    card = render_card(replace(facts, choice=choice), scores)
    corrected = "Corrected for having been chosen on these images, its accuracy there is 71.0%."
    assert f"| way | half: because. {corrected} Ridge 0.01. |" in card
    assert "| weights | 70.0% | -2.0 | 1.0 |" in card
    assert "| half (chosen) | 72.0% | +0.0 | 0.0 |" in card
    alone = render_card(replace(facts, choice=replace(choice, scores=rows[1:])), scores)
    assert "| way | half: because." in alone
    assert "Ways to learn from the weights" not in alone


def test_the_card_of_a_probe_has_no_settings_of_networks(hostile: tuple[CardFacts, Scores]) -> None:
    facts, scores = hostile
    assert "| weights enter by | loss |" in render_card(facts, scores)
    settings = {name: facts.settings.get(name) for name in OF_PROBES}
    card = render_card(replace(facts, settings=settings), scores)
    assert "| weights enter by |" not in card
    assert "| epoch |" not in card


def test_a_card_says_which_split_chose_the_epoch(hostile: tuple[CardFacts, Scores]) -> None:
    facts, scores = hostile
    assert "also chose the epoch, which" in render_card(facts, scores)
    assert "also chose the epoch and calibrated the probabilities" in render_card(
        replace(facts, calibrated=True), scores
    )
    assert "also chose the epoch" not in render_card(replace(facts, epochs=1), scores)
    tested = replace(scores.evaluations["debiased"], split="test")
    assert "also chose the epoch" not in render_card(
        facts, replace(scores, evaluations={"debiased": tested})
    )
