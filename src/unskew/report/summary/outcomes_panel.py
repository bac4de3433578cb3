"""Target means with what each source says of them: which interval heads, and why, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unskew.records import Agreement, Diagnostics, OutcomeMean
from unskew.report.summary.outcome_record import (
    Heads,
    Number,
    OutcomePanel,
    OutcomeSource,
    OutcomeWithout,
    Verdict,
)
from unskew.report.summary.plain import plain_value
from unskew.report.summary.privacy import SMALLEST_CELL, listed, share_text
from unskew.report.summary.source_table import hidden_sources
from unskew.report.summary.weighted_pool import WeightedPool

# A share of the target below which it is not worth a sentence.
_LITTLE = 0.005


def show_outcomes(
    weighed: WeightedPool, diagnostics: Diagnostics, hidden: Sequence[str]
) -> tuple[OutcomePanel, ...]:
    """Show every target mean; those that sources disagree on first. ``hidden`` is not named."""
    only = {} if weighed.fitted is None or weighed.strata is None else weighed.fitted.strata.only
    alone = [
        stratum
        for stratum in only
        if not (weighed.private and any(name in stratum for name in hidden))
    ]
    panels = [_show(weighed, mean, alone) for mean in diagnostics.outcomes]
    return tuple(sorted(panels, key=lambda panel: panel.verdict != "disagree"))


def _show(weighed: WeightedPool, mean: OutcomeMean, alone: Sequence[str]) -> OutcomePanel:
    estimate, agreement = mean.estimate, mean.estimate.agreement
    assert agreement is not None
    is_hidden = dict(zip(weighed.names, hidden_sources(weighed).tolist(), strict=True))
    heads: Heads = "agreed"
    if agreement.disagree:
        heads = "all sources" if agreement.new_source is None else "new source"
    verdict: Verdict = "disagree" if agreement.disagree else "agree"
    if agreement.reason:
        verdict = "not compared"
    panel: OutcomePanel = plain_value(
        OutcomePanel(
            outcome=mean.outcome,
            is_share=mean.is_share,
            value=estimate.value,
            stderr=estimate.stderr,
            level=estimate.level,
            agreed=agreement.agreed,
            new_source=agreement.new_source,
            heads=heads,
            interval=estimate.interval,
            verdict=verdict,
            sentences=(),
            p_value=agreement.p,
            beyond_margin_p=agreement.beyond_margin_p,
            between_sd=agreement.between_sd,
            within_sd=agreement.within_sd,
            margin=agreement.margin,
            scale=agreement.scale,
            shared=agreement.shared,
            odd_source=agreement.odd_source,
            by_source=tuple(
                OutcomeSource(
                    name=name,
                    value=own.value,
                    stderr=own.stderr,
                    interval=own.interval,
                    images=None if is_hidden[name] else own.images,
                    share=None if weighed.private else own.share,
                    withheld=name in agreement.withheld,
                )
                for name, own in agreement.by_source.items()
            ),
            without=tuple(
                OutcomeWithout(
                    rest.name, rest.value, rest.stderr, rest.p, rest.between_sd, rest.disagree
                )
                for rest in agreement.without
            ),
            is_named=mean.is_named,
        )
    )
    return replace(panel, sentences=_Words(panel, agreement).sentences(alone))


def show_amount(panel: OutcomePanel, value: Number) -> str:
    """Show a share in percent, another mean to three digits."""
    if value is None:
        return "–"
    return share_text(value) if panel.is_share else f"{value:.3g}"


def show_ends(panel: OutcomePanel) -> str:
    """Name the sources with the smallest and the largest estimate; empty if there is only one."""
    known = {row.name: row.value for row in panel.by_source if row.value is not None}
    if len(known) < 2:
        return ""
    ends = (min(known, key=known.__getitem__), max(known, key=known.__getitem__))
    return " to ".join(f"{show_amount(panel, known[name])} ({name})" for name in ends)


@dataclass(frozen=True)
class _Words:
    """One outcome in words."""

    panel: OutcomePanel
    agreement: Agreement

    def interval(self, ends: tuple[Number, Number]) -> str:
        return " to ".join(show_amount(self.panel, end) for end in ends)

    def spread(self, sd: Number) -> str:
        """Show a spread on the scale of comparison in units of the outcome, too."""
        if self.panel.scale != "logit" or sd is None or self.panel.value is None:
            return "–" if sd is None else f"{sd:.2g}"
        size = sd * self.panel.value * (1.0 - self.panel.value)
        shown = f"{100 * size:.2g} percentage points" if self.panel.is_share else f"{size:.2g}"
        return f"{shown} ({sd:.2g} on the logit scale)"

    def sentences(self, alone: Sequence[str]) -> tuple[str, ...]:
        """Say whether the sources agree, which interval heads and why, and what is not compared."""
        agreement = self.agreement
        if agreement.reason:
            only = [self._agreed_heads()] if len(agreement.by_source) > 1 else []
            return (agreement.reason, *only, *self._seen_by_one(alone))
        decided = self._disagreement() if agreement.disagree else self._agreement()
        return tuple(
            sentence
            for sentence in (
                *decided,
                *self._seen_by_one(alone),
                agreement.not_compared,
                self._withheld(),
            )
            if sentence
        )

    def _agreed_heads(self) -> str:
        return (
            "So there is only the interval that holds if they measure alike: "
            f"{self.interval(self.panel.agreed)}."
        )

    def _agreement(self) -> list[str]:
        panel = self.panel
        return [
            f"The sources agree, so the interval if they agree comes first: "
            f"{self.interval(panel.agreed)}.",
            "The size of their disagreement decides, not a p-value: after weighting, their spread "
            f"beyond sampling error is {self.spread(panel.between_sd)}. The data do not show that "
            f"it is above {self.spread(panel.margin)}; below that it does not matter.",
        ]

    def _disagreement(self) -> list[str]:
        panel, is_within = self.panel, self.agreement.only_within
        ends = show_ends(panel)
        where = ", from " + ends if ends else ""
        if is_within:
            where = " within strata, though their means agree by chance"
        sd = panel.within_sd if is_within else panel.between_sd
        return [
            f"The sources disagree{where}. {self._heading()}",
            "The size of their disagreement decides, not a p-value: after weighting, their spread "
            f"beyond sampling error is {self.spread(sd)}. Below {self.spread(panel.margin)} it "
            "would not matter.",
            "Either they measure it differently, or they select images by something that the bias "
            "model does not read.",
            self._culprit(),
        ]

    def _heading(self) -> str:
        panel = self.panel
        agreed = (
            f"The interval if they agreed, {self.interval(panel.agreed)}, does not count their "
            "differences."
        )
        if panel.new_source is not None:
            return (
                "So the interval for a source like none of these comes first: "
                f"{self.interval(panel.new_source)}. {agreed}"
            )
        both = (
            ""
            if self.agreement.withheld
            else f" Neither is known to be right, so the interval that comes first spans both: "
            f"{self.interval(panel.interval)}."
        )
        return f"Two sources cannot say what a third would measure.{both} {agreed}"

    def _culprit(self) -> str:
        agreement = self.agreement
        if not agreement.without or agreement.only_within:
            return ""
        odd = [rest.name for rest in agreement.without if not rest.disagree]
        if len(odd) == 1:
            return f"Without {odd[0]} the others agree: find out what is different there."
        if odd:
            names = listed(odd)
            return f"Leaving out any one of {names}, the others agree: which is off is not clear."
        return "No single source is the cause: whichever is left out, the others disagree."

    def _seen_by_one(self, alone: Sequence[str]) -> list[str]:
        """Say where nothing can be compared."""
        lone = 1.0 - self.agreement.shared
        if len(self.agreement.by_source) < 2 or lone < _LITTLE:
            return []
        if self.agreement.reason and self.agreement.shared == 0.0 and not alone:
            return []
        named = f": {listed(alone)}" if alone else ""
        return [
            f"{share_text(lone)} of the target is seen by one source only{named}. Nothing can be "
            "compared there."
        ]

    def _withheld(self) -> str:
        if not self.agreement.withheld:
            return ""
        return (
            f"Sources in which fewer than {SMALLEST_CELL} have it, or lack it, are withheld, and "
            "so are others that would reveal them."
        )
