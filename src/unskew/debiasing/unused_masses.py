"""Targets whose masses of strata the bias model cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.errors import CoverageError, UnskewError, warn_caller
from unskew.records import Pool, Target

if TYPE_CHECKING:
    from unskew.bias.base import Bias


def ignores_masses(bias: Bias, target: Target | None) -> bool:
    """Tell whether the target is of masses that the model cannot use: only `Strata` can."""
    from unskew.bias.class_shift import ClassShift
    from unskew.bias.strata import Strata

    return (
        target is not None
        and target.kind not in ("sample", "source")
        and not any(isinstance(part, Strata | ClassShift) for part in bias.parts)
    )


def check_unused(pool: Pool, bias: Bias, target: Target | None) -> None:
    """Warn of masses of strata that the model cannot use.

    Where a stratum of the target has no images, no weights describe it: a `CoverageError`.
    """
    if target is None or not ignores_masses(bias, target):
        return
    try:
        target.stratify(pool)
    except UnskewError as error:
        # Columns that the pool lacks, or levels beyond the target, are not used: no matter.
        if isinstance(error, CoverageError):
            raise
    by = " × ".join(target.by)
    warn_caller(
        f"the target gives the distribution of {by}, which {type(bias).__name__} cannot use: the "
        "weights do not follow it. Multiply by "
        f"Strata({list(target.by)}) in a Product, or call calibrate_weights afterwards."
    )
