"""A pool joined to its weights by id, and its columns with what the target says of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.errors import ConfigError, DataError, UnskewError
from unskew.records import Floats, Ints, Pool, Target, Weights
from unskew.records.levels import find_positions, list_ids, refuse_extra
from unskew.records.weights import holds_ids
from unskew.report.summary.columns import (
    ShownColumn,
    align_column,
    column_numbers,
    read_shown_column,
    read_target_column,
)
from unskew.report.summary.privacy import SMALLEST_CELL, count_units, private_sentences, too_small
from unskew.target.settings import reference_sentences

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.strata import TargetStrata


@dataclass(frozen=True, eq=False)
class WeightedPool:
    """The pool in the order of its weights.

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
    def counts_copies(self) -> bool:
        """Tell whether different images are what is independent: there are copies, no groups."""
        return self.weights.diagnosis.groups is not None and self.group_n is None

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
    """Join rows to weights by id."""
    if not np.isfinite(weights.weight).all():
        raise DataError(
            "these weights are not numbers, because the solve failed "
            f"({weights.solution.status.value}); see summarize_refusal.",
            value=weights.solution.status.value,
        )
    order = _order(pool, weights)
    ordered = pool if order is None else pool.take(order)
    _check_origin(ordered, weights)
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


def _check_origin(pool: Pool, weights: Weights) -> None:
    """Refuse a pool that names another source for an image than the weights do."""
    names = pool.names
    code_k = np.array(
        [names.index(name) if name in names else -1 for name in weights.names], dtype=np.int64
    )
    other = np.flatnonzero(pool.source != code_k[weights.source])
    if other.size:
        own, theirs = names[pool.source[other[0]]], weights.names[weights.source[other[0]]]
        name = list_ids(weights.id)[other[0]]
        raise DataError(
            f"pool and weights disagree about where image {name!r} comes from: {own!r} and "
            f"{theirs!r}. Pass the pool that was weighed.",
            id=name,
            sources=[own, theirs],
        )


def _order(pool: Pool, weights: Weights) -> Ints | None:
    """Return (n,) the row of the pool of every weight; None: they are in its order."""
    n = weights.weight.size
    if len(pool) == n and holds_ids(pool.frame["id"], weights):
        return None
    own, wanted = list_ids(pool.frame["id"]), list_ids(weights.id)
    if np.array_equal(weights.id, np.arange(n)) and len(pool) == n and not set(own) >= set(wanted):
        # `debias_weights` numbers the rows where it is given no ids.
        return None
    order = find_positions(wanted, own, of="the weights", among="the pool")
    way_out = "Pass the pool that was weighed (pool.take(rows) chooses images)."
    refuse_extra(own, wanted, of="the weights", among="the pool", way_out=way_out)
    return order


_MOST_COLUMNS = 300
# Numbered columns of one representation: pixels or an embedding, where there are more.
_MOST_NUMBERED = 24


@dataclass(frozen=True, eq=False)
class Described:
    """One column, and the target's share of every level or bin.

    column : of the pool.
    role : "label", "attribute" (levels) or "feature" (numbers).
    fitted : does the bias model read it, or follow its target masses?
    target : (L,) share of every level or bin in the target; None where the target does not give it.
    target_mean : of numbers.
    target_count : (L + 1,) images of the target's sample behind ``target``, those without a value
        last; None where it comes from facts.
    by_strata : is it an attribute of the strata whose table the report shows?
    """

    column: ShownColumn
    role: Literal["label", "attribute", "feature"]
    fitted: bool
    target: Floats | None = None
    target_mean: float | None = None
    target_count: Ints | None = None
    by_strata: bool = False


def fitted_columns(weighed: WeightedPool) -> tuple[str, ...]:
    """Return the columns that the bias model reads."""
    if weighed.fitted is None:
        return ()
    names = [name for part in weighed.fitted.model.parts for name in part.columns]
    names += [] if weighed.strata is None else list(weighed.strata.by)
    columns = [str(name) for name in weighed.frame.columns]
    read: dict[str, None] = {}
    for name in names:
        read |= dict.fromkeys(
            [name]
            if name in columns
            else [column for column in columns if column.startswith(f"{name}_")]
        )
    return tuple(read)


