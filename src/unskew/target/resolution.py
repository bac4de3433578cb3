"""A target meets a pool: the stratum of every image, the mass of every stratum, coverage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import ConfigError, CoverageError, DataError, did_you_mean, first_few
from unskew.records import Bools, Codes, Floats, Ints, Pool, Target
from unskew.records.design_weights import add_design, design_of_frame
from unskew.records.levels import MISSING, codes_or_alone, text_levels
from unskew.target.counted_masses import CountedMasses, RakedFromCounts, design_effects
from unskew.target.facts import bin_labels, cells_of, check_discrete, column_levels
from unskew.target.interactions import Disagreement, source_disagreement
from unskew.target.settings import reference_sentences, strata_sentences
from unskew.target.strata import CellMasses, TargetReference, TargetStrata, cell_codes, weigh_cells

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class _Attribute:
    """One attribute of the pool; ``rules`` has "in" (scope), "keep" or "drop" for every level."""

    name: str
    levels: list[str]
    code_n: Ints
    rules: list[str]
    known: list[str]


@dataclass(frozen=True)
class PoolCells:
    """The cells of a pool, as the target distinguishes them.

    cells : the C combinations of levels that occur, in scope or kept at their pool share.
    in_scope_c : (C,) False for cells that are kept at their pool share.
    code_n : (n,) the cell of every row, -1 for dropped rows.
    unit_n : (n,) how much of a unit a row is: 1, or 1/(images of its group in its cell); times its
        design weight.
    dropped : number of rows dropped, by level.
    known : the levels within the target's scope, by attribute, whether images have them or not.
    n_split_groups : number of groups with images in several cells.
    names, source_n, group_n : the sources, and source and group of every row; None without groups.
    design_n : (n,) design weights; None without any.
    """

    cells: list[tuple[str, ...]]
    in_scope_c: Bools
    code_n: Ints
    unit_n: Floats
    dropped: dict[str, int]
    known: dict[str, list[str]]
    n_split_groups: int
    names: tuple[str, ...]
    source_n: Codes
    group_n: Ints | None
    design_n: Floats | None = None

    @property
    def count_kc(self) -> Floats:
        """(K, C) units in each source and cell."""
        kept_n, n_cells = self.code_n >= 0, len(self.cells)
        key_m = self.source_n[kept_n] * np.int64(n_cells) + self.code_n[kept_n]
        count = add_design(key_m, self.unit_n[kept_n], len(self.names) * n_cells)
        return count.reshape(len(self.names), n_cells)

    @cached_property
    def effect_k(self) -> Floats:
        """(K,) design effect of groups and design weights on the shares of the cells."""
        if self.group_n is None and self.design_n is None:
            return np.ones(len(self.names))
        kept_n = self.code_n >= 0
        group_n = np.arange(kept_n.size) if self.group_n is None else self.group_n
        source_m = self.source_n[kept_n].astype(np.int64)
        return design_effects(
            self.count_kc, source_m, group_n[kept_n], self.code_n[kept_n], self.unit_n[kept_n]
        )

    @property
    def size_c(self) -> Floats:
        """(C,) units (images or groups) in each cell."""
        kept_n = self.code_n >= 0
        return add_design(self.code_n[kept_n], self.unit_n[kept_n], len(self.cells))


def find_pool_cells(
    target: Target,
    pool: Pool | pd.DataFrame,
    unit_n: Floats | None = None,
    image_n: Floats | None = None,
) -> PoolCells:
    """Find the cell of every row, drop what the target drops, and count the units."""
    frame = pool.frame if isinstance(pool, Pool) else pool
    attributes = [_read_attribute(target, frame, name) for name in target.by]
    drop_n, dropped = _dropped_rows(attributes, len(frame), image_n)
    design_n = design_of_frame(frame)
    if design_n is not None:
        drop_n = drop_n | (design_n == 0)
    cell_ca, cell_m = cells_of([attribute.code_n[~drop_n] for attribute in attributes])
    level_ac, in_scope_c = [], np.ones(cell_ca.shape[0], dtype=np.bool_)
    for attribute, at_c in zip(attributes, cell_ca.T, strict=True):
        level_ac.append([attribute.levels[at] for at in at_c.tolist()])
        in_scope_c &= np.array([rule == "in" for rule in attribute.rules])[at_c]
    cells = list(zip(*level_ac, strict=True))
    if not in_scope_c.any():
        raise CoverageError(
            "no image is within the target's scope: every one has a level outside it, or a missing "
            "value.",
            columns=list(target.by),
        )
    code_n = np.full(len(frame), -1, dtype=np.int64)
    code_n[~drop_n] = cell_m
    own_n, n_split = _count_units(target, frame, code_n)
    for factor_n in (design_n, unit_n):
        own_n = own_n if factor_n is None else own_n * factor_n
    known = {attribute.name: attribute.known for attribute in attributes}
    names, source_n = _read_sources(pool)
    group_n = None
    if "group" in frame.columns:
        group_n = codes_or_alone(frame["group"])
    return PoolCells(
        cells,
        in_scope_c,
        code_n,
        own_n,
        dropped,
        known,
        n_split,
        names,
        source_n,
        group_n,
        design_n,
    )


def _read_sources(pool: Pool | pd.DataFrame) -> tuple[tuple[str, ...], Codes]:
    """(names, (n,) source of every row); a table without a column of sources is one source."""
    if isinstance(pool, Pool):
        return pool.names, pool.source
    if "source" not in pool.columns:
        return ("the images",), np.zeros(len(pool), dtype=np.int32)
    names, source_n = text_levels(pool["source"], "source")
    return tuple(names), source_n.astype(np.int32)


def _hint(name: str, columns: list[str]) -> str:
    parts = [part.strip() for part in re.split(r"[*×:,+&]", name)]
    if len(parts) > 1 and set(parts) <= set(columns):
        return f" A joint distribution of {' and '.join(parts)} is Target.table(frame)."
    return did_you_mean(name, columns)


def _read_attribute(target: Target, frame: pd.DataFrame, name: str) -> _Attribute:
    if name not in frame.columns:
        raise DataError(
            f"the target names the column {name!r}, which the images do not have; their columns "
            f"are {first_few(list(frame.columns), 12)}.{_hint(name, list(frame.columns))}",
            column=name,
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
        count = int(count_l[levels.index(MISSING)])
        raise DataError(
            f"{name} is missing for {count} of {len(frame)} images. Choose what becomes of them "
            f"with missing={{{name!r}: …}}: 'level' (a level of its own), 'drop', or 'keep' (at "
            "their pool share).",
            column=name,
            count=count,
        )
    known = _known_levels(target, name, levels)
    is_known = frozenset(known)
    rules = [_rule(target, name, level, is_known) for level in levels]
    unnamed = {
        level: int(count)
        for level, count, rule in zip(levels, count_l, rules, strict=True)
        if rule == "unnamed"
    }
    if unnamed:
        raise _unnamed_levels(name, unnamed, levels, known, edges)
    return _Attribute(name, levels, code_n, rules, known)


def _known_levels(target: Target, name: str, levels: list[str]) -> list[str]:
    """Return the levels within the target's scope, whether images have them or not."""
    for fact in target.facts:
        if name in fact.by:
            return fact.levels(name)
    outside = target.outside.get(name, {})
    named = list(outside) if isinstance(outside, Mapping) else []
    absent = [level for level in named if level not in levels]
    if absent:
        raise DataError(
            f"outside names {name} = {first_few(absent)}, which no image has; its levels are "
            f"{first_few(levels, 12)}.{did_you_mean(absent[0], levels)}",
            option="outside",
            column=name,
            levels=absent,
        )
    edges = target.bins.get(name)
    known = (
        bin_labels(edges)
        if edges is not None
        else sorted(level for level in levels if level != MISSING)
    )
    if MISSING in levels and target.missing.get(name) == "level":
        known.append(MISSING)
    return [level for level in known if level not in named]


