"""Sentences without counts."""

from __future__ import annotations

from unskew.report.summary.privacy import private_population, without_counts


def test_sentences_lose_their_counts() -> None:
    assert (
        without_counts("Dropped: 3 of 40 images, sex = (missing).")
        == "Dropped: some images, sex = (missing)."
    )
    assert (
        without_counts("Kept at its pool share, 0.0175: label = empty (7 images).")
        == "Kept at its pool share: label = empty (some images)."
    )
    assert (
        without_counts("12 images get weight 0: outside the target")
        == "some images get weight 0: outside the target"
    )
    assert without_counts("such as row 17") == "such as a row"
    assert without_counts("age is cut at 0, 40, 60.") == "age is cut at 0, 40, 60."
    assert (
        private_population("the target, with images added at their pool share (0.0175)")
        == "the target, with images added at their pool share"
    )
