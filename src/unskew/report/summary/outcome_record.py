"""A target mean on the page, with what each source says of it: a part of `report.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Number = float | None
Heads = Literal["agreed", "new source", "all sources"]
Verdict = Literal["agree", "disagree", "not compared"]


@dataclass(frozen=True)
class OutcomeSource:
    """What one source alone says of a target mean, after adjustment.

    ``value`` None: it is not compared with others (``withheld`` False), or withheld.
    ``images``: those that have weight; ``share``: of the target that it sees.
    """

    name: str
    value: Number
    stderr: Number
    interval: tuple[Number, Number]
    images: int | None
    share: Number
    withheld: bool = False


@dataclass(frozen=True)
class OutcomeWithout:
    """The comparison of the other sources, without source ``name``."""

    name: str
    value: Number
    stderr: Number
    p_value: Number
    between_sd: Number
    disagree: bool


@dataclass(frozen=True)
class OutcomePanel:
    """A target mean and whether the sources measure it alike.

    outcome : what the mean is of; ``is_share``: a part of 1.
    value, stderr, level : the mean over all sources, its error if they agree, level of intervals.
    agreed : interval if the sources agree.
    new_source : interval for a source like none of these; None: cannot say.
    heads : which interval heads: "agreed", "new source", or "all sources" (two that disagree: from
        the lower end of the one to the upper end of the other).
    interval : that interval.
    verdict : "agree", "disagree" or "not compared".
    sentences : that in words, with the reason.
    p_value, between_sd, within_sd, margin, scale : test of agreement; spread of the sources beyond
        sampling error, also within strata; what does not matter; all on ``scale`` ("logit" for
        shares, else "value").
    beyond_margin_p : p-value of a spread no larger than the margin; below 0.05 sources disagree.
    shared : share of the target that two sources see at least: elsewhere nothing can be compared.
    odd_source : the one source without which the others agree.
    by_source, without : what each source says alone, and what the others say without it.
    is_named : the verdict of the page reads it.
    """

    outcome: str
    is_share: bool
    value: Number
    stderr: Number
    level: float
    agreed: tuple[Number, Number]
    new_source: tuple[Number, Number] | None
    heads: Heads
    interval: tuple[Number, Number]
    verdict: Verdict
    sentences: tuple[str, ...]
    p_value: Number
    beyond_margin_p: Number
    between_sd: Number
    within_sd: Number
    margin: Number
    scale: str
    shared: Number
    odd_source: str | None
    by_source: tuple[OutcomeSource, ...]
    without: tuple[OutcomeWithout, ...]
    is_named: bool = True


@dataclass(frozen=True)
class TargetRow:
    """One target.

    name : as in the configuration, [targets.NAME].
    is_main : the page and weights.parquet are about it.
    level : "ok", "weak", or "no" (not identifiable).
    message : why.
    population : which population its weights describe.
    uncovered : share of the target that no source has images of; None where that is not known.
    ess, ess_groups : effective number of images, and of groups.
    given : what is known of the target, in sentences.
    splits : (split, note) where its weights are of splits.
    """

    name: str
    is_main: bool
    level: Literal["ok", "weak", "no"]
    message: str
    population: str = ""
    uncovered: Number = None
    ess: Number = None
    ess_groups: Number = None
    given: tuple[str, ...] = ()
    splits: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MeanOnTarget:
    """The mean of an outcome on one target."""

    name: str
    value: Number
    stderr: Number
    interval: tuple[Number, Number]


@dataclass(frozen=True)
class OutcomeByTarget:
    """An outcome on every target, and how far it moves between them.

    ``difference`` is the mean of the target ``highest`` minus that of ``lowest``, with its error
    and an interval for all pairs of targets together; ``hangs``: the interval excludes 0.
    """

    outcome: str
    is_share: bool
    level: float
    means: tuple[MeanOnTarget, ...]
    lowest: str
    highest: str
    difference: Number
    stderr: Number
    interval: tuple[Number, Number]
    hangs: bool


@dataclass(frozen=True)
class MarginSetPanel:
    """A target whose margin is known up to a set: outcomes at the ends of their range over it.

    ``name``: of the target, empty where it is the only one; ``bounds``: (level, smallest, largest
    mass); ``outcomes``: each at the margin of its lowest mean, at the one given, and at that of its
    highest; ``sentences``: what hangs on the choice.
    """

    name: str
    bounds: tuple[tuple[str, Number, Number], ...]
    outcomes: tuple[OutcomeByTarget, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class TargetsPanel:
    """Several targets: verdicts, outcomes, and the total variation between their weights.

    ``distances``: (target, target, ½ Σ_i |π_i − π'_i|). ``sentences``: what hangs on the choice.
    ``sets``: of targets whose margin is known up to a set.
    """

    rows: tuple[TargetRow, ...]
    outcomes: tuple[OutcomeByTarget, ...]
    distances: tuple[tuple[str, str, Number], ...]
    sentences: tuple[str, ...]
    sets: tuple[MarginSetPanel, ...] = ()