def _rule(target: Target, name: str, level: str, known: frozenset[str]) -> str:
    if level == MISSING and target.missing.get(name) in ("drop", "keep"):
        return target.missing[name]
    if level in known:
        return "in"
    outside = target.outside.get(name, {})
    return outside.get(level, "unnamed") if isinstance(outside, Mapping) else outside


def _unnamed_levels(
    name: str,
    unnamed: Mapping[str, int],
    levels: list[str],
    known: list[str],
    edges: Sequence[float] | None,
) -> DataError:
    unseen = [level for level in known if level not in levels]
    hint = ""
    if unseen:
        hint = f" The target names {first_few(unseen)}, which no image has: another spelling of it?"
    widen = " Give it a mass (0 takes its images out), or"
    if edges is not None:
        widen = " Widen the bins, or"
    shown = first_few([f"{level} ({count} images)" for level, count in unnamed.items()])
    return DataError(
        f"images have {name} = {shown}, which the target does not name; it names "
        f"{first_few(known, 12)}.{hint}{widen} pass outside={{{name!r}: {{level: 'keep'}}}} to "
        "keep such images at their pool share, or 'drop'.",
        column=name,
        levels=list(unnamed),
    )


def _dropped_rows(
    attributes: list[_Attribute], n: int, image_n: Floats | None = None
) -> tuple[Bools, dict[str, int]]:
    """((n,) which rows the target drops, how many for each level)."""
    drop_n = np.zeros(n, dtype=np.bool_)
    dropped: dict[str, int] = {}
    for attribute in attributes:
        for at, (level, rule) in enumerate(zip(attribute.levels, attribute.rules, strict=True)):
            if rule == "drop":
                hit_n = (attribute.code_n == at) & ~drop_n
                n_hit = hit_n.sum() if image_n is None else image_n[hit_n].sum()
                dropped[f"{attribute.name} = {level}"] = int(n_hit)
                drop_n |= hit_n
    if drop_n.all():
        raise DataError(
            f"the target drops every image: {first_few(list(dropped))}.",
            columns=[attribute.name for attribute in attributes],
        )
    return drop_n, dropped


