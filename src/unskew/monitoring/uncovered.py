"""What the pool covers: levels that it has, images that a source can produce, and distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unskew.monitoring.reference_scores import ReferenceScores, learn_scores
from unskew.monitoring.variables import DISTANCE, Variable, read_values
from unskew.records import Pool, Target
from unskew.records.arrays import Bools, Floats

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias

# An image farther from the pool than this share of the weighted pool is from its other half is
# outside.
_FARTHEST = 0.99


@dataclass(frozen=True, eq=False)
class CoveredPool:
    """What is outside: fixed by the pool, before any new image is seen.

    Attributes
    ----------
    levels : the levels that the pool has, by column.
    limit : the largest distance to the pool; None without distances.
    scores : of one half of the pool.
    pool, bias, target, seed : what the model of the full pool is fitted to, when it is needed.
    """

    levels: Mapping[str, frozenset[str]]
    limit: float | None
    scores: ReferenceScores
    pool: Pool = field(repr=False)
    bias: Bias = field(repr=False)
    target: Target | None = field(repr=False)
    seed: int = 0

    def find_outside(self, frame: pd.DataFrame, scores: Mapping[str, Floats]) -> Bools:
        """Tell (m,) which images are outside what the pool covers."""
        outside_m = np.zeros(len(frame), dtype=np.bool_)
        for name, known in self.levels.items():
            if name in frame.columns:
                value_m = read_values(frame, Variable(name, is_number=False))
                outside_m |= np.array(
                    [value not in known for value in value_m.tolist()], dtype=bool
                )
        if self.limit is not None and DISTANCE in scores:
            outside_m |= scores[DISTANCE] > self.limit
        # One half of the pool covers less than all of it, so that only these are in question.
        doubtful = np.flatnonzero(self.scores.uncovered(frame) & ~outside_m)
        if doubtful.size:
            outside_m[doubtful] = self._full_model.uncovered(frame.iloc[doubtful])
        return outside_m

    @cached_property
    def _full_model(self) -> ReferenceScores:
        return learn_scores(self.pool, self.bias, self.target, (), seed=self.seed)


def distance_limit(distance_n: Floats, weight_n: Floats) -> float | None:
    """Return the 99% quantile of distances under the weights; None without images."""
    if not distance_n.size or not weight_n.sum() > 0:
        return None
    order = np.argsort(distance_n)
    mass = np.cumsum(weight_n[order]) / weight_n.sum()
    return float(distance_n[order][min(int(np.searchsorted(mass, _FARTHEST)), order.size - 1)])


def count_unseen(
    levels: Mapping[str, frozenset[str]], values: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, str, int], ...]:
    """Count (column, level, units) of levels that the pool lacks, the most frequent first."""
    lacking = [
        (name, level, int(count))
        for name, own in values.items()
        if name in levels
        for level, count in zip(
            *np.unique(np.array(own, dtype=str), return_counts=True), strict=True
        )
        if level not in levels[name]
    ]
    return tuple(sorted(((n, str(at), c) for n, at, c in lacking), key=lambda one: -one[2]))
