"""What a target is on a pool: strata with their masses, or a reference; masses of uncovered
strata.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import ConvergenceError, CoverageError, DataError, first_few
from unskew.records import Bools, Floats, Ints, Pool, Target
from unskew.records.design_weights import add_design
from unskew.target.counted_masses import CountedMasses, RakedFromCounts
from unskew.target.facts import Distribution, cell_text, mass_array
from unskew.target.interactions import Disagreement, fit_common_interactions
from unskew.target.mass_covariance import (
    MassError,
    margin_jacobian,
    mass_error,
    restricted_error,
    smoothed,
    sum_covariances,
)
from unskew.target.raking import MarginOfCells, rake_table

if TYPE_CHECKING:
    import pandas as pd

    from unskew.target.resolution import PoolCells


@dataclass(frozen=True, eq=False)
class TargetStrata:
    """The strata of a pool with their target mass.

    Attributes
    ----------
    by : the attributes.
    strata : C tuples of levels.
    mass : (C,) target mass, sums to 1; strata outside the target's scope hold their pool share.
    in_scope : (C,) False for those.
    code : (n,) stratum of every row, -1 for dropped rows.
    unit : (n,) how much of a unit a row is: 1, or 1/(images of its group in its stratum); times its
        design weight; 0 for dropped rows.
    errors : the error of ``mass`` from each survey behind the facts; none where they are exact.
    uncovered : strata with target mass and no images, left out (``uncovered="restrict"``), and
        their mass before.
    dropped : number of rows dropped, by reason.
    population : which population results describe.
    sentences : what was given, assumed and done.
    counted : how the masses depend on the pool's own counts, from which they are raked or which
        strata outside the target's scope keep; None where they do not.
    disagreement : how far the sources disagree about the interactions; None where they were not
        taken from several sources.
    images : (n,) how many images each row is; None: one each.
    """

    by: tuple[str, ...]
    strata: tuple[tuple[str, ...], ...] = field(repr=False)
    mass: Floats = field(repr=False)
    in_scope: Bools = field(repr=False)
    code: Ints = field(repr=False)
    unit: Floats = field(repr=False)
    errors: tuple[MassError, ...] = field(repr=False)
    uncovered: Mapping[str, float]
    dropped: Mapping[str, int]
    population: str
    sentences: tuple[str, ...] = field(repr=False)
    counted: CountedMasses | None = field(repr=False, default=None)
    disagreement: Disagreement | None = None
    images: Floats | None = field(repr=False, default=None)

    @property
    def covariance(self) -> Floats | None:
        """(C, C) covariance of ``mass`` from the error of the facts; None where they are exact."""
        return sum_covariances(self.errors)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The strata as texts."""
        return tuple(cell_text(self.by, cell) for cell in self.strata)

    @cached_property
    def size(self) -> Floats:
        """(C,) N_c, units (images or groups) of the pool in each stratum."""
        kept_n = self.code >= 0
        return add_design(self.code[kept_n], self.unit[kept_n], len(self.strata))

    @property
    def weight(self) -> Floats:
        """(n,) post-stratified weights p_c/N_c × unit, sum 1; 0 for dropped rows and mass 0."""
        kept_n = self.code >= 0
        weight_n = np.zeros(self.code.size)
        weight_n[kept_n] = (self.mass / self.size)[self.code[kept_n]] * self.unit[kept_n]
        return weight_n

    def describe(self) -> tuple[str, ...]:
        """Return what was given, assumed and done, and which population results describe."""
        return self.sentences


@dataclass(frozen=True, eq=False)
class TargetReference:
    """A sample of the target, or the name of the source of the pool that is one.

    The share ``holdout`` of it judges and does not fit.
    """

    sample: Pool | None
    source: str | None
    holdout: float
    sentences: tuple[str, ...] = field(repr=False)

    def describe(self) -> tuple[str, ...]:
        """Return what was given and what is assumed."""
        return self.sentences


def target_images(target: Target, pool: Pool) -> pd.DataFrame:
    """Return the table of the images that a sample, or a source of the pool, has of the target."""
    reference = target.compare(pool)
    if reference.sample is not None:
        return reference.sample.frame
    own: pd.DataFrame = pool.frame[pool.frame["source"] == reference.source]
    return own


@dataclass(frozen=True)
class CellMasses:
    """The masses of the target's own cells.

    cells : the C combinations of levels that have images.
    mass_c : (C,) their masses, sum 1.
    errors : the error of the masses from each survey; none where they are exact.
    uncovered : cells without images, which are left out, and their mass.
    raked : where the masses are raked from the pool's own counts, how they depend on these.
    """

    cells: list[tuple[str, ...]]
    mass_c: Floats
    errors: tuple[MassError, ...] = ()
    uncovered: dict[str, float] = field(default_factory=dict)
    raked: RakedFromCounts | None = None