def _count_units(target: Target, frame: pd.DataFrame, code_n: Ints) -> tuple[Floats, int]:
    """((n,) 1, or 1/(images of the same group in the same cell), groups split between cells)."""
    import pandas as pd

    kept_n = code_n >= 0
    if target.unit == "image":
        return kept_n.astype(np.float64), 0
    if "group" not in frame.columns:
        raise ConfigError(
            "the target counts groups (unit = 'group'), but the images have no column 'group'. "
            "Name it in Pool.from_frame.",
            option="unit",
            column="group",
        )
    group_m, groups = pd.factorize(frame["group"][kept_n])
    n_missing = int((group_m < 0).sum())
    if n_missing:
        raise DataError(
            f"group is missing for {n_missing} images, but the target counts groups.",
            column="group",
            count=n_missing,
        )
    pair_ga, pair_m = cells_of([group_m.astype(np.int64), code_n[kept_n]])
    unit_n = np.zeros(code_n.size)
    unit_n[kept_n] = 1.0 / np.bincount(pair_m)[pair_m]
    return unit_n, int((np.bincount(pair_ga[:, 0], minlength=len(groups)) > 1).sum())


def stratify_pool(
    target: Target,
    pool: Pool | pd.DataFrame,
    unit_n: Floats | None = None,
    image_n: Floats | None = None,
) -> TargetStrata:
    """Find the target's mass of every stratum of the pool.

    The steps: place the rows in cells, weigh the cells in scope, add those kept at their pool
    share. A table of counts works too, ``unit_n`` and ``image_n`` being the units and images that
    each of its rows is.
    """
    if target.kind in ("sample", "source"):
        raise ConfigError(
            f"this target is a {target.kind}, which has no masses of strata. Give Target.margins, "
            "Target.table or Target.uniform, or a bias model that compares with a reference (Tilt, "
            "Propensity).",
            option="target",
            value=target.kind,
        )
    cells = find_pool_cells(target, pool, unit_n, image_n)
    strata = replace(_all_strata(target, cells, weigh_cells(target, cells)), images=image_n)
    population, sentences = strata_sentences(target, strata, cells.n_split_groups)
    return replace(strata, population=population, sentences=sentences)


