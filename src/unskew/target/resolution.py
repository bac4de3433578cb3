"""A target meets a pool: which stratum is every image in, and how much of the target is that
stratum?
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.errors import (
    ConfigError,
    ConvergenceError,
    CoverageError,
    DataError,
    did_you_mean,
    first_few,
)
from unskew.records import Floats, Ints, Pool, Target
from unskew.records.levels import MISSING, text_levels
from unskew.target.facts import Distribution, cell_text, mass_array
from unskew.target.levels import bin_labels, cells_of, check_discrete, column_levels
from unskew.target.spread import mass_covariance, raked_covariance, restricted, share_jacobian
from unskew.target.strata import TargetReference, TargetStrata
from unskew.target.wording import reference_sentences, strata_sentences

if TYPE_CHECKING:
    import pandas as pd

Cell = tuple[str, ...]


@dataclass(frozen=True)
class _Attribute:
    """One attribute of the pool: ``rule`` says of every level that occurs whether it is "in" scope,
    "keep" or "drop".
    """

    name: str
    levels: list[str]
    code_n: Ints
    rule: list[str]
    known: list[str]


@dataclass(frozen=True)
class _Rows:
    """The pool as the target sees it: the cells that occur, in scope or kept at their pool share,
    and each row's place among them.
    """

    cells: list[Cell]
    in_scope_c: npt.NDArray[np.bool_]
    code_n: Ints
    unit_n: Floats
    dropped: dict[str, int]
    known: dict[str, list[str]]
    n_split_groups: int

    @property
    def size_c(self) -> Floats:
        kept_n = self.code_n >= 0
        return np.asarray(
            np.bincount(
                self.code_n[kept_n], weights=self.unit_n[kept_n], minlength=len(self.cells)
            ),
            dtype=np.float64,
        )


@dataclass(frozen=True)
class _Masses:
    """The target over its own cells, those without images left out and kept apart."""

    cells: list[Cell]
    mass_c: Floats
    covariance_cc: Floats | None
    uncovered: dict[str, float] = field(default_factory=dict)
    share_jacobian_cc: Floats | None = None


def stratify_pool(target: Target, pool: Pool | pd.DataFrame) -> TargetStrata:
    """The steps: read the attributes, place the rows, weigh the cells in scope, add those kept at
    their pool share.
    """
    if target.kind in ("sample", "source"):
        raise ConfigError(
            f"this target is a {target.kind}, which has no masses of strata. Give Target.margins, "
            "Target.table or Target.uniform, or a bias"
            " model that compares with a reference (Tilt, Propensity)."
        )
    frame = pool.frame if isinstance(pool, Pool) else pool
    rows = _place_rows(target, frame, [_read_attribute(target, frame, name) for name in target.by])
    masses = _weigh_cells(target, rows)
    return _assemble(target, rows, masses)


def find_reference(target: Target, pool: Pool | pd.DataFrame) -> TargetReference:
    """The sample, or the source of the pool; a clear error if it is not there."""
    if target.kind not in ("sample", "source"):
        raise ConfigError(
            f"this target is given by masses ({target.kind}), which is no sample to compare with. "
            "Give Target.sample or Target.source, or a"
            " bias model that uses masses (Strata)."
        )
    if target.kind == "sample":
        if not isinstance(target.reference, Pool):
            raise ConfigError(
                f"the sample of the target lies in {target.reference!r} and has not been read; "
                "pass it as a Pool."
            )
        return TargetReference(
            target.reference, None, target.holdout, reference_sentences(target, pool)
        )
    name = str(target.reference)
    if not isinstance(pool, Pool) and "source" not in pool.columns:
        raise DataError(
            f"the target is the source {name!r}, but the images have no column 'source'."
        )
    names = pool.names if isinstance(pool, Pool) else text_levels(pool["source"], "source")[0]
    if name not in names:
        raise DataError(
            f"the target is the source {name!r}, but the sources are "
            f"{first_few(names, 12)}.{did_you_mean(name, names)}"
        )
    return TargetReference(None, name, target.holdout, reference_sentences(target, pool))


def _read_attribute(target: Target, frame: pd.DataFrame, name: str) -> _Attribute:
    if name not in frame.columns:
        raise DataError(
            f"the target speaks of {name!r}, but the images have no such column; theirs are "
            f"{first_few(list(frame.columns), 12)}."
            f"{did_you_mean(name, frame.columns)}"
        )
    edges = target.bins.get(name)
    if edges is None and target.kind == "uniform":
        # Other targets name their levels, one by one.
        check_discrete(
            frame[name], name, f"Target.uniform({list(target.by)}, bins={{{name!r}: […]}})"
        )
    levels, code_n = column_levels(frame[name], name, edges)
    count_l = np.bincount(code_n, minlength=len(levels))
    if MISSING in levels and target.missing.get(name, "error") == "error":
        raise DataError(
            f"{name} is missing for {count_l[levels.index(MISSING)]} of {len(frame)} images. Say "
            f"what they are by missing={{{name!r}: …}}: "
            "'level' (a level of its own), 'drop', or 'keep' (at their pool share)."
        )
    known = _known_levels(target, name, levels)
    rule = [_rule(target, name, level, known) for level in levels]
    unnamed = [
        f"{level} ({count} images)"
        for level, count, each in zip(levels, count_l, rule, strict=True)
        if each == "unnamed"
    ]
    if unnamed:
        raise _unnamed_levels(name, unnamed, levels, known, edges)
    return _Attribute(name, levels, code_n, rule, known)


def _known_levels(target: Target, name: str, levels: list[str]) -> list[str]:
    """The levels within the target's scope, whether images have them or not."""
    for fact in target.facts:
        if name in fact.by:
            return fact.levels(name)
    outside = target.outside.get(name, {})
    named = list(outside) if isinstance(outside, Mapping) else []
    absent = [level for level in named if level not in levels]
    if absent:
        raise DataError(
            f"outside names {name} = {first_few(absent)}, but no image has that; its levels are "
            f"{first_few(levels, 12)}."
            f"{did_you_mean(absent[0], levels)}"
        )
    edges = target.bins.get(name)
    found = (
        bin_labels(edges)
        if edges is not None
        else sorted(level for level in levels if level != MISSING)
    )
    if MISSING in levels and target.missing.get(name) == "level":
        found.append(MISSING)
    return [level for level in found if level not in named]