def weigh_cells(target: Target, pool_cells: PoolCells) -> CellMasses:
    """Find the masses of the target's cells, restricted to those with images."""
    if target.kind == "margins" and len(target.facts) > 1:
        return _rake(target, pool_cells)
    if target.kind == "uniform":
        cells = list(itertools.product(*(pool_cells.known[name] for name in target.by)))
        fact = Distribution(target.by, tuple(cells), (1 / len(cells),) * len(cells))
    else:
        (fact,) = target.facts
        _check_combinations(pool_cells, fact, "the joint table")
    seen = set(pool_cells.cells)
    has_images_c = np.array([cell in seen for cell in fact.cells])
    return _covered_fact(target, fact, has_images_c)


def _check_combinations(pool_cells: PoolCells, table: Distribution, what: str) -> None:
    known = set(table.cells)
    lacking = [
        cell_text(table.by, cell)
        for cell, inside in zip(pool_cells.cells, pool_cells.in_scope_c, strict=True)
        if inside and cell not in known
    ]
    if lacking:
        raise DataError(
            f"{what} has no row for {first_few(lacking)}, which images have. Add one for each, "
            "with 0 if the target has none.",
            columns=list(table.by),
            levels=lacking,
        )


def _covered_fact(target: Target, fact: Distribution, has_images_c: Bools) -> CellMasses:
    """Leave out the cells of a fact without images, if the target allows that."""
    every = CellMasses(list(fact.cells), mass_array(fact))
    masses = _without_empty(target, fact.by, every, has_images_c)
    error = mass_error(fact, has_images_c)
    return masses if error is None else replace(masses, errors=(error,))


def _cover(target: Target, pool_cells: PoolCells, masses: CellMasses) -> CellMasses:
    """Leave out raked cells with mass and no images, if the target allows that."""
    seen = set(pool_cells.cells)
    has_images_c = np.array([cell in seen for cell in masses.cells])
    kept = _without_empty(target, target.by, masses, has_images_c)
    errors = [restricted_error(error, masses.mass_c, has_images_c) for error in masses.errors]
    return replace(kept, errors=tuple(errors))


def _without_empty(
    target: Target, by: Sequence[str], masses: CellMasses, has_images_c: Bools
) -> CellMasses:
    """Leave out cells without images (not their errors), if the target allows that."""
    empty = {
        cell_text(by, masses.cells[at]): float(masses.mass_c[at])
        for at in np.flatnonzero(~has_images_c & (masses.mass_c > 0)).tolist()
    }
    kept_c = masses.mass_c[has_images_c]
    if empty:
        allow_uncovered(target, empty, float(kept_c.sum()))
    return CellMasses(
        [masses.cells[at] for at in np.flatnonzero(has_images_c)],
        kept_c / kept_c.sum() if empty else kept_c,
        uncovered={**masses.uncovered, **empty},
    )


def allow_uncovered(target: Target, empty: dict[str, float], left: float) -> None:
    """Refuse {cell without images: its mass}, unless the target may be restricted to the rest."""
    levels = sorted(empty, key=lambda cell: -empty[cell])
    shown = first_few([f"{cell} ({empty[cell]:.4g})" for cell in levels])
    if left <= 0:
        raise CoverageError(
            f"no image is in a cell where the target has mass: {shown}. Do target and images name "
            "their levels alike?",
            levels=levels,
        )
    if target.uncovered == "error":
        raise CoverageError(
            f"the target has mass where no source has an image: {shown}; {sum(empty.values()):.4g} "
            "of the target in all. Add a source that holds such images, or pass "
            "uncovered='restrict' (of a sample: leave such images out): results then describe the "
            "rest of the target.",
            levels=levels,
        )


def _rake(target: Target, pool_cells: PoolCells) -> CellMasses:
    """Find the joint distribution with the margins whose interactions are those assumed."""
    if isinstance(target.interactions, Distribution):
        _check_combinations(pool_cells, target.interactions, "the table of interactions")
        table = target.interactions
        masses, _ = _rake_cells(target, list(table.cells), mass_array(table))
        return _cover(target, pool_cells, masses)
    at = np.flatnonzero(pool_cells.in_scope_c)
    cells, size_c = [pool_cells.cells[c] for c in at], pool_cells.size_c[at]
    common = None
    if target.interactions is None:
        common = fit_common_interactions(
            pool_cells.count_kc[:, at], cell_codes(cells), pool_cells.effect_k
        )
    table_c = size_c if common is None else common.table_c
    masses, indicator_cj = _rake_cells(target, cells, table_c)
    # The pool's own table is itself a sample.
    raked = RakedFromCounts(masses.mass_c, indicator_cj, size_c, common)
    return replace(masses, raked=raked)


