"""Error bars of the normalizers: asymptotic and from the bootstrap, side by side, because the first
misleads when overlap is weak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.errors import UnskewError
from unskew.records import Floats, Weights

# The bootstrap solves anew in every replicate, and where ω was estimated it also fits anew. A
# number of replicates is chosen by size alone, so that the same data always give the same page:
# some ten seconds on one core (measured: 5e7 entries of ω a second in a solve).
_REPLICATES = 50
_FEWEST_REPLICATES = 20
_SOLVED_ENTRIES = 4e8
_FITTED_ENTRIES = 4e6
# A model without derivatives has its own bootstrap behind every standard error; the same replicates
# serve both.
_UNSMOOTH_REPLICATES = 100


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """(K,) standard errors of log Ω̂, asymptotic and from the bootstrap, NaN where there is none;
    and how they were computed.
    """

    stderr: Floats
    bootstrap: Floats
    note: str


def estimate_errors(weights: Weights, replicates: int | None, seed: int) -> ErrorBars:
    """Both error bars; ``replicates`` None: as many as the size allows, 0: no bootstrap."""
    n_sources = len(weights.names)
    unknown = np.full(n_sources, np.nan)
    if weights.estimation is not None and weights.estimation.fitted.normalizers_known:
        note = (
            "With the target's masses of the strata every normalizer is 1 by definition: it "
            "has "
            "no error."
        )
        return ErrorBars(np.zeros(n_sources), np.zeros(n_sources), note)
    try:
        stderr = _without_rounding(np.sqrt(np.diagonal(weights.covariance()))[:n_sources])
    except UnskewError as error:
        return ErrorBars(unknown, unknown, f"There are no error bars: {error}")
    n = affordable_replicates(weights) if replicates is None else replicates
    if n == 0:
        why = (
            "not asked for"
            if replicates == 0
            else "too expensive for data of this size; ask for it by bootstrap=50"
        )
        return ErrorBars(
            stderr, unknown, f"The standard errors are asymptotic; a bootstrap was {why}."
        )
    try:
        found = weights.bootstrap(n, _shared_seed(weights, seed))
    except UnskewError as error:
        return ErrorBars(
            stderr, unknown, f"The standard errors are asymptotic; the bootstrap failed: {error}"
        )
    lost = [
        f"{count} {what}"
        for count, what in (
            (found.n_disconnected, "lacked a link or a stratum"),
            (found.n_failed, "did not converge"),
        )
        if count
    ]
    note = (
        f"Standard errors of log Ω: asymptotic, and the spread over {n} bootstrap replicates "
        "(images drawn anew within sources"
        f"{', by group' if weights.group is not None else ''}, "
        f"{'the model fitted anew' if _is_fitted(weights) else 'solved anew'}). "
        f"{'Of these, ' + ' and '.join(lost) + '.' if lost else 'All of them could be solved.'}"
    )
    return ErrorBars(stderr, _without_rounding(found.stderr), note)


def _without_rounding(stderr_k: Floats) -> Floats:
    """A normalizer that is known (the reference's, 1) has no error; what is left of it is rounding:
    a variance of 1e-18.
    """
    return np.where(stderr_k < 1e-7, 0.0, stderr_k)


def affordable_replicates(weights: Weights) -> int:
    """How many bootstrap replicates the page computes by itself: 50, fewer for large data, none
    where fewer than 20 are affordable.
    """
    entries = float(weights.weight.size * len(weights.names))
    if not _is_fitted(weights):
        n = min(_REPLICATES, int(_SOLVED_ENTRIES / entries))
    elif is_smooth(weights):
        n = min(_REPLICATES, int(_FITTED_ENTRIES / entries))
    else:
        n = _UNSMOOTH_REPLICATES if entries <= _FITTED_ENTRIES / _UNSMOOTH_REPLICATES else 0
    return n if n >= _FEWEST_REPLICATES else 0


def is_smooth(weights: Weights) -> bool:
    """Do standard errors of means come from derivatives, or need a bootstrap each?"""
    return weights.estimation is None or all(
        factor.is_smooth for factor in weights.estimation.fitted.factors
    )


def _is_fitted(weights: Weights) -> bool:
    return weights.estimation is not None and not weights.estimation.omega_is_known


def _shared_seed(weights: Weights, seed: int) -> int:
    return seed if is_smooth(weights) or weights.estimation is None else weights.estimation.seed
