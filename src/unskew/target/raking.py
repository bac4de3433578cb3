"""Raking: the joint distribution nearest to a table of cells that has given margins."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unskew.errors import ConvergenceError, CoverageError, first_few
from unskew.records import Bools, Floats, Ints
from unskew.records.design_weights import add_design
from unskew.target.tilting import Gap, TiltSolution, smallest_conflict, tilt_to_zero

_SWEEPS = 20
_FAINTEST = 1e-200


@dataclass(frozen=True)
class MarginOfCells:
    """The known distribution of one attribute over the cells of a table, or over images.

    name : the attribute.
    levels : its L levels.
    mass_l : (L,) their masses.
    code_c : (C,) the index of every cell's level in ``levels``.
    """

    name: str
    levels: tuple[Hashable, ...]
    mass_l: Floats
    code_c: Ints

    @property
    def with_mass(self) -> Ints:
        """The levels with mass."""
        return np.flatnonzero(self.mass_l > 0)


@dataclass(frozen=True)
class MeanOfCells:
    """A known mean; ``value_c`` (C,) holds the values of the cells, or of images."""

    name: str
    value_c: Floats
    target: float

    @property
    def scale(self) -> float:
        """The largest distance of a value from the mean."""
        return float(np.abs(self.value_c - self.target).max()) or 1.0


def rake_table(weight_c: Floats, margins: Sequence[MarginOfCells]) -> Floats:
    """Return the (C,) masses with these margins that are nearest to ``weight_c``.

    They minimise Σ_c p_c log(p_c/w_c): p_c ∝ w_c exp(ν·x_c), x_c the indicators of the cell's
    levels, the limit of iterative proportional fitting. The margins hold to 1e-12.

    Raises
    ------
    CoverageError : no masses on these cells have all of the margins.
    ConvergenceError : double precision cannot tell whether some have.
    """
    keep_c = find_possible(weight_c, margins)
    kept = [
        replace(
            margin, mass_l=margin.mass_l / math.fsum(margin.mass_l), code_c=margin.code_c[keep_c]
        )
        for margin in margins
    ]
    start_c = weight_c[keep_c] / weight_c[keep_c].sum()
    tilt = tilt_to_facts(start_c, kept, (), [margin.name for margin in kept])
    mass_c = np.zeros(weight_c.size)
    mass_c[keep_c] = tilt.probability / tilt.probability.sum()
    return mass_c


def find_possible(weight_c: Floats, margins: Sequence[MarginOfCells]) -> Bools:
    """(C,) where a weight may be positive: it is now, and every level there has mass.

    Levels with mass that occur nowhere else are a `CoverageError`.
    """
    keep_c: Bools = weight_c > 0
    for margin in margins:
        keep_c = keep_c & (margin.mass_l[margin.code_c] > 0)
    for margin in margins:
        why = "they occur only together with a level of mass 0, or not at all"
        check_coverage(margin, weight_c * keep_c, why)
    return keep_c


def tilt_to_facts(
    weight_c: Floats,
    margins: Sequence[MarginOfCells],
    means: Sequence[MeanOfCells],
    names: Sequence[str],
) -> TiltSolution:
    """Find the distribution nearest to ``weight_c`` with these margins and means.

    An error calls them by ``names``; it is as that of `rake_table`.
    """
    swept_c = sweep_margins(
        weight_c, [margin.code_c for margin in margins], [margin.mass_l for margin in margins]
    )
    columns = [
        (margin.code_c == at) - margin.mass_l[at] for margin in margins for at in margin.with_mass
    ]
    columns += [(mean.value_c - mean.target) / mean.scale for mean in means]
    z_cj = np.column_stack(columns)
    tilt = tilt_to_zero(swept_c, z_cj)
    if not isinstance(tilt, TiltSolution):
        raise _unreachable(tilt, z_cj, margins, means, names)
    return tilt


def sweep_margins(weight_c: Floats, codes: Sequence[Ints], masses: Sequence[Floats]) -> Floats:
    """Do a few sweeps of iterative proportional fitting: a good start, and exact for one margin.

    Raking multiplies by functions of the levels, so it stays within the family p ∝ w exp(ν·x) and
    changes no solution.

    weight_c : (C,) positive, sums to 1.
    codes : for each margin, (C,) the level of every cell.
    masses : for each margin, (L,) the masses of its levels.
    """
    swept_c = weight_c
    for _ in range(_SWEEPS if len(codes) > 1 else 1):
        for code_c, mass_l in zip(codes, masses, strict=True):
            now_l = np.bincount(code_c, weights=swept_c, minlength=mass_l.size)
            factor_l = np.divide(mass_l, now_l, out=np.zeros(mass_l.size), where=mass_l > 0)
            swept_c = swept_c * factor_l[code_c]
    swept_c = swept_c / swept_c.sum()
    # Margins that cannot be reached may drive cells to nothing; Newton's method then decides from
    # the weights before the sweeps.
    return swept_c if swept_c.min() > _FAINTEST else weight_c


def margin_masses(margin: MarginOfCells, weight_c: Floats) -> Floats:
    """Sum the weights of each level."""
    return add_design(margin.code_c, weight_c, len(margin.levels))


def check_coverage(margin: MarginOfCells, weight_c: Floats, why: str) -> None:
    """Refuse a margin with mass on levels that nothing with a positive weight has."""
    empty = np.flatnonzero((margin.mass_l > 0) & (margin_masses(margin, weight_c) == 0))
    if empty.size:
        named = first_few([f"{margin.levels[at]} ({margin.mass_l[at]:.4g})" for at in empty])
        raise CoverageError(
            f"the target has mass on levels of {margin.name!r} that cannot be weighted up, because "
            f"{why}: {named}; {margin.mass_l[empty].sum():.4g} of the target in all. Add a source "
            "that holds such images, or restrict the target.",
            column=margin.name,
            levels=[margin.levels[at] for at in empty],
        )


def _unreachable(
    gap: Gap | None,
    z_cj: Floats,
    margins: Sequence[MarginOfCells],
    means: Sequence[MeanOfCells],
    names: Sequence[str],
) -> CoverageError | ConvergenceError:
    if gap is None:
        return ConvergenceError(
            "the margins are so close to the limit of what can be reached here that double "
            "precision cannot tell whether they can. Merge rare levels, or leave one margin out.",
            columns=list(names),
        )
    wanted = [
        (f"{margin.name} = {margin.levels[at]}", margin.mass_l[at], 1.0)
        for margin in margins
        for at in margin.with_mass
    ]
    wanted += [(f"mean of {mean.name}", mean.target, mean.scale) for mean in means]
    nearest = [
        f"{name}: {target + scale * offset:.6g} instead of {target:.6g}"
        for (name, target, scale), offset in zip(wanted, gap.nearest, strict=True)
        if abs(offset) > 1e-9
    ]
    sizes = [*(margin.with_mass.size for margin in margins), *[1] * len(means)]
    block_j = np.repeat(np.arange(len(sizes)), sizes)
    conflict = [names[at] for at in smallest_conflict(z_cj, block_j)]
    return CoverageError(
        f"no weights here have all margins together; in conflict: {first_few(conflict, 12)}. The "
        f"nearest that can be reached: {first_few(nearest, 12)}. Add images that combine these "
        "levels, or leave one margin out.",
        columns=conflict,
    )
