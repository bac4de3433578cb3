"""Error bars of the normalizers: asymptotic and from the bootstrap.

Both, because the first misleads when overlap is weak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unskew.errors import UnskewError
from unskew.records import Floats, Weights

if TYPE_CHECKING:
    from unskew.weigh.bootstrap import Bootstrap

# Every replicate of the bootstrap solves again, and where ω was estimated it also fits again. The
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
    """Standard errors of log Ω̂, NaN where there is none, and how they were computed.

    Attributes
    ----------
    asymptotic : (K,) from the equations.
    bootstrap : (K,) from replicates.
    note : how they were computed, or why they were not.
    """

    asymptotic: Floats
    bootstrap: Floats
    note: str


def estimate_errors(weights: Weights, replicates: int | None, seed: int) -> ErrorBars:
    """Compute both error bars of the normalizers.

    ``replicates`` None: as many as the size of the data allows; 0: no bootstrap.
    """
    n_sources = len(weights.names)
    unknown_k = np.full(n_sources, np.nan)
    if weights.estimation is not None and weights.estimation.fitted.normalizers_known:
        note = (
            "With the target's masses of the strata every normalizer is 1 by definition: it has no "
            "error."
        )
        return ErrorBars(np.zeros(n_sources), np.zeros(n_sources), note)
    try:
        stderr_k = _without_rounding(np.sqrt(np.diagonal(weights.covariance()))[:n_sources])
    except UnskewError as error:
        return ErrorBars(unknown_k, unknown_k, f"There are no error bars: {error}")
    n = affordable_bootstrap_replicates(weights) if replicates is None else replicates
    if n == 0:
        why = (
            "not asked for"
            if replicates == 0
            else "too expensive for data of this size; ask for it by replicates=50"
        )
        note = f"The standard errors are asymptotic; a bootstrap was {why}."
        return ErrorBars(stderr_k, unknown_k, note)
    try:
        bootstrap = weights.bootstrap(n, _shared_seed(weights, seed))
    except UnskewError as error:
        note = f"The standard errors are asymptotic; the bootstrap failed: {error}"
        return ErrorBars(stderr_k, unknown_k, note)
    note = _bootstrap_note(weights, n, bootstrap)
    return ErrorBars(stderr_k, _without_rounding(bootstrap.stderr), note)


def _bootstrap_note(weights: Weights, n: int, bootstrap: Bootstrap) -> str:
    lost = [
        f"{count} {reason}"
        for count, reason in (
            (bootstrap.n_disconnected, "lacked a link or a stratum"),
            (bootstrap.n_failed, "did not converge"),
        )
        if count
    ]
    return (
        f"Standard errors of log Ω: asymptotic, and the spread over {n} bootstrap replicates "
        f"(images drawn again within sources{', by group' if weights.group is not None else ''}, "
        f"{'the model fitted again' if _is_fitted(weights) else 'solved again'}). "
        f"{'Of these, ' + ' and '.join(lost) + '.' if lost else 'All of them could be solved.'}"
    )


def _without_rounding(stderr_k: Floats) -> Floats:
    """Set errors of known normalizers to 0; a variance of 1e-18 is rounding."""
    return np.where(stderr_k < 1e-7, 0.0, stderr_k)


def affordable_bootstrap_replicates(weights: Weights) -> int:
    """Return how many replicates are computed unless a number is given.

    50, fewer for large data, none where fewer than 20 are affordable.
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
    """Tell whether standard errors of means come from derivatives, or need a bootstrap each."""
    return weights.estimation is None or all(
        factor.is_smooth for factor in weights.estimation.fitted.factors
    )


def _is_fitted(weights: Weights) -> bool:
    return weights.estimation is not None and not weights.estimation.omega_is_known


def _shared_seed(weights: Weights, seed: int) -> int:
    return seed if is_smooth(weights) or weights.estimation is None else weights.estimation.seed
