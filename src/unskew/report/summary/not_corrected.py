"""What weighting does not correct: columns outside the target, and what remains assumed."""

from __future__ import annotations

from collections.abc import Sequence

from unskew.records import OutcomeRange
from unskew.report.summary.record import BalanceRow, NotCorrectedPanel, SensitivityRow
from unskew.report.summary.weighted_pool import WeightedPool
from unskew.report.summary.wording import private_sentences

_MOST_ROWS = 300


def show_not_corrected(
    weighed: WeightedPool,
    rows: Sequence[BalanceRow],
    ranges: Sequence[OutcomeRange],
    not_shown: tuple[str, ...],
    hidden: Sequence[str],
) -> NotCorrectedPanel:
    """Show the columns outside the model, what remains assumed, and how much that could matter."""
    outside = [row for row in rows if not row.fitted]
    return NotCorrectedPanel(
        columns=tuple(outside[:_MOST_ROWS]),
        assumed=_assumed(weighed, hidden),
        sensitivity=tuple(SensitivityRow(**vars(row)) for row in ranges),
        not_shown=not_shown,
    )


def _assumed(weighed: WeightedPool, hidden: Sequence[str]) -> tuple[str, ...]:
    """State what the result rests on although no image can show it."""
    sentences = [
        "Weights correct the columns that the bias model reads; of everything else they correct "
        "what depends on those."
    ]
    if weighed.fitted is None:
        sentences.append(
            "That the biasing functions are right was taken for granted; so was the factor c(z) "
            "common to all sources."
        )
        return tuple(sentences)
    described = weighed.fitted.describe()
    sentences += [f"Assumed: {assumption}." for assumption in described.assumed]
    sentences.append(
        "The factor c(z), by which all sources together prefer some images, cannot be learned from "
        "the images; it comes from: "
        f"{described.anchor}."
    )
    only = {} if weighed.fitted.strata is None else weighed.fitted.strata.only
    if only and not weighed.private:
        shown = [f"{stratum} ({source})" for stratum, source in list(only.items())[:5]]
        more = f" and {len(only) - 5} more" if len(only) > 5 else ""
        sentences.append(
            "Strata that only one source sees are represented by that source's images: "
            f"{', '.join(shown)}{more}."
        )
    return private_sentences(sentences, hidden) if weighed.private else tuple(sentences)
