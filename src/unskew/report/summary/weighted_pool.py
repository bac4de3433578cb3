"""A pool and its weights side by side, in one order: what every panel is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, first_few
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.report.summary.suppression import SMALLEST_CELL, count_units, too_small

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata


@dataclass(frozen=True, eq=False)
class WeightedPool:
    """The pool in the order of its weights.

    Attributes
    ----------
    pool : row i is the image of ``weights.weight[i]``.
    weights : one weight for each of them.
    private : only aggregates may be shown (``privacy = "aggregate"``).
    set_aside : images that were found but could not be used, or None.
    """

    pool: Pool
    weights: Weights
    private: bool
    set_aside: pd.DataFrame | None = field(repr=False, default=None)

    @property
    def frame(self) -> pd.DataFrame:
        return self.pool.frame

    @property
    def n(self) -> int:
        return int(self.weights.weight.size)

    @property
    def names(self) -> tuple[str, ...]:
        return self.weights.names

    @property
    def weight_n(self) -> Floats:
        """Return (n,) π."""
        return self.weights.weight

    @cached_property
    def source_n(self) -> Ints:
        return self.weights.source.astype(np.int64)

    @cached_property
    def group_n(self) -> Ints | None:
        """Return (n,) the code of each image's group; None without groups."""
        if self.weights.group is not None:
            return np.unique(self.weights.group, return_inverse=True)[1].astype(np.int64)
        if "group" not in self.frame.columns:
            return None
        import pandas as pd

        return np.asarray(pd.factorize(self.frame["group"])[0], dtype=np.int64)

    @property
    def fitted(self) -> Any:
        """Return the `FittedBias` behind the weights; None where ω was given as numbers."""
        return None if self.weights.estimation is None else self.weights.estimation.fitted

    @property
    def target(self) -> Target | None:
        return None if self.fitted is None else self.fitted.target

    @property
    def strata(self) -> TargetStrata | None:
        """Return the strata whose masses the weights follow; None without a `Strata` part."""
        return (
            None if self.fitted is None or self.fitted.strata is None else self.fitted.strata.target
        )

    def group_counts(self, code_m: Ints, n_codes: int, row_m: Ints | None = None) -> Ints | None:
        """Return (n_codes,) how many groups have an image of each code; None without groups."""
        return None if self.group_n is None else count_units(self.group_n, code_m, n_codes, row_m)

    def cell_sizes(self, code_m: Ints, n_codes: int, row_m: Ints | None = None) -> Ints:
        """Return (n_codes,) how many groups (images, without groups) each cell has."""
        return count_units(self.group_n, code_m, n_codes, row_m)


def pair_with_weights(pool: Pool, weights: Weights, private: bool) -> WeightedPool:
    """Join rows to weights by id.

    Row numbers in place of ids are joined in order, if the sources agree.
    """
    _check_kinds(pool, weights)
    order = _order(pool, weights)
    same = np.array_equal(order, np.arange(order.size))
    ordered = pool if same else pool.take(order)
    _check_origin(pool, weights, order)
    weighed = WeightedPool(ordered, weights, private, pool.set_aside)
    units = int(weighed.cell_sizes(np.zeros(weighed.n, dtype=np.int64), 1)[0])
    if private and too_small(units):
        unit = "images" if weighed.group_n is None else "groups"
        raise ConfigError(
            f'privacy = "aggregate" shows nothing about fewer than {SMALLEST_CELL} {unit}; there '
            f"are {units} in all.",
            option="privacy",
            count=units,
            limit=SMALLEST_CELL,
        )
    return weighed


def _check_kinds(pool: Pool, weights: Weights) -> None:
    if not isinstance(pool, Pool):
        raise DataError(
            f"a report is about a Pool; got {type(pool).__name__}. Make one with Pool.from_frame "
            "or Pool.from_folders.",
            value=type(pool).__name__,
        )
    if not isinstance(weights, Weights):
        raise DataError(
            f"a report needs Weights, as unskew.debias returns them; got {type(weights).__name__}.",
            value=type(weights).__name__,
        )
    if not np.isfinite(weights.weight).all():
        raise DataError(
            "these weights are not numbers, because the solve failed "
            f"({weights.solution.status.value}); see summarize_refusal.",
            value=weights.solution.status.value,
        )


def _check_origin(pool: Pool, weights: Weights, order: Ints) -> None:
    """Refuse a pool that names another source for an image than the weights do."""
    names = pool.names
    code_k = np.array(
        [names.index(name) if name in names else -1 for name in weights.names], dtype=np.int64
    )
    other = np.flatnonzero(pool.source[order] != code_k[weights.source])
    if other.size:
        own, theirs = names[pool.source[order[other[0]]]], weights.names[weights.source[other[0]]]
        raise DataError(
            f"pool and weights disagree about where image {weights.id[other[0]]!r} comes from: "
            f"{own!r} and {theirs!r}. Pass the pool that was weighed.",
            id=weights.id[other[0]],
            sources=[own, theirs],
        )


def _order(pool: Pool, weights: Weights) -> Ints:
    """Return (n,) the row of the pool of every weight."""
    ids, n = pool.frame["id"].to_numpy(), weights.weight.size
    if len(pool) == n and np.array_equal(ids, weights.id):
        return np.arange(n)
    row = {identity: position for position, identity in enumerate(ids.tolist())}
    lacking = [identity for identity in weights.id.tolist() if identity not in row]
    if not lacking and len(pool) == n:
        return np.array([row[identity] for identity in weights.id.tolist()], dtype=np.int64)
    if len(pool) == n and np.array_equal(weights.id, np.arange(n)):
        # `debias_weights` numbers the rows where it is given no ids.
        return np.arange(n)
    reason = (
        f"{len(lacking)} weights are of images that the pool lacks ({first_few(lacking)})"
        if lacking
        else "some images have no weight"
    )
    raise DataError(
        f"the pool has {len(pool)} images and there are {n} weights; {reason}. Pass the pool that "
        "was weighed (pool.take(rows) chooses images).",
        count=len(pool),
        value=n,
        ids=lacking[:5],
    )