def _rule(target: Target, name: str, level: str, known: list[str]) -> str:
    if level == MISSING and target.missing.get(name) in ("drop", "keep"):
        return target.missing[name]
    if level in known:
        return "in"
    outside = target.outside.get(name, {})
    return outside.get(level, "unnamed") if isinstance(outside, Mapping) else outside


def _unnamed_levels(
    name: str,
    unnamed: list[str],
    levels: list[str],
    known: list[str],
    edges: Sequence[float] | None,
) -> DataError:
    unseen = [level for level in known if level not in levels]
    hint = (
        f" The target names {first_few(unseen)}, which no image has: is that a spelling of it?"
        if unseen
        else ""
    )
    widen = (
        " Widen the bins, or"
        if edges is not None
        else " Give it a mass (0 takes its images out), or"
    )
    return DataError(
        f"images have {name} = {first_few(unnamed)}, which the target does not name; it names "
        f"{first_few(known, 12)}.{hint}{widen} say "
        f"outside={{{name!r}: {{level: 'keep'}}}} to keep such images at their pool share, or "
        "'drop'."
    )


def _place_rows(target: Target, frame: pd.DataFrame, attributes: list[_Attribute]) -> _Rows:
    n = len(frame)
    drop_n = np.zeros(n, dtype=np.bool_)
    dropped: dict[str, int] = {}
    for attribute in attributes:
        for at, (level, rule) in enumerate(zip(attribute.levels, attribute.rule, strict=True)):
            if rule == "drop":
                hit_n = (attribute.code_n == at) & ~drop_n
                dropped[f"{attribute.name} = {level}"] = int(hit_n.sum())
                drop_n |= hit_n
    if drop_n.all():
        raise DataError(f"the target drops every image: {first_few(list(dropped))}.")
    cell_ca, cell_m = cells_of([attribute.code_n[~drop_n] for attribute in attributes])
    cells = [
        tuple(attribute.levels[at] for attribute, at in zip(attributes, cell, strict=True))
        for cell in cell_ca
    ]
    in_scope_c = np.array(
        [
            all(each.rule[at] == "in" for each, at in zip(attributes, cell, strict=True))
            for cell in cell_ca
        ]
    )
    if not in_scope_c.any():
        raise CoverageError(
            "no image is within the target's scope: every one has a level that is outside it, or "
            "missing."
        )
    code_n = np.full(n, -1, dtype=np.int64)
    code_n[~drop_n] = cell_m
    unit_n, n_split = _units(target, frame, code_n)
    known = {attribute.name: attribute.known for attribute in attributes}
    return _Rows(cells, in_scope_c, code_n, unit_n, dropped, known, n_split)


