"""One bias model among several: fitted, scored and checked, or why it could not be."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.choosing.membership_score import Folds, MembershipScore, score_memberships
from unskew.choosing.target_distance import Fact, TargetDistance, distance_to_target
from unskew.debiasing.pool_weights import debias
from unskew.errors import ConfigError, UnskewWarning
from unskew.records import Pool, Weights
from unskew.records.holm import OBJECTION, holm

if TYPE_CHECKING:
    from unskew.bias.base import Bias
    from unskew.bias.fitted import FittedBias
    from unskew.bias.resemblance import Resemblance

BASELINE = "naive pooling"
# As in `unskew.bias.feature_flags.flag_identifiers`.
_IDENTIFIES = 0.99
# A family contradicts a known fact where chance explains the difference with less than this
# probability.
_CONTRADICTION = 0.01
_LONGEST_NAME = 60

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One bias model, fitted and scored.

    name, model : as given.
    weights : under the model fitted to all images; None where that failed.
    score : held-out score; None where a fit failed.
    parameters : number of fitted numbers; infinite for a classifier that does not count them.
    distance : from known facts about the target; None without facts.
    fit_p : p-value of `unskew.check_fit`; None if it was not computed.
    identifies : whether the model tells almost every image's source.
    failure : why it could not be fitted, or scored; None if it could.
    by_sample : whether a sample of the target was scored, too, which gives c(z).
    notes : warnings of the fit.
    """

    name: str
    model: Bias
    weights: Weights | None = field(repr=False, default=None)
    score: MembershipScore | None = None
    parameters: float = math.nan
    distance: TargetDistance | None = None
    fit_p: float | None = None
    identifies: bool = False
    failure: str | None = None
    by_sample: bool = False
    notes: tuple[str, ...] = ()

    @property
    def score_mean(self) -> float:
        return -math.inf if self.score is None else self.score.mean

    @property
    def verdict(self) -> str:
        return "none" if self.weights is None else self.weights.overlap.verdict

    @property
    def anchor(self) -> str:
        """Where c(z) comes from; from a sample whose images are scored, whatever is assumed."""
        return "" if self.by_sample or self.weights is None else self.weights.describe().anchor

    @property
    def contradicts(self) -> bool:
        """Whether a known fact about the target is off by more than chance explains."""
        return self.distance is not None and self.distance.p_value < _CONTRADICTION

    @property
    def auc(self) -> float | None:
        """How well a classifier tells a sample of the target from the weighted pool."""
        return None if self._resemblance is None else self._resemblance.auc

    @property
    def objections(self) -> dict[str, float]:
        """p-values below `OBJECTION`, by test, with all tests of the candidate counted (Holm)."""
        tests = {
            "check_fit": self.fit_p,
            "known facts": None if self.distance is None else self.distance.p_value,
            "a classifier": None if self._resemblance is None else self._resemblance.p_value,
        }
        adjusted = holm([(name, p) for name, p in tests.items() if p is not None])
        return {name: p for name, p in adjusted.items() if p < OBJECTION}

    @property
    def _resemblance(self) -> Resemblance | None:
        if self.weights is None or self.weights.estimation is None:
            return None
        return self.weights.estimation.resemblance

    @property
    def obstacle(self) -> str | None:
        """Why it must not be chosen for its score; None if it may."""
        if self.failure is not None:
            return self.failure
        if self.verdict != "ok":
            return f"its overlap is {self.verdict}"
        if self.identifies:
            return "it tells almost every image's source, so its score says nothing"
        return None


def name_candidates(
    candidates: Sequence[Bias] | Mapping[str, Bias], pool: Pool, baseline: bool
) -> dict[str, Bias]:
    """Return {name: model}, with naive pooling if it is asked for and not there."""
    from unskew.bias.known import Known

    models = list(candidates.values() if isinstance(candidates, Mapping) else candidates)
    if not models:
        raise ConfigError(
            "candidates is empty: give the bias models to compare, such as [Strata('label'), "
            "Tilt(['brightness'])].",
            option="candidates",
            count=0,
        )
    names = (
        list(candidates)
        if isinstance(candidates, Mapping)
        else [model_name(model) for model in models]
    )
    named = {
        _unused(name, names[:at]): _by_id(model, pool)
        for at, (name, model) in enumerate(zip(names, models, strict=True))
    }
    if baseline and BASELINE not in named and not any(is_constant(model) for model in models):
        named[BASELINE] = Known(dict.fromkeys(pool.names, 1.0))
    return named


def model_name(model: Bias) -> str:
    """Write ``Tilt(x, y, degree=2)``, short enough for a table."""
    parts = model.parts
    if len(parts) > 1:
        return " × ".join(model_name(part) for part in parts)
    (part,) = parts
    if is_constant(part):
        return "Known(1)"
    shown = []
    for name, value in part.settings().items():
        if name in ("features", "by"):
            shown.append(value if isinstance(value, str) else ", ".join(map(str, value)))
        else:
            shown.append(f"{name}={value}" if isinstance(value, str | int | float) else "…")
    text = f"{type(part).__name__}({', '.join(shown)})"
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 2]}…)"


def _unused(name: str, before: Sequence[str]) -> str:
    count = before.count(name)
    return name if not count else f"{name} #{count + 1}"


def is_constant(model: Bias) -> bool:
    """Tell whether this is naive pooling: every ω is one number."""
    from unskew.bias.known import Known

    omega = model.omega if isinstance(model, Known) else None
    return isinstance(omega, Mapping) and all(
        isinstance(value, int | float) for value in omega.values()
    )


