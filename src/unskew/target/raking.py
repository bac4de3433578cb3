"""Raking: the joint distribution nearest to a table of cells that has given margins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unskew.errors import ConvergenceError, CoverageError, first_few
from unskew.records import Bools, Floats, Ints
from unskew.target.tilting import Gap, TiltSolution, smallest_conflict, tilt_to_zero

_SWEEPS = 20
_FAINTEST = 1e-200


@dataclass(frozen=True)
class MarginOfCells:
    """The known distribution of one attribute over the cells of a table.

    Attributes
    ----------
    name : the attribute.
    levels : its L levels.
    mass_l : (L,) their masses.
    code_c : (C,) the index of every cell's level in ``levels``.
    """

    name: str
    levels: tuple[str, ...]
    mass_l: Floats
    code_c: Ints


def rake_table(weight_c: Floats, margins: Sequence[MarginOfCells]) -> Floats:
    """Return the (C,) masses with these margins that are nearest to ``weight_c``.

    They minimise Σ_c p_c log(p_c/w_c): p_c ∝ w_c exp(ν·x_c), x_c the indicators of the cell's
    levels, the limit of iterative proportional fitting. The margins hold to 1e-12.

    Raises
    ------
    CoverageError : no masses on these cells have all of the margins.
    ConvergenceError : double precision cannot tell whether some have.
    """
    keep_c = weight_c > 0
    for margin in margins:
        keep_c = keep_c & (margin.mass_l[margin.code_c] > 0)
    for margin in margins:
        _check_levels_left(margin, weight_c, keep_c)
    kept = [
        replace(
            margin,
            mass_l=margin.mass_l / math.fsum(margin.mass_l),
            code_c=margin.code_c[keep_c],
        )
        for margin in margins
    ]
    start_c = weight_c[keep_c] / weight_c[keep_c].sum()
    swept_c = sweep_margins(
        start_c, [margin.code_c for margin in kept], [margin.mass_l for margin in kept]
    )
    z_cj = np.column_stack([_deviations(margin) for margin in kept])
    tilt = tilt_to_zero(swept_c, z_cj)
    if not isinstance(tilt, TiltSolution):
        raise _unreachable(tilt, z_cj, kept)
    mass_c = np.zeros(weight_c.size)
    mass_c[keep_c] = tilt.probability / tilt.probability.sum()
    return mass_c


def sweep_margins(weight_c: Floats, codes: Sequence[Ints], masses: Sequence[Floats]) -> Floats:
    """Do a few sweeps of iterative proportional fitting: a good start, and exact for one margin.

    Raking multiplies by functions of the levels, so it stays within the family p ∝ w exp(ν·x) and
    changes no solution.

    Parameters
    ----------
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


def _check_levels_left(margin: MarginOfCells, weight_c: Floats, keep_c: Bools) -> None:
    """Refuse a level with mass all of whose cells are empty or have another level of mass 0."""
    n_levels = len(margin.levels)
    left_l = np.bincount(margin.code_c, weights=weight_c * keep_c, minlength=n_levels)
    empty = np.flatnonzero((margin.mass_l > 0) & (left_l == 0))
    if empty.size:
        levels = [margin.levels[at] for at in empty]
        shown = first_few([f"{margin.levels[at]} ({margin.mass_l[at]:.4g})" for at in empty])
        raise CoverageError(
            f"every cell with {margin.name} = {shown} is empty or combined with a level of mass 0, "
            f"so {margin.mass_l[empty].sum():.4g} of the target cannot be reached.",
            column=margin.name,
            levels=levels,
        )


def _deviations(margin: MarginOfCells) -> Floats:
    """(C, J) a column with mean 0 under the margin for every level with mass."""
    with_mass = np.flatnonzero(margin.mass_l > 0)
    return np.asarray((margin.code_c[:, None] == with_mass) - margin.mass_l[with_mass])


def _unreachable(
    gap: Gap | None, z_cj: Floats, margins: Sequence[MarginOfCells]
) -> CoverageError | ConvergenceError:
    names = [margin.name for margin in margins]
    if gap is None:
        return ConvergenceError(
            "the margins are so close to the limit of what these cells can reach that double "
            "precision cannot tell whether they can be reached. Merge rare levels, or leave one "
            "margin out.",
            columns=names,
        )
    with_mass = [np.flatnonzero(margin.mass_l > 0) for margin in margins]
    wanted = [
        (f"{margin.name} = {margin.levels[at]}", margin.mass_l[at])
        for margin, levels in zip(margins, with_mass, strict=True)
        for at in levels
    ]
    nearest = [
        f"{name}: {mass + offset:.6g} instead of {mass:.6g}"
        for (name, mass), offset in zip(wanted, gap.nearest, strict=True)
        if abs(offset) > 1e-9
    ]
    block_j = np.repeat(np.arange(len(margins)), [levels.size for levels in with_mass])
    conflict = [names[at] for at in smallest_conflict(z_cj, block_j)]
    return CoverageError(
        f"no masses on these cells have all margins together; in conflict: "
        f"{first_few(conflict, 12)}. The nearest that can be reached: {first_few(nearest, 12)}.",
        columns=conflict,
    )
