"""The sensitivity of target means to c(z), for as many as the size of the data allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unskew.diagnosis.error_bars import affordable_bootstrap_replicates, is_smooth
from unskew.errors import UnskewError
from unskew.records import Ints, OutcomeRange, Weights

_FACTORS = (2.0, 1.5)
# A sensitivity sorts the images and computes two standard errors: some seconds for so many images
# over all outcomes and factors.
_MOST_SORTED = 1e6


def compute_ranges(
    weights: Weights, outcomes: Mapping[str, Any], cell: Ints | None
) -> tuple[tuple[OutcomeRange, ...], str]:
    """Return the range of every outcome for every factor, and a note if some are missing.

    ``cell``: (n,) the stratum of every image where the target gives their masses, so that c(z) may
    vary within strata only.
    """
    if not is_smooth(weights) and affordable_bootstrap_replicates(weights) == 0:
        return (), (
            "The sensitivity to c(z) needs a bootstrap with this model, which is too expensive "
            "here; call weights.sensitivity."
        )
    asked = [(name, factor) for factor in _FACTORS for name in outcomes]
    affordable = asked[: max(int(_MOST_SORTED / weights.weight.size), 1)]
    try:
        ranges = [
            _compute_range(weights, name, outcomes[name], factor, cell)
            for name, factor in affordable
        ]
    except UnskewError as error:
        return (), f"The sensitivity to c(z) could not be computed: {error}"
    note = (
        f"For data of this size {len(affordable)} of {len(asked)} ranges were computed; "
        "weights.sensitivity(values, factor) gives others."
        if len(affordable) < len(asked)
        else ""
    )
    order = {str(name): position for position, name in enumerate(outcomes)}
    return tuple(sorted(ranges, key=lambda row: (order[row.outcome], row.factor))), note


def _compute_range(
    weights: Weights, outcome: str, values: Any, factor: float, cell: Ints | None
) -> OutcomeRange:
    sensitivity = weights.sensitivity(values, factor, cell=cell)
    return OutcomeRange(
        outcome=str(outcome),
        factor=factor,
        value=sensitivity.value,
        low=sensitivity.low,
        high=sensitivity.high,
        interval=sensitivity.interval,
        scope=sensitivity.scope,
    )