def _by_id(model: Bias, pool: Pool) -> Bias:
    """Turn a matrix for the rows of the pool into a table by id: folds have other rows."""
    import pandas as pd

    from unskew.bias.known import Known
    from unskew.bias.product import Product

    if isinstance(model, Product):
        return Product(*[_by_id(factor, pool) for factor in model.factors])
    if (
        not isinstance(model, Known)
        or isinstance(model.omega, Mapping | str | pd.DataFrame)
        or callable(model.omega)
    ):
        return model
    matrix = np.asarray(
        model.omega.toarray() if hasattr(model.omega, "toarray") else model.omega, dtype=np.float64
    )
    if matrix.shape != (len(pool), len(pool.names)):
        return model  # the fit says what is wrong
    return replace(
        model,
        omega=pd.DataFrame(matrix, index=pool.frame["id"].to_numpy(), columns=list(pool.names)),
    )


def evaluate_candidate(
    name: str,
    model: Bias,
    folds: Folds,
    facts: Sequence[Fact],
    *,
    checked: Sequence[str],
    seed: int,
) -> Candidate:
    """Fit, score with folds left out, compare with the facts, check; report what fails."""
    is_sample = folds.target is not None and folds.target.kind == "sample"
    start = Candidate(name, model, by_sample=is_sample)
    weights, failure, notes = _attempt(
        lambda: debias(folds.pool, model, folds.target, rng=seed, check_sample=is_sample)
    )
    if weights is None:
        return replace(start, failure=f"it cannot be fitted: {failure}")
    assert weights.estimation is not None
    start = replace(
        start, weights=weights, parameters=count_parameters(weights.estimation.fitted), notes=notes
    )
    score, failure, _ = _attempt(lambda: score_memberships(model, folds, seed=seed))
    if score is None:
        return replace(start, failure=f"it cannot be fitted with a fold left out: {failure}")
    flagged = _identifying_columns(model, folds.pool)
    fit_p, unchecked = (
        _fit_p_value(model, folds.pool, checked, weights, seed) if checked else (None, ())
    )
    with warnings.catch_warnings():
        # A ridge that moves the mean of a fact is nobody's concern: the distance is what counts.
        warnings.simplefilter("ignore", UnskewWarning)
        distance = distance_to_target(weights, facts)
    return replace(
        start,
        score=score,
        distance=distance,
        fit_p=fit_p,
        identifies=bool(flagged) or float(np.nanmean(np.exp(score.value))) >= _IDENTIFIES,
        notes=tuple(dict.fromkeys([*notes, *flagged, *unchecked])),
    )


def _attempt(compute: Callable[[], Any]) -> tuple[Any, str, tuple[str, ...]]:
    """Return the result or None, why there is none, and warnings of unskew."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, failure = compute(), ""
        # a candidate of the user's own may raise anything; the others must still be compared
        except Exception as error:
            _logger.info("a candidate failed", exc_info=True)
            result, failure = None, f"{type(error).__name__}: {error}"
    ours = tuple(
        dict.fromkeys(
            str(warning.message)
            for warning in caught
            if issubclass(warning.category, UnskewWarning)
        )
    )
    for warning in caught:
        if not issubclass(warning.category, UnskewWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return result, failure, ours


def count_parameters(fitted: FittedBias) -> float:
    """Count the fitted numbers, which order candidates by simplicity.

    Known ω and queries 0; of a `Tilt` the coefficients; of boxes the finite edges, and a width; of
    `Strata` the (C − 1)(K − 1) factors that counts of C strata in K sources leave free, and C − 1
    shares where a classifier estimated those of the target; of a product the sum; infinite for a
    classifier other than logistic regression.
    """
    total = 0.0
    for factor in fitted.factors:
        if factor.n_fitted:
            total += factor.n_fitted
        elif factor.fitted_log_omega() is not None:
            return math.inf
        elif factor.describe().estimated:
            total += _count_numbers(factor.describe().parameters)
    if fitted.strata is not None:
        # Shares that a classifier estimated are as many numbers as one more source's.
        is_estimated = fitted.target is not None and fitted.target.kind == "predictions"
        n_sources = len(fitted.names) + is_estimated
        total += (len(fitted.strata.target.strata) - 1) * (n_sources - 1)
    return total


def _count_numbers(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_count_numbers(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(_count_numbers(item) for item in value)
    return int(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    )


def _identifying_columns(model: Bias, pool: Pool) -> tuple[str, ...]:
    """Write sentences on columns that alone identify the source."""
    from unskew.bias.feature_flags import flag_identifiers
    from unskew.bias.features import expand_features

    columns = list(dict.fromkeys(column for part in model.parts for column in part.columns))
    flagged, _, _ = _attempt(
        lambda: flag_identifiers(
            pool.frame,
            [
                name
                for name in (expand_features(pool.frame, columns) if columns else [])
                if not bool(pool.frame[name].isna().any())
            ],
            pool.source.astype(np.int64),
            pool.names,
        )
    )
    return flagged or ()


def _fit_p_value(
    model: Bias, pool: Pool, columns: Sequence[str], weights: Weights, seed: int
) -> tuple[float | None, tuple[str, ...]]:
    """Return the p-value of `check_fit`, or None, and why the check failed, if it did."""
    from unskew.bias.fit_check import check_fit

    check, failure, _ = _attempt(
        lambda: check_fit(pool, model, weights=weights, features=columns, rng=seed)
    )
    if check is None:
        return None, (f"its fit could not be checked ({failure})",)
    return None if math.isnan(check.p_value) else float(check.p_value), ()
