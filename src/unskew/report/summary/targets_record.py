"""What a page shows of several targets: each with its verdict, means by target, what differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unskew.report.summary.outcome_record import Number


@dataclass(frozen=True)
class TargetRow:
    """One target.

    Attributes
    ----------
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
class TargetsPanel:
    """Several targets: verdicts, outcomes, and the total variation between their weights.

    ``distances``: (target, target, ½ Σ_i |π_i − π'_i|). ``sentences``: what hangs on the choice.
    """

    rows: tuple[TargetRow, ...]
    outcomes: tuple[OutcomeByTarget, ...]
    distances: tuple[tuple[str, str, Number], ...]
    sentences: tuple[str, ...]
