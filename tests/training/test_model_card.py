"""The model card: its content, and that no name in it is markup."""

from __future__ import annotations

from pathlib import Path

from training_runs import read_json
from unskew.training.model_card import escape_markdown


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
            *(100 * each for each in (gap["value"], *gap["interval"]))
        )
        in card
    )
    assert record["fingerprints"]["images"] in card
    assert record["fingerprints"]["weights of debiased"] in card
    assert record["status"] == "finished"