def _units(target: Target, frame: pd.DataFrame, code_n: Ints) -> tuple[Floats, int]:
    """(n,) 1, or 1/(images of the same group in the same cell); and how many groups have images in
    several cells.
    """
    import pandas as pd

    kept_n = code_n >= 0
    if target.unit == "image":
        return kept_n.astype(np.float64), 0
    if "group" not in frame.columns:
        raise ConfigError(
            "the target counts groups (unit = 'group'), but the images have no column 'group'. "
            "Name it in Pool.from_frame."
        )
    group_m, found = pd.factorize(frame["group"][kept_n])
    if (group_m < 0).any():
        raise DataError(
            f"group is missing for {int((group_m < 0).sum())} images, but the target counts groups."
        )
    pair_ga, pair_m = cells_of([group_m.astype(np.int64), code_n[kept_n]])
    unit_n = np.zeros(code_n.size)
    unit_n[kept_n] = 1.0 / np.bincount(pair_m)[pair_m]
    return unit_n, int((np.bincount(pair_ga[:, 0], minlength=len(found)) > 1).sum())


def _weigh_cells(target: Target, rows: _Rows) -> _Masses:
    """The target's own cells with their masses, restricted to those with images."""
    if target.kind == "margins" and len(target.facts) > 1:
        return _rake(target, rows)
    if target.kind == "uniform":
        cells: list[Cell] = list(itertools.product(*(rows.known[name] for name in target.by)))
        return _cover(target, rows, _Masses(cells, np.full(len(cells), 1 / len(cells)), None))
    (fact,) = target.facts
    _check_combinations(rows, fact, "the joint table")
    return _cover(target, rows, _Masses(list(fact.cells), mass_array(fact), mass_covariance(fact)))


def _check_combinations(rows: _Rows, table: Distribution, what: str) -> None:
    given = set(table.cells)
    lacking = [
        cell_text(table.by, cell)
        for cell, inside in zip(rows.cells, rows.in_scope_c, strict=True)
        if inside and cell not in given
    ]
    if lacking:
        raise DataError(
            f"{what} has no row for {first_few(lacking)}, which images have. Add one for each; 0 "
            "if the target has none."
        )


def _cover(target: Target, rows: _Rows, masses: _Masses) -> _Masses:
    """Cells with mass and no images: an error, or left out."""
    seen = set(rows.cells)
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
    return _Masses(cells, mass_c, covariance_cc, {**masses.uncovered, **empty})


def allow_uncovered(target: Target, empty: dict[str, float], left: float) -> None:
    """{cell without images: its mass} is an error, unless the target may be restricted to the rest
    (of mass ``left``).
    """
    named = first_few(
        [f"{cell} ({mass:.4g})" for cell, mass in sorted(empty.items(), key=lambda item: -item[1])]
    )
    if left <= 0:
        raise CoverageError(
            f"no image lies where the target has mass: {named}. Do target and images name their "
            "levels alike?"
        )
    if target.uncovered == "error":
        raise CoverageError(
            f"the target has mass where no source has an image: {named}; {sum(empty.values()):.4g} "
            "of the target in all. Add a source "
            "that holds such images, or say uncovered='restrict' (of a sample: leave such images "
            "out): results then speak of the rest of "
            "the target."
        )


def _rake(target: Target, rows: _Rows) -> _Masses:
    """The joint distribution nearest (Kullback–Leibler) to the pool's, or the given table, that has
    the margins.
    """
    if target.interactions is None:
        at = np.flatnonzero(rows.in_scope_c)
        cells, start_c = [rows.cells[c] for c in at], rows.size_c[at]
    else:
        _check_combinations(rows, target.interactions, "the table of interactions")
        cells, start_c = list(target.interactions.cells), mass_array(target.interactions)
    margins = [
        _cover_margin(target, fact, {cell[a] for cell in cells})
        for a, fact in enumerate(target.facts)
    ]
    uncovered = {name: mass for margin in margins for name, mass in margin.uncovered.items()}
    mass_c = _raked_masses(target, cells, start_c / start_c.sum(), margins)
    indicator_cj = _margin_indicators(cells, margins)
    masses = _Masses(cells, mass_c, _raked_errors(mass_c, indicator_cj, margins), uncovered)
    if target.interactions is not None:
        return _cover(target, rows, masses)
    # The pool's own table is itself a sample.
    return replace(masses, share_jacobian_cc=share_jacobian(mass_c, indicator_cj))