def _all_strata(target: Target, cells: PoolCells, masses: CellMasses) -> TargetStrata:
    """Give strata in scope the target's mass, and the others their pool share."""
    index = {cell: at for at, cell in enumerate(masses.cells)}
    size_c = cells.size_c
    in_scope = np.flatnonzero(cells.in_scope_c)
    share_in = float(size_c[in_scope].sum() / size_c.sum())
    # Cells of the target that have no images have no mass either by now; cells of mass 0 may have
    # images.
    take = np.array([index[cells.cells[c]] for c in in_scope])
    mass_c = size_c / size_c.sum()
    mass_c[in_scope] = share_in * masses.mass_c[take]

    errors = []
    for error in masses.errors:
        covariance_cc = np.zeros((size_c.size, size_c.size))
        covariance_cc[np.ix_(in_scope, in_scope)] = (
            share_in**2 * error.covariance_cc[np.ix_(take, take)]
        )
        errors.append(replace(error, covariance_cc=covariance_cc))
    mass_c = mass_c / mass_c.sum()
    return TargetStrata(
        by=target.by,
        strata=tuple(cells.cells),
        mass=mass_c,
        in_scope=cells.in_scope_c,
        code=cells.code_n,
        unit=cells.unit_n,
        errors=tuple(errors),
        uncovered=masses.uncovered,
        dropped=cells.dropped,
        population="",
        sentences=(),
        counted=_count_masses(cells, mass_c, masses.raked),
        disagreement=_disagreement(cells, masses),
    )


def _count_masses(
    cells: PoolCells, mass_c: Floats, raked: RakedFromCounts | None
) -> CountedMasses | None:
    """Say how the masses depend on the pool's counts; None where they do not."""
    if raked is None and cells.in_scope_c.all():
        return None
    kept_n = cells.code_n >= 0
    pair_pa, pair_m = cells_of([cells.source_n[kept_n].astype(np.int64), cells.code_n[kept_n]])
    code_n = np.full(cells.code_n.size, -1, dtype=np.int64)
    code_n[kept_n] = pair_m
    return CountedMasses(
        mass_c,
        cells.in_scope_c,
        cells.size_c,
        raked,
        pair_pa[:, 0],
        pair_pa[:, 1],
        code_n,
        cells.unit_n,
        cells.names,
        cells.source_n,
        cells.group_n,
        cells.design_n,
    )


def _disagreement(cells: PoolCells, masses: CellMasses) -> Disagreement | None:
    if masses.raked is None or masses.raked.common is None:
        return None
    return source_disagreement(
        masses.raked.common, masses.mass_c, cell_codes(masses.cells), cells.effect_k
    )


def find_reference(target: Target, pool: Pool | pd.DataFrame) -> TargetReference:
    """Find the sample, or the source of the pool, that represents the target."""
    if target.kind not in ("sample", "source"):
        raise ConfigError(
            f"this target is given by masses ({target.kind}), not by a sample to compare with. "
            "Give Target.sample or Target.source, or a bias model that uses masses (Strata).",
            option="target",
            value=target.kind,
        )
    if target.kind == "sample":
        if not isinstance(target.reference, Pool):
            raise ConfigError(
                f"the sample of the target, {target.reference!r}, has not been read; pass it as a "
                "Pool.",
                option="sample",
                value=target.reference,
            )
        return TargetReference(
            target.reference, None, target.holdout, reference_sentences(target, pool)
        )
    name = str(target.reference)
    if not isinstance(pool, Pool) and "source" not in pool.columns:
        raise DataError(
            f"the target is the source {name!r}, but the images have no column 'source'.",
            source=name,
            column="source",
        )
    names = pool.names if isinstance(pool, Pool) else text_levels(pool["source"], "source")[0]
    if name not in names:
        raise DataError(
            f"the target is the source {name!r}, but the sources are "
            f"{first_few(names, 12)}.{did_you_mean(name, names)}",
            source=name,
            sources=list(names),
        )
    return TargetReference(None, name, target.holdout, reference_sentences(target, pool))
