"""Weights for images that were not in the pool, by the fitted bias model, without a new solve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import CoverageError
from unskew.records import Floats, Pool, Weights
from unskew.records.arrays import log_sums

if TYPE_CHECKING:
    import pandas as pd


def weigh_new_images(weights: Weights, table: Pool | pd.DataFrame) -> Floats:
    """Compute (m,) n π(z) = n/(Z Σ_{k kept} e^{u_k} ω_k(z)); 0 in strata without mass.

    If the target counts groups, the images of a group of the table share its weight, as they do in
    the pool.
    """
    estimation = weights.estimation
    assert estimation is not None
    fitted = estimation.fitted
    total_m = log_sums(fitted.log_omega(table) + estimation.u_k[: len(fitted.names)])
    unit_m = np.ones(total_m.size)
    if fitted.strata is not None:
        counts_groups = fitted.target is not None and fitted.target.unit == "group"
        unit_m = fitted.strata.units(
            table.frame if isinstance(table, Pool) else table, counts_groups
        )
    impossible = np.flatnonzero(np.isneginf(total_m) & (unit_m > 0))
    if impossible.size:
        raise CoverageError(
            f"no source could have produced {impossible.size} of {total_m.size} images, such as "
            f"row {impossible[0]}: omega is 0 in every column, so they have no weight. They are "
            "outside what the sources cover.",
            row=int(impossible[0]),
            count=int(impossible.size),
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(
            unit_m > 0, weights.weight.size * unit_m * np.exp(-total_m - estimation.log_total), 0.0
        )
