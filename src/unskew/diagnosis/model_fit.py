"""The test of fit, with as many replicates as the size of the data allows."""

from __future__ import annotations

from unskew.bias.fit_check import FitCheck, check_fit
from unskew.errors import UnskewError
from unskew.records import Pool, Weights

_REPLICATES = 999
_FEWEST_REPLICATES = 99
# Signs of the multiplier bootstrap (replicates × images) and influence functions (images × sources
# × thresholds) held in memory at once.
_MOST_SIGNS = 2e7
_MOST_INFLUENCES = 3e7
_THRESHOLDS = 15


def run_fit_check(pool: Pool, weights: Weights, seed: int) -> tuple[FitCheck | None, str]:
    """Return the test of fit of all images, or None and why there is none."""
    replicates = affordable_fit_replicates(weights.weight.size, len(weights.names))
    if replicates == 0:
        return None, (
            "Not tested, because it would take too much memory for data of this size: weigh a part "
            "of the images and call unskew.check_fit."
        )
    model = None if weights.estimation is None else weights.estimation.fitted
    try:
        return check_fit(pool, model, weights=weights, replicates=replicates, rng=seed), ""
    except UnskewError as error:
        return None, f"Not tested: {error}"


def affordable_fit_replicates(n_images: int, n_sources: int) -> int:
    """Return 999 replicates, fewer for large data, none where fewer than 99 fit in memory."""
    if n_images * n_sources * _THRESHOLDS > _MOST_INFLUENCES:
        return 0
    replicates = min(_REPLICATES, int(_MOST_SIGNS / n_images))
    return replicates if replicates >= _FEWEST_REPLICATES else 0
