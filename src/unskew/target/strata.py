"""What a target is on a pool: strata with their masses, or a reference; masses of uncovered
strata.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unskew.errors import ConvergenceError, CoverageError, DataError, first_few
from unskew.records import Floats, Ints, Pool, Target
from unskew.target.facts import Distribution, cell_text, mass_array
from unskew.target.mass_covariance import (
    mass_covariance,
    raked_covariance,
    restricted,
    share_jacobian,
)
from unskew.target.raking import MarginOfCells, rake_table

if TYPE_CHECKING:
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
    unit : (n,) how much of a unit a row is: 1, or 1/(images of its group in its stratum); 0 for
        dropped rows.
    covariance : (C, C) covariance of ``mass`` from the error of the facts; None where they are
        exact.
    uncovered : strata with target mass and no images, left out (``uncovered="restrict"``), and
        their mass before.
    dropped : number of rows dropped, by reason.
    population : which population results describe.
    sentences : what was given, assumed and done.
    share_jacobian : (C, C) ∂mass_c/∂ log N_d where the masses are raked from the pool's own counts
        N; None where they do not depend on N.
    """

    by: tuple[str, ...]
    strata: tuple[tuple[str, ...], ...] = field(repr=False)
    mass: Floats = field(repr=False)
    in_scope: npt.NDArray[np.bool_] = field(repr=False)
    code: Ints = field(repr=False)
    unit: Floats = field(repr=False)
    covariance: Floats | None = field(repr=False)
    uncovered: Mapping[str, float]
    dropped: Mapping[str, int]
    population: str
    sentences: tuple[str, ...] = field(repr=False)
    share_jacobian: Floats | None = field(repr=False, default=None)

    @cached_property
    def size(self) -> Floats:
        """(C,) N_c, units (images or groups) of the pool in each stratum."""
        kept_n = self.code >= 0
        return np.asarray(
            np.bincount(self.code[kept_n], weights=self.unit[kept_n], minlength=len(self.strata)),
            dtype=np.float64,
        )

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


@dataclass(frozen=True)
class CellMasses:
    """The masses of the target's own cells.

    Attributes
    ----------
    cells : the C combinations of levels that have images.
    mass_c : (C,) their masses, sum 1.
    covariance_cc : (C, C) covariance of the masses; None where they are exact.
    uncovered : cells without images, which are left out, and their mass.
    share_jacobian_cc : (C, C) ∂mass_c/∂ log N_d where the masses are raked from the pool's own
        counts N; None otherwise.
    """

    cells: list[tuple[str, ...]]
    mass_c: Floats
    covariance_cc: Floats | None
    uncovered: dict[str, float] = field(default_factory=dict)
    share_jacobian_cc: Floats | None = None


def weigh_cells(target: Target, pool_cells: PoolCells) -> CellMasses:
    """Find the masses of the target's cells, restricted to those with images."""
    if target.kind == "margins" and len(target.facts) > 1:
        return _rake(target, pool_cells)
    if target.kind == "uniform":
        cells = list(itertools.product(*(pool_cells.known[name] for name in target.by)))
        mass_c = np.full(len(cells), 1 / len(cells))
        return _cover(target, pool_cells, CellMasses(cells, mass_c, None))
    (fact,) = target.facts
    _check_combinations(pool_cells, fact, "the joint table")
    masses = CellMasses(list(fact.cells), mass_array(fact), mass_covariance(fact))
    return _cover(target, pool_cells, masses)


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


def _cover(target: Target, pool_cells: PoolCells, masses: CellMasses) -> CellMasses:
    """Leave out cells with mass and no images, if the target allows that."""
    seen = set(pool_cells.cells)
    empty_c = np.array([cell not in seen for cell in masses.cells]) & (masses.mass_c > 0)
    if not empty_c.any():
        return masses
    empty = {
        cell_text(target.by, masses.cells[at]): float(masses.mass_c[at])
        for at in np.flatnonzero(empty_c)
    }
    allow_uncovered(target, empty, float(masses.mass_c[~empty_c].sum()))
    mass_c, covariance_cc = restricted(masses.mass_c, masses.covariance_cc, ~empty_c)
    cells = [masses.cells[at] for at in np.flatnonzero(~empty_c)]
    return CellMasses(cells, mass_c, covariance_cc, {**masses.uncovered, **empty})


