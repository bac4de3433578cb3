"""`diagnose`: the step between weighing and reporting; fit check, error bars, sensitivity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unskew.bias.fit_check import FitCheck, check_fit
from unskew.diagnosis.advice import advise_from_weights
from unskew.diagnosis.outcomes import estimate_means, find_outcomes
from unskew.engine.arguments import ReplicatesOrZero, checked
from unskew.errors import UnskewError
from unskew.records import (
    Diagnostics,
    Floats,
    Ints,
    OutcomeMean,
    OutcomeRange,
    Pool,
    Weights,
)
from unskew.records.arrays import Randomness, seed_of
from unskew.report.summary.record import Privacy
from unskew.report.summary.weighted_pool import WeightedPool, pair_with_weights
from unskew.target.mass_covariance import sum_covariances
from unskew.weigh.count_covariance import strata_errors

if TYPE_CHECKING:
    from unskew.bias.fit_check import FitCheck
    from unskew.weigh.bootstrap import Bootstrap

_REPLICATES = 999
_FEWEST_REPLICATES = 99
# Replicates × sources: their sums are held in memory for every function of the images.
_MOST_SUMS = 100_000


def run_fit_check(pool: Pool, weights: Weights, seed: int) -> tuple[FitCheck | None, str]:
    """Return the test of fit of all images, or None and why there is none."""
    replicates = max(min(_REPLICATES, _MOST_SUMS // len(weights.names)), _FEWEST_REPLICATES)
    model = None if weights.estimation is None else weights.estimation.fitted
    try:
        return check_fit(pool, model, weights=weights, replicates=replicates, rng=seed), ""
    except UnskewError as error:
        return None, f"Not tested: {error}"


# Every replicate of the bootstrap solves again, and where ω was estimated it also fits again. The
# number of replicates is chosen by size alone, so that the same data always give the same page:
# some ten seconds on one core (measured: 5e7 entries of ω a second in a solve).
_ERROR_BARS_REPLICATES = 50
_ERROR_BARS_FEWEST_REPLICATES = 20
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


def _drawn_together(weights: Weights) -> str:
    if weights.unit is None:
        return ""
    return ", copies together" if weights.group is None else ", by group"


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
        f"(images drawn again within sources{_drawn_together(weights)}, "
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
        n = min(_ERROR_BARS_REPLICATES, int(_SOLVED_ENTRIES / entries))
    elif is_smooth(weights):
        n = min(_ERROR_BARS_REPLICATES, int(_FITTED_ENTRIES / entries))
    else:
        n = _UNSMOOTH_REPLICATES if entries <= _FITTED_ENTRIES / _UNSMOOTH_REPLICATES else 0
    return n if n >= _ERROR_BARS_FEWEST_REPLICATES else 0


def is_smooth(weights: Weights) -> bool:
    """Tell whether standard errors of means come from derivatives, or need a bootstrap each."""
    return weights.estimation is None or all(
        factor.is_smooth for factor in weights.estimation.fitted.factors
    )


def _is_fitted(weights: Weights) -> bool:
    return weights.estimation is not None and not weights.estimation.omega_is_known


def _shared_seed(weights: Weights, seed: int) -> int:
    return seed if is_smooth(weights) or weights.estimation is None else weights.estimation.seed


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


@checked
def diagnose(
    pool: Pool,
    weights: Weights,
    *,
    outcomes: Mapping[str, npt.ArrayLike] | Sequence[str] | None = None,
    fit_check: FitCheck | None = None,
    replicates: ReplicatesOrZero | None = None,
    privacy: Privacy = "full",
    rng: Randomness = 0,
) -> Diagnostics:
    """Test the fit, estimate errors of the normalizers, and compare sources on target means.

    Parameters
    ----------
    pool : the images that were weighed, in any order; joined to the weights by id.
    weights : from `debias` or `debias_weights`.
    outcomes : by name, (n,) values in the order of ``weights.id`` whose target mean is estimated,
        compared between sources, and bounded (its sensitivity to c(z)); or names of columns: the
        mean of numbers, the share of each level of others. Default: the shares of the classes or,
        where the target fixes those, the columns outside the target that moved most.
    fit_check : the result of `check_fit`; None: it is run, if the data are not too large.
    replicates : of the bootstrap; None: 50, fewer for large data, none where even 20 would take too
        long; 0: none.
    privacy : of the report to come; with "aggregate", outcomes that fewer than ten images (or
        groups) have are left out, and so are sources in which fewer than ten have it.
    rng : an int or a NumPy Generator, of the bootstrap and of `check_fit`.
    """
    seed = seed_of(rng)
    weighed = pair_with_weights(pool, weights, private=privacy == "aggregate")
    if fit_check is None:
        fit, fit_note = run_fit_check(weighed.pool, weights, seed)
    else:
        fit, fit_note = fit_check, ""
    errors = estimate_errors(weights, replicates, seed)
    target_means = find_outcomes(weighed, outcomes)
    affordable, costly = _affordable_means(weights)
    means, means_note = estimate_means(weighed, target_means) if affordable else ((), costly)
    ranges, ranges_note = compute_ranges(
        weights, target_means.values, None if weighed.strata is None else weighed.strata.code
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
        outcomes=means,
        outcomes_note=means_note,
        advice=_advise(weighed, target_means.values, means),
    )


def can_estimate_means(weights: Weights) -> bool:
    """Tell whether the standard errors of target means can be afforded."""
    return is_smooth(weights) or affordable_bootstrap_replicates(weights) > 0


# Sources and parameters beyond which a prediction takes more than some milliseconds.
_MOST_SOURCES = 32
_MOST_PARAMETERS = 100
_MOST_NUMBERS = 10_000


def _advise(
    weighed: WeightedPool, values: Mapping[str, Floats], means: Sequence[OutcomeMean]
) -> tuple[str, ...]:
    """Say how many images of what kind would halve the errors and, if they are weak, mend links."""
    weights = weighed.weights
    if weights.estimation is None or not is_smooth(weights):
        return ()
    profile = weights.estimation.rows.profile
    if (
        len(weights.names) > _MOST_SOURCES
        or profile.n_parameters > _MOST_PARAMETERS
        or profile.u.shape[0] * len(weights.names) ** 2 > _MOST_NUMBERS
    ):
        return ()
    error_of = {mean.outcome: mean.estimate.stderr for mean in means}
    wishes: list[dict[str, Any]] = []
    if error_of:
        outcomes = {name: values[name] for name in error_of}
        wishes.append({"outcomes": outcomes, "known": error_of})
    if weights.overlap.verdict == "weak":
        wishes.append({"overlap": True})
    sentences = []
    for wish in wishes:
        try:
            advice = advise_from_weights(
                weighed.pool, weights, private=weighed.private, quick=True, **wish
            )
        except UnskewError:
            continue
        sentences.append(advice.sentence())
    return tuple(sentence for sentence in sentences if sentence)


def _affordable_means(weights: Weights) -> tuple[bool, str]:
    return (
        can_estimate_means(weights),
        "Target means need a bootstrap with this model, which is too expensive here; call "
        "weights.mean.",
    )


def _stratum_errors(weighed: WeightedPool) -> Floats | None:
    """Return (C,) standard errors of the target's masses; 0 where they are exact."""
    if weighed.strata is None:
        return None
    covariance_cc = sum_covariances(strata_errors(weighed.strata))
    if covariance_cc is None:
        return np.zeros(len(weighed.strata.strata))
    return np.sqrt(np.maximum(np.diagonal(covariance_cc), 0.0))