def describe_columns(
    weighed: WeightedPool, only: Collection[str] | None = None
) -> tuple[list[Described], tuple[str, ...]]:
    """Return the columns that can be shown, and why others cannot.

    The label comes first, then the columns of the model. ``only``: names of those that are needed.
    """
    fitted = fitted_columns(weighed)
    every = [
        *(["label"] if "label" in weighed.frame.columns else []),
        *fitted,
        *weighed.pool.attributes,
    ]
    names = list(dict.fromkeys(name for name in every if name in weighed.frame.columns))
    strata, bins, followed = _strata(weighed)
    reference = _reference(weighed)
    wide = (
        {}
        if reference is not None
        else _wide_representations([name for name in names if name not in fitted])
    )
    names = [name for name in names if not any(name in own for own in wide.values())]
    shown: list[Described] = []
    not_shown = [
        f"{own[0]} … {own[-1]}: {len(own)} numbers of one representation, none of which says much "
        "by itself"
        for own in wide.values()
    ]
    for name in names[:_MOST_COLUMNS]:
        if only is not None and name not in only:
            continue
        is_fitted = name in fitted
        if strata is not None and name in strata.by:
            shown.append(_of_strata(weighed, name, strata, bins, followed, is_fitted))
            continue
        other = None if reference is None or name not in reference.columns else reference[name]
        described = _of_column(weighed, name, other, is_fitted)
        if isinstance(described, str):
            not_shown.append(described)
        else:
            shown.append(described)
    if len(names) > _MOST_COLUMNS:
        not_shown.append(
            f"{len(names) - _MOST_COLUMNS} further columns: only the first {_MOST_COLUMNS} are "
            "looked at"
        )
    return shown, tuple(not_shown)


def _wide_representations(names: Sequence[str]) -> dict[str, list[str]]:
    """Group numbered columns (embedding_0, embedding_1, …) by their stem, where there are many."""
    by_stem: dict[str, list[str]] = {}
    for name in names:
        stem, _, number = name.rpartition("_")
        if stem and number.isdecimal():
            by_stem.setdefault(stem, []).append(name)
    return {stem: own for stem, own in by_stem.items() if len(own) > _MOST_NUMBERED}


def _strata(
    weighed: WeightedPool,
) -> tuple[TargetStrata | None, Mapping[str, Sequence[float]], bool]:
    """Return the strata with target masses, edges of bins, and whether the weights follow them."""
    if weighed.fitted is not None and weighed.fitted.strata is not None:
        return weighed.fitted.strata.target, weighed.fitted.strata.bins, True
    target = weighed.target
    if target is None or target.kind in ("sample", "source"):
        return None, {}, False
    try:
        return target.stratify(weighed.pool), target.bins, False
    except UnskewError:
        # The weights do not rest on it; the report is as valid without.
        return None, {}, False


def _reference(weighed: WeightedPool) -> pd.DataFrame | None:
    """Return the images of the target, if it was given by images."""
    target = weighed.target
    if target is None or target.kind not in ("sample", "source"):
        return None
    if target.kind == "sample":
        return target.reference.frame if isinstance(target.reference, Pool) else None
    own_n = weighed.source_n == weighed.names.index(str(target.reference))
    own: pd.DataFrame = weighed.frame.loc[own_n]
    return own


def _of_strata(
    weighed: WeightedPool,
    name: str,
    strata: TargetStrata,
    bins: Mapping[str, Sequence[float]],
    followed: bool,
    fitted: bool,
) -> Described:
    """Describe an attribute of the target's facts by their levels and masses."""
    attribute = strata.by.index(name)
    known = list(dict.fromkeys(cell[attribute] for cell in strata.strata))
    column = read_target_column(weighed.frame[name], name, bins.get(name), known)
    at = {level: code for code, level in enumerate(column.levels)}
    mass_c = strata.mass
    if weighed.private and followed:
        # Images outside the scope have their pool share as mass, which would reveal their number.
        mass_c = np.where(strata.in_scope, strata.mass, 0.0) / strata.mass[strata.in_scope].sum()
        column = column.restricted((strata.code >= 0) & strata.in_scope[strata.code])
    target_l = np.bincount(
        [at[cell[attribute]] for cell in strata.strata], weights=mass_c, minlength=column.size
    )
    return Described(column, _role(name, column), fitted, np.asarray(target_l), by_strata=followed)


def _of_column(weighed: WeightedPool, name: str, other: Any, fitted: bool) -> Described | str:
    column = read_shown_column(
        weighed.frame[name], name, weighed.private, None if other is None else column_numbers(other)
    )
    if isinstance(column, str):
        return column
    if other is None or bool(other.isna().all()):
        return Described(column, _role(name, column), fitted)
    placed = align_column(column, other)
    if placed is None:
        return Described(column, _role(name, column), fitted)
    column, there = placed
    count = np.append(there.masses(), np.count_nonzero(~there.present)).astype(np.int64)
    return Described(column, _role(name, column), fitted, there.shares(), there.mean(), count)


def _role(name: str, column: ShownColumn) -> Literal["label", "attribute", "feature"]:
    if name == "label":
        return "label"
    return "feature" if column.is_number else "attribute"


def target_sentences_of(weighed: WeightedPool, hidden: Sequence[str]) -> tuple[str, ...]:
    """Describe what was given and assumed about the target; ``hidden`` is not named."""
    target = weighed.target
    if target is None:
        return (
            "No target was given: the result is about the population that the biasing functions "
            "select from.",
        )
    if weighed.strata is not None:
        sentences = weighed.strata.describe()
    else:
        sentences = (
            reference_sentences(target, weighed.pool)
            if target.kind == "source"
            else target.describe()
        )
    return private_sentences(sentences, hidden) if weighed.private else tuple(sentences)