def allow_uncovered(target: Target, empty: dict[str, float], left: float) -> None:
    """Refuse {cell without images: its mass}, unless the target may be restricted to the rest.

    ``left`` is the mass of the rest.
    """
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
    """Find the joint distribution nearest to the pool's, or the given table, with the margins."""
    if target.interactions is None:
        at = np.flatnonzero(pool_cells.in_scope_c)
        cells, start_c = [pool_cells.cells[c] for c in at], pool_cells.size_c[at]
    else:
        _check_combinations(pool_cells, target.interactions, "the table of interactions")
        cells, start_c = list(target.interactions.cells), mass_array(target.interactions)
    margins = [
        _cover_margin(target, fact, {cell[a] for cell in cells})
        for a, fact in enumerate(target.facts)
    ]
    known = [
        _known_margin(name, margin, [cell[a] for cell in cells])
        for a, (name, margin) in enumerate(zip(target.by, margins, strict=True))
    ]
    mass_c = _raked_masses(target, start_c / start_c.sum(), known)
    indicator_cj = np.hstack([np.eye(len(margin.levels))[margin.code_c] for margin in known])
    uncovered = {name: mass for margin in margins for name, mass in margin.uncovered.items()}
    masses = CellMasses(cells, mass_c, _raked_errors(mass_c, indicator_cj, margins), uncovered)
    if target.interactions is not None:
        return _cover(target, pool_cells, masses)
    # The pool's own table is itself a sample.
    return replace(masses, share_jacobian_cc=share_jacobian(mass_c, indicator_cj))


def _cover_margin(target: Target, fact: Distribution, seen: set[str]) -> CellMasses:
    """Read one margin, without the levels that the table it is raked from does not have."""
    mass_l = mass_array(fact)
    empty_l = np.array([cell[0] not in seen for cell in fact.cells]) & (mass_l > 0)
    masses = CellMasses(list(fact.cells), mass_l, mass_covariance(fact))
    if not empty_l.any():
        return masses
    empty = {
        cell_text(fact.by, fact.cells[at]): float(mass_l[at]) for at in np.flatnonzero(empty_l)
    }
    if target.interactions is not None:
        raise DataError(
            f"the table of interactions has no row for {first_few(list(empty))}, which the margin "
            "gives mass to.",
            column=fact.by[0],
            levels=list(empty),
        )
    allow_uncovered(target, empty, float(mass_l[~empty_l].sum()))
    kept_l, covariance_ll = restricted(mass_l, masses.covariance_cc, ~empty_l)
    cells = [fact.cells[at] for at in np.flatnonzero(~empty_l)]
    return CellMasses(cells, kept_l, covariance_ll, empty)


def _known_margin(name: str, margin: CellMasses, level_c: list[str]) -> MarginOfCells:
    levels = tuple(cell[0] for cell in margin.cells)
    index = {level: at for at, level in enumerate(levels)}
    return MarginOfCells(name, levels, margin.mass_c, np.array([index[level] for level in level_c]))


def _raked_masses(target: Target, start_c: Floats, margins: list[MarginOfCells]) -> Floats:
    try:
        return rake_table(start_c, margins)
    except (CoverageError, ConvergenceError) as error:
        table = (
            "the pool's own table" if target.interactions is None else "the table of interactions"
        )
        raise type(error)(
            f"the margins of {' and '.join(target.by)} cannot be raked from {table}, because "
            f"combinations that they need are empty there: {error} A joint table (Target.table) "
            "needs no raking.",
            **error.facts,
        ) from error


def _raked_errors(mass_c: Floats, indicator_cj: Floats, margins: list[CellMasses]) -> Floats | None:
    if all(margin.covariance_cc is None for margin in margins):
        return None
    from scipy.linalg import block_diag

    blocks = [
        np.zeros((len(margin.cells), len(margin.cells)))
        if margin.covariance_cc is None
        else margin.covariance_cc
        for margin in margins
    ]
    return raked_covariance(mass_c, indicator_cj, block_diag(*blocks))
