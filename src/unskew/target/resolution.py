"""A target meets a pool.

The result is the stratum of every image and its mass in the target, or the reference to resemble.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.records import Floats, Pool, Target
from unskew.records.levels import text_levels
from unskew.target.cell_masses import CellMasses, weigh_cells
from unskew.target.pool_cells import PoolCells, find_pool_cells
from unskew.target.strata import TargetReference, TargetStrata
from unskew.target.wording import reference_sentences, strata_sentences

if TYPE_CHECKING:
    import pandas as pd


def stratify_pool(target: Target, pool: Pool | pd.DataFrame) -> TargetStrata:
    """Find the target's mass of every stratum of the pool.

    The steps: place the rows in cells, weigh the cells in scope, add those kept at their pool
    share.
    """
    if target.kind in ("sample", "source"):
        raise ConfigError(
            f"this target is a {target.kind}, which has no masses of strata. Give Target.margins, "
            "Target.table or Target.uniform, or a bias model that compares with a reference (Tilt, "
            "Propensity).",
            option="target",
            value=target.kind,
        )
    cells = find_pool_cells(target, pool.frame if isinstance(pool, Pool) else pool)
    strata = _all_strata(target, cells, weigh_cells(target, cells))
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

    def widened(taken_cc: Floats | None, scale: float) -> Floats | None:
        if taken_cc is None:
            return None
        every_cc = np.zeros((size_c.size, size_c.size))
        every_cc[np.ix_(in_scope, in_scope)] = scale * taken_cc[np.ix_(take, take)]
        return every_cc

    return TargetStrata(
        by=target.by,
        strata=tuple(cells.cells),
        mass=mass_c / mass_c.sum(),
        in_scope=cells.in_scope_c,
        code=cells.code_n,
        unit=cells.unit_n,
        covariance=widened(masses.covariance_cc, share_in**2),
        uncovered=masses.uncovered,
        dropped=cells.dropped,
        population="",
        sentences=(),
        share_jacobian=widened(masses.share_jacobian_cc, share_in),
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