def cell_codes(cells: Sequence[tuple[str, ...]]) -> list[Ints]:
    """Return for each attribute (C,) the code of every cell's level."""
    return [
        np.unique(np.array(levels, dtype=object), return_inverse=True)[1].astype(np.int64)
        for levels in zip(*cells, strict=True)
    ]


def _rake_cells(
    target: Target, cells: list[tuple[str, ...]], table_c: Floats
) -> tuple[CellMasses, Floats]:
    """(masses with the margins, nearest to the table; (C, J) the levels of every cell)."""
    margins = []
    for a, fact in enumerate(target.facts):
        seen = {cell[a] for cell in cells}
        in_table_l = np.array([level in seen for (level,) in fact.cells])
        if isinstance(target.interactions, Distribution):
            _check_rows(fact, in_table_l)
        margins.append(_covered_fact(target, fact, in_table_l))
    known = [
        _known_margin(name, margin, [cell[a] for cell in cells])
        for a, (name, margin) in enumerate(zip(target.by, margins, strict=True))
    ]
    start_c = table_c / table_c.sum()
    mass_c = _raked_masses(target, start_c, known)
    indicator_cj = np.hstack([np.eye(len(margin.levels))[margin.code_c] for margin in known])
    uncovered = {name: mass for margin in margins for name, mass in margin.uncovered.items()}
    errors = _raked_errors(target, start_c, mass_c, known, margins)
    return CellMasses(cells, mass_c, errors, uncovered), indicator_cj


def _check_rows(fact: Distribution, in_table_l: Bools) -> None:
    """Refuse a table of interactions without a level that its margin gives mass to."""
    lacking = [
        cell_text(fact.by, fact.cells[at])
        for at in np.flatnonzero(~in_table_l & (mass_array(fact) > 0)).tolist()
    ]
    if lacking:
        raise DataError(
            f"the table of interactions has no row for {first_few(lacking)}, which the margin "
            "gives mass to.",
            column=fact.by[0],
            levels=lacking,
        )


def _known_margin(name: str, margin: CellMasses, level_c: list[str]) -> MarginOfCells:
    levels = tuple(cell[0] for cell in margin.cells)
    index = {level: at for at, level in enumerate(levels)}
    return MarginOfCells(name, levels, margin.mass_c, np.array([index[level] for level in level_c]))


def _raked_masses(target: Target, start_c: Floats, margins: list[MarginOfCells]) -> Floats:
    try:
        return rake_table(start_c, margins)
    except (CoverageError, ConvergenceError) as error:
        table = "the pool's own table"
        if isinstance(target.interactions, Distribution):
            table = "the table of interactions"
        raise type(error)(
            f"the margins of {' and '.join(target.by)} cannot be raked from {table}, because "
            f"combinations that they need are empty there: {error} A joint table (Target.table) "
            "needs no raking.",
            **error.facts,
        ) from error


def _raked_errors(
    target: Target,
    start_c: Floats,
    mass_c: Floats,
    known: list[MarginOfCells],
    margins: list[CellMasses],
) -> tuple[MassError, ...]:
    """Carry the error of every margin over to the cells."""
    if not any(margin.errors for margin in margins):
        return ()
    shifted = [
        margin if fact.n is None else replace(margin, mass_l=smoothed(margin.mass_l, fact.n))
        for margin, fact in zip(known, target.facts, strict=True)
    ]
    # The margins themselves can be reached; their neighbours may not.
    with suppress(CoverageError, ConvergenceError):
        mass_c = rake_table(start_c, shifted)
    blocks = [np.eye(len(margin.levels))[margin.code_c] for margin in known]
    jacobian_cj = margin_jacobian(mass_c, np.hstack(blocks))
    end = np.cumsum([block_cl.shape[1] for block_cl in blocks])
    errors = []
    for block_cl, last, margin in zip(blocks, end, margins, strict=True):
        own_cl = jacobian_cj[:, last - block_cl.shape[1] : last]
        errors += [
            MassError(own_cl @ error.covariance_cc @ own_cl.T, error.freedom)
            for error in margin.errors
        ]
    return tuple(errors)