def _cover_margin(target: Target, fact: Distribution, seen: set[str]) -> _Masses:
    """One margin, without the levels that the table raked from does not have."""
    mass_l = mass_array(fact)
    empty_l = np.array([cell[0] not in seen for cell in fact.cells]) & (mass_l > 0)
    masses = _Masses(list(fact.cells), mass_l, mass_covariance(fact))
    if not empty_l.any():
        return masses
    empty = {
        cell_text(fact.by, fact.cells[at]): float(mass_l[at]) for at in np.flatnonzero(empty_l)
    }
    if target.interactions is not None:
        raise DataError(
            f"the table of interactions has no row for {first_few(list(empty))}, which the margin "
            "gives mass to."
        )
    allow_uncovered(target, empty, float(mass_l[~empty_l].sum()))
    kept_l, covariance_ll = restricted(mass_l, masses.covariance_cc, ~empty_l)
    return _Masses(
        [fact.cells[at] for at in np.flatnonzero(~empty_l)], kept_l, covariance_ll, empty
    )


def _raked_masses(
    target: Target, cells: list[Cell], start_c: Floats, margins: list[_Masses]
) -> Floats:
    # The one use of a stage, as in records.py from inside a function: raking a table is calibrating
    # its cells.
    from unskew.weigh.calibrate import calibrate_weights

    table = "the pool's own table" if target.interactions is None else "the table of interactions"
    by = {name: [cell[a] for cell in cells] for a, name in enumerate(target.by)}
    wanted = {
        name: {cell[0]: mass for cell, mass in zip(m.cells, m.mass_c.tolist(), strict=True)}
        for name, m in zip(target.by, margins, strict=True)
    }
    try:
        return calibrate_weights(start_c, by=by, margins=wanted).weight
    except (CoverageError, ConvergenceError) as error:
        raise type(error)(
            f"the margins of {' and '.join(target.by)} cannot be raked from {table}, because "
            "combinations that they need are empty there: "
            f"{error} A joint table (Target.table) needs no raking."
        ) from error


def _margin_indicators(cells: list[Cell], margins: list[_Masses]) -> Floats:
    """(C, J) which levels of the margins each cell has."""
    indicators = []
    for a, margin in enumerate(margins):
        place = {cell[0]: at for at, cell in enumerate(margin.cells)}
        indicators.append(np.eye(len(place))[[place[cell[a]] for cell in cells]])
    return np.hstack(indicators)


def _raked_errors(mass_c: Floats, indicator_cj: Floats, margins: list[_Masses]) -> Floats | None:
    if all(margin.covariance_cc is None for margin in margins):
        return None
    from scipy.linalg import block_diag

    size_a = [len(margin.cells) for margin in margins]
    blocks = [
        np.zeros((j, j)) if m.covariance_cc is None else m.covariance_cc
        for j, m in zip(size_a, margins, strict=True)
    ]
    return raked_covariance(mass_c, indicator_cj, block_diag(*blocks))


def _assemble(target: Target, rows: _Rows, masses: _Masses) -> TargetStrata:
    """All strata with images, those in scope with the target's mass, the others at their pool
    share.
    """
    place = {cell: at for at, cell in enumerate(masses.cells)}
    size_c = rows.size_c
    in_scope = np.flatnonzero(rows.in_scope_c)
    share_in = float(size_c[in_scope].sum() / size_c.sum())
    # Cells of the target that have no images have no mass either by now; cells of mass 0 may have
    # images.
    take = np.array([place[rows.cells[c]] for c in in_scope])
    mass_c = size_c / size_c.sum()
    mass_c[in_scope] = share_in * masses.mass_c[take]

    def widened(taken_cc: Floats | None, scale: float) -> Floats | None:
        if taken_cc is None:
            return None
        every_cc = np.zeros((size_c.size, size_c.size))
        every_cc[np.ix_(in_scope, in_scope)] = scale * taken_cc[np.ix_(take, take)]
        return every_cc

    strata: dict[str, Any] = {
        "by": target.by,
        "strata": tuple(rows.cells),
        "mass": mass_c / mass_c.sum(),
        "in_scope": rows.in_scope_c,
        "code": rows.code_n,
        "unit": rows.unit_n,
        "covariance": widened(masses.covariance_cc, share_in**2),
        "uncovered": masses.uncovered,
        "dropped": rows.dropped,
        "share_jacobian": widened(masses.share_jacobian_cc, share_in),
    }
    population, sentences = strata_sentences(
        target, TargetStrata(**strata, population="", sentences=()), rows.n_split_groups
    )
    return TargetStrata(**strata, population=population, sentences=sentences)
