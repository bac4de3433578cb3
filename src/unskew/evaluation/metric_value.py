"""One metric in one cell, with its interval: `MetricValue`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricValue:
    """One metric in one cell.

    Attributes
    ----------
    value : of the weighted images: an estimate for the target; None where it does not exist.
    interval : two-sided; None where there is none.
    stderr : standard deviation of the replicates.
    unweighted : the same of the images without weights.
    effective : effective number of units (groups and copies, else images) behind it.
    few : are they fewer than `FEW_EFFECTIVE`?
    undefined : replicates in which it did not exist, because a class was not drawn.
    where : of the worst class, its name.
    by_seed : of several trainings, the value of each; ``value`` is then their mean.
    spread : standard deviation of these; None with one training.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    stderr: float | None = None
    unweighted: float | None = None
    effective: float | None = None
    few: bool = False
    undefined: int = 0
    where: str | None = None
    by_seed: tuple[float, ...] = ()
    spread: float | None = None
