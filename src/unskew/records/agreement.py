"""Do the sources agree on a target mean? What each of them says alone, and in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from unskew.engine.arguments import checked
from unskew.errors import first_few, short_name

Interval = tuple[float, float]


@dataclass(frozen=True)
class SourceEstimate:
    """The target mean as one source alone has it, after adjustment.

    Attributes
    ----------
    value, stderr : the estimate; NaN where the source cannot be compared.
    interval : at the level of the `Estimate`.
    images : number of its images that have weight; None where it is withheld.
    share : share of the target that the source sees.
    shared : share of the target that it sees together with another source.
    """

    value: float
    stderr: float
    interval: Interval
    images: int | None
    share: float
    shared: float


@dataclass(frozen=True)
class WithoutSource:
    """The comparison of the other sources, one source left out.

    Attributes
    ----------
    name : the source that is left out.
    value, stderr : the mean of the others, if they agree.
    p, between_sd : as those of `Agreement`, of the others.
    disagree : do the others still disagree?
    """

    name: str
    value: float
    stderr: float
    p: float
    between_sd: float
    disagree: bool


@dataclass(frozen=True)
class Agreement:
    """The comparison of the sources behind a target mean.

    Attributes
    ----------
    by_source : what each source says alone.
    p : p-value of the hypothesis that all sources measure alike; NaN if nothing can be compared.
    between_sd : spread of the sources beyond their sampling errors, on ``scale``; NaN likewise.
    scale : "logit" for shares, "value" otherwise.
    margin : a spread below this, on ``scale``, does not matter.
    disagree : is the spread above the margin, whatever the sampling errors? That of the estimates,
        or that within strata.
    agreed : interval if the sources agree.
    new_source : interval for a source like none of these; None where it cannot be given.
    shared : share of the target that at least two sources see.
    within_sd : spread of the sources within strata (cells of equal membership) beyond sampling
        error, on ``scale``; NaN where there are no such cells, or a single one.
    only_within : do the sources disagree within strata only, and agree on average?
    beyond_margin_p : p-value of the hypothesis that the spread is no larger than the margin;
        ``disagree`` is whether it is below 0.05. NaN if nothing can be compared.
    withheld : sources that were compared, and of which nothing is told.
    without : the comparison without each source in turn; empty with fewer than three.
    reason : why nothing can be compared; empty otherwise.
    """

    by_source: Mapping[str, SourceEstimate]
    p: float
    between_sd: float
    scale: str
    margin: float
    disagree: bool
    agreed: Interval
    new_source: Interval | None
    shared: float
    without: tuple[WithoutSource, ...] = field(default=())
    reason: str = ""
    within_sd: float = math.nan
    only_within: bool = False
    beyond_margin_p: float = math.nan
    withheld: tuple[str, ...] = ()

    @property
    def odd_source(self) -> str | None:
        """The one source without which the others agree; None if there is none, or several."""
        if not self.disagree or self.only_within:
            return None
        odd = [rest.name for rest in self.without if not rest.disagree]
        return odd[0] if len(odd) == 1 else None

    @property
    def compared(self) -> tuple[str, ...]:
        """The sources that are compared."""
        return tuple(
            name
            for name, own in self.by_source.items()
            if math.isfinite(own.value) or name in self.withheld
        )

    @checked
    def withhold(self, names: Collection[str]) -> Agreement:
        """Return the comparison without the numbers of some of the sources it compares.

        Means of the others, one source left out, would give them away, and go too.
        """
        hidden = tuple(name for name in self.compared if name in names)
        nothing = SourceEstimate(math.nan, math.nan, (math.nan, math.nan), None, math.nan, math.nan)
        own = {name: nothing if name in names else own for name, own in self.by_source.items()}
        if not hidden:
            return replace(self, by_source=own)
        without = tuple(
            replace(rest, value=math.nan, stderr=math.nan, between_sd=math.nan)
            for rest in self.without
        )
        return replace(self, by_source=own, without=without, withheld=hidden)

    @property
    def _ends(self) -> str:
        """The smallest and the largest estimate with their sources, in words."""
        known = [name for name in self.compared if name not in self.withheld]
        if len(known) < 2:
            return ""
        low, high = (
            pick(known, key=lambda name: self.by_source[name].value) for pick in (min, max)
        )
        return " to ".join(
            f"{self.by_source[name].value:.3g} ({short_name(name)})" for name in (low, high)
        )

    @property
    def message(self) -> str:
        """Say in a sentence or two whether the sources agree."""
        if self.reason:
            return self.reason
        part = "" if self.shared > 0.995 else f" on the {self.shared:.0%} of the target they share"
        names = self.compared
        if not self.disagree:
            return f"{len(names)} sources agree{part} (p = {_p_text(self.p)})."
        words = f"The sources disagree{part}"
        if self.only_within:
            words = "The sources disagree within strata, and agree on average by chance"
        words += f": {self._ends}." if self._ends else "."
        if self.new_source is None:
            return f"{words} {len(names)} sources cannot say what another one would measure."
        odd = self.odd_source
        without = "" if odd is None else f" Without {short_name(odd)} the others agree."
        return words + without

    @property
    def not_compared(self) -> str:
        """Name in a sentence the sources that share too little with others; empty if none do."""
        left = [name for name in self.by_source if name not in self.compared]
        if not left or self.reason:
            return ""
        return f"Not compared, as they share too little with the others: {first_few(left)}."


def _p_text(p: float) -> str:
    return f"{p:.2g}" if p >= 0.001 else "< 0.001"
