"""Diagnose weights: `diagnose`, the step between weighing and reporting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unskew.diagnosis.error_bars import estimate_errors
from unskew.diagnosis.model_fit import run_fit_check
from unskew.diagnosis.outcome_ranges import compute_ranges
from unskew.diagnosis.outcomes import choose_outcomes
from unskew.errors import ConfigError
from unskew.records import Diagnostics, Floats, Pool, Weights
from unskew.report.summary.privacy import check_privacy
from unskew.report.summary.record import Privacy
from unskew.report.summary.weighted_pool import WeightedPool, pair_with_weights

if TYPE_CHECKING:
    from unskew.bias.fit_check import FitCheck


def diagnose(
    pool: Pool,
    weights: Weights,
    *,
    outcomes: Mapping[str, npt.ArrayLike] | None = None,
    fit_check: FitCheck | None = None,
    replicates: int | None = None,
    privacy: Privacy = "full",
    seed: int = 0,
) -> Diagnostics:
    """Test the fit, estimate both error bars of the normalizers, and bound target means.

    Parameters
    ----------
    pool : the images that were weighed, in any order; joined to the weights by id.
    weights : from `debias` or `debias_weights`.
    outcomes : by name, (n,) values in the order of ``weights.id`` whose target mean's sensitivity
        to c(z) is computed; default: the shares of the classes or, where the target fixes those,
        the columns outside the target that moved most.
    fit_check : the result of `check_fit`; None: it is run, if the data are not too large.
    replicates : of the bootstrap; None: 50, fewer for large data, none where even 20 would take too
        long; 0: none.
    privacy : of the report to come; with "aggregate", outcomes that it would withhold are not
        chosen by default.
    seed : of the bootstrap and of `check_fit`.
    """
    check_privacy(privacy)
    if replicates is not None and replicates < 0:
        raise ConfigError(
            f"replicates is the number of bootstrap replicates, 0 for none; got {replicates!r}.",
            option="replicates",
            value=replicates,
        )
    weighed = pair_with_weights(pool, weights, private=privacy == "aggregate")
    if fit_check is None:
        fit, fit_note = run_fit_check(weighed.pool, weights, seed)
    else:
        fit, fit_note = fit_check, ""
    errors = estimate_errors(weights, replicates, seed)
    if outcomes is None:
        outcomes = choose_outcomes(weighed)
    ranges, ranges_note = compute_ranges(
        weights,
        {name: np.asarray(values) for name, values in outcomes.items()},
        None if weighed.strata is None else weighed.strata.code,
    )
    return Diagnostics(
        names=weights.names,
        fit=fit,
        fit_note=fit_note,
        stderr=errors.asymptotic,
        stderr_bootstrap=errors.bootstrap,
        stderr_note=errors.note,
        stratum_stderr=_stratum_errors(weighed),
        sensitivity=ranges,
        sensitivity_note=ranges_note,
        privacy=privacy,
    )


def _stratum_errors(weighed: WeightedPool) -> Floats | None:
    """Return (C,) standard errors of the target's masses; 0 where they are exact."""
    if weighed.strata is None:
        return None
    if weighed.strata.covariance is None:
        return np.zeros(len(weighed.strata.strata))
    return np.sqrt(np.maximum(np.diagonal(weighed.strata.covariance), 0.0))
