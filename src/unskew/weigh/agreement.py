"""Do the sources agree on a target mean? `compare_sources`; which of two intervals heads it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy

from unskew.records import Estimate, Floats, Ints
from unskew.records.agreement import Agreement, SourceEstimate, WithoutSource
from unskew.weigh.compared_rows import contrast_fixed, find_contrasts
from unskew.weigh.new_source import SourceSpread, noncentral_p
from unskew.weigh.sampling_units import WeightedRows, check_values
from unskew.weigh.source_contrasts import Contrasts

if TYPE_CHECKING:
    from unskew.records import Weights

# A spread between sources below this does not matter: on the logit scale, where 0.05 is 1.2
# percentage points of a share of one half and a twentieth of a small one. A number's unit is half
# its standard deviation, to which the logit scale corresponds at one half.
_MARGIN = 0.05
# Scale of the half-Cauchy prior of the spread, in the same units. With 1, five sources of a rare
# outcome whose odds differ much cover another one in 90% only (docs/honest-errors.md).
_PRIOR_SCALE = 1.5
# The spread is above the margin with this confidence; that within strata, which is looked at, too,
# with this one.
_CONFIDENCE = 0.95
_CONFIDENCE_WITHIN = 0.99
_BY_CONSTRUCTION = "The sources agree by construction: values do not vary where they are compared."
# Numbers in the table of memberships beyond which sources are not compared: 1 GB.
_LARGEST = 2**27


def compare_sources(weights: Weights, values: npt.ArrayLike, estimate: Estimate) -> Estimate:
    """Return the estimate with the comparison of its sources, and the interval that heads it.

    Each source alone estimates the target mean (`source_contrasts`). A test asks whether they
    agree, and the spread between them beyond sampling error decides on the interval: while it may
    be below the margin that matters, the interval is the one that holds if the sources agree;
    otherwise the one for a source like none of these (`SourceSpread.predict`). Of two sources that
    disagree, which cannot say what a third would measure, it is the hull of all intervals.
    """
    value_n = check_values(values, weights.weight.size)
    return _head(estimate, _compare(weights, value_n, estimate, partial(find_contrasts, weights)))


def compare_fixed(
    rows: WeightedRows, q_nk: Floats, value_n: Floats, estimate: Estimate
) -> Estimate:
    """Return the same for rows whose weights and memberships (n, K) are taken as known."""
    contrast = partial(contrast_fixed, rows, q_nk)
    return _head(estimate, _compare(rows, value_n, estimate, contrast))


def _head(estimate: Estimate, agreement: Agreement) -> Estimate:
    """Choose the interval that heads."""
    if not agreement.disagree:
        interval = estimate.interval
    elif agreement.new_source is not None:
        interval = agreement.new_source
    else:
        ends = [estimate.interval, *(agreement.by_source[k].interval for k in agreement.compared)]
        interval = (min(end[0] for end in ends), max(end[1] for end in ends))
    return replace(estimate, interval=interval, agreement=agreement)


def _compare(
    weights: WeightedRows,
    value_n: Floats,
    estimate: Estimate,
    contrast: Callable[[Floats], Contrasts],
) -> Agreement:
    names = weights.names
    if len(names) < 2:
        return _nothing(weights, estimate, "There is one source: nothing to compare.")
    if weights.weight.size * len(names) > _LARGEST:
        return _nothing(weights, estimate, "There are too many images and sources to compare.")
    if not math.isfinite(estimate.stderr):
        return _nothing(weights, estimate, "Without a standard error sources cannot be compared.")
    if estimate.stderr == 0.0:
        return _nothing(weights, estimate, _BY_CONSTRUCTION)
    scale = _unit_of_spread(weights, value_n)
    shift, factor = 0.0, 1.0
    if scale[0] == "value":
        # Squares of huge or tiny numbers would not be numbers any more.
        shift, factor = estimate.value, 2.0 * scale[1]
        value_n, scale = (value_n - shift) / factor, ("value", 0.5, False)
    contrasts = contrast(value_n)
    if contrasts.compared.size < 2:
        return _nothing(
            weights,
            estimate,
            "Sources cannot be compared: none of the target is seen by two of them.",
            contrasts,
        )
    scaled = _moved_estimate(estimate, -shift / factor, 1.0 / factor)
    agreement = judge_contrasts(contrasts, scaled, names, _image_counts(weights), scale)
    return _moved(agreement, shift, factor)


def _moved_estimate(estimate: Estimate, shift: float, factor: float) -> Estimate:
    low, high = estimate.interval
    return Estimate(
        shift + factor * estimate.value,
        factor * estimate.stderr,
        (shift + factor * low, shift + factor * high),
        estimate.level,
    )


def _moved(agreement: Agreement, shift: float, factor: float) -> Agreement:
    """Bring a comparison of (h − shift)/factor back to that of h."""
    if factor == 1.0 and shift == 0.0:
        return agreement

    def ends(interval: tuple[float, float]) -> tuple[float, float]:
        return shift + factor * interval[0], shift + factor * interval[1]

    return replace(
        agreement,
        by_source={
            name: replace(
                own,
                value=shift + factor * own.value,
                stderr=factor * own.stderr,
                interval=ends(own.interval),
            )
            for name, own in agreement.by_source.items()
        },
        between_sd=factor * agreement.between_sd,
        within_sd=factor * agreement.within_sd,
        margin=factor * agreement.margin,
        agreed=ends(agreement.agreed),
        new_source=None if agreement.new_source is None else ends(agreement.new_source),
        without=tuple(
            replace(
                rest,
                value=shift + factor * rest.value,
                stderr=factor * rest.stderr,
                between_sd=factor * rest.between_sd,
            )
            for rest in agreement.without
        ),
    )


def _image_counts(weights: WeightedRows) -> Ints:
    return np.bincount(weights.source[weights.weight > 0], minlength=len(weights.names))


def _nothing(
    weights: WeightedRows, estimate: Estimate, reason: str, contrasts: Contrasts | None = None
) -> Agreement:
    """Say why nothing is compared; sources have no estimates of their own then."""
    count_k = _image_counts(weights)
    own = {
        name: SourceEstimate(
            math.nan,
            math.nan,
            (math.nan, math.nan),
            int(count_k[k]),
            math.nan if contrasts is None else float(contrasts.share[k]),
            0.0 if contrasts is None else float(contrasts.shared[k]),
        )
        for k, name in enumerate(weights.names)
    }
    shared = 0.0 if contrasts is None else contrasts.all_shared
    return Agreement(
        own,
        math.nan,
        math.nan,
        "value",
        math.nan,
        False,
        estimate.interval,
        None,
        shared,
        (),
        reason,
    )


def _unit_of_spread(weights: WeightedRows, value_n: Floats) -> tuple[str, float, bool]:
    """Return the scale of comparison, its unit, and whether all values are 0 or 1."""
    weight_n = weights.weight
    mean = float(weight_n @ value_n)
    largest = float(np.abs(value_n - mean).max())
    sd = largest * math.sqrt(float(weight_n @ np.square((value_n - mean) / largest)))
    used_n = value_n[weight_n > 0]
    if used_n.min() < 0.0 or used_n.max() > 1.0 or not 0.0 < mean < 1.0:
        return "value", sd / 2, False
    is_binary = bool(((used_n == 0.0) | (used_n == 1.0)).all())
    return "logit", min(1.0, sd / (2 * mean * (1 - mean))), is_binary


def judge_contrasts(
    contrasts: Contrasts,
    estimate: Estimate,
    names: tuple[str, ...],
    count_k: Ints,
    scale: tuple[str, float, bool],
) -> Agreement:
    """Test, measure and describe the differences between sources."""
    kind, unit, is_binary = scale
    # Predictions of an outcome model may have moved the estimate: that of every source alike.
    y_j = contrasts.y + (estimate.value - contrasts.mean)
    contrasts, covariance_jj = replace(contrasts, y=y_j), contrasts.covariance.copy()
    if _cannot_differ(contrasts, estimate):
        agreement = _described(contrasts, estimate, names, count_k, None, kind)
        return replace(agreement, reason=_BY_CONSTRUCTION)
    if is_binary:
        # A source without a single 1 has a spread, too.
        n_j = contrasts.effective
        smooth_j = (np.clip(y_j, 0.0, 1.0) * n_j + 0.5) / (n_j + 1.0)
        least_j = smooth_j * (1.0 - smooth_j) / (n_j + 1.0)
        lacking_j = np.maximum(least_j - np.diagonal(covariance_jj), 0.0)
        covariance_jj += np.diag(np.where(n_j * smooth_j * (1 - smooth_j) < 5.0, lacking_j, 0.0))
    plain = SourceSpread(y_j, covariance_jj, contrasts.freedom)
    linked = _on_scale(plain, kind, contrasts.effective)
    margin = _MARGIN * unit
    null_jj = contrasts.null_covariance
    tests = (plain, linked)
    if null_jj is not None:
        slope = 1.0 / (estimate.value * (1.0 - estimate.value))
        tests = (replace(plain, covariance=null_jj), replace(linked, covariance=slope**2 * null_jj))
    within_sd, p_within = math.nan, 1.0
    if contrasts.within is not None:
        within_sd = contrasts.within.sd
        noncentrality = margin**2 * contrasts.within.precision
        p_within = noncentral_p(contrasts.within.q, contrasts.within.freedom, noncentrality)
    # That within strata is asked with more confidence: so many times its p-value counts.
    p_within *= (1.0 - _CONFIDENCE) / (1.0 - _CONFIDENCE_WITHIN)
    p_apart = tests[1].p_value(margin)
    limit = 1.0 - _CONFIDENCE
    # The error of the target's margins, and of ω, is common to all sources.
    common = max(estimate.stderr**2 - contrasts.mean_variance, 0.0)
    apart = _with_common_error(linked, kind, estimate.value, common)
    new_source = None
    if y_j.size >= 3:
        low, high = apart.predict(_PRIOR_SCALE * unit, estimate.level)
        new_source = (_back(low, kind), _back(high, kind))
    return replace(
        _described(contrasts, estimate, names, count_k, apart, kind),
        p=tests[0].p_value(),
        between_sd=linked.tau,
        margin=margin,
        disagree=min(p_apart, p_within) < limit,
        beyond_margin_p=min(p_apart, p_within),
        within_sd=within_sd,
        only_within=p_within < limit <= p_apart,
        new_source=new_source,
        without=_leave_out(plain, linked, tests, [names[k] for k in contrasts.compared], margin),
    )


def _cannot_differ(contrasts: Contrasts, estimate: Estimate) -> bool:
    """Say whether no value varies within what is compared, as of a label that strata balance."""
    scale = max(float(np.abs(contrasts.y).max()), abs(estimate.value), 1.0)
    return bool(
        np.diagonal(contrasts.covariance).max() <= (1e-9 * scale) ** 2
        and np.ptp(contrasts.y) <= 1e-9 * scale
    )


def _on_scale(plain: SourceSpread, kind: str, effective_j: Floats) -> SourceSpread:
    """Bring estimates and covariance onto the logit scale, if that is the scale."""
    if kind != "logit":
        return plain
    # Half an image of each kind more, so that 0 and 1 have a logit.
    share_j = (np.clip(plain.y, 0.0, 1.0) * effective_j + 0.5) / (effective_j + 1.0)
    slope_j = 1.0 / (share_j * (1.0 - share_j))
    return SourceSpread(
        scipy.special.logit(share_j), slope_j[:, None] * plain.covariance * slope_j, plain.freedom
    )


def _exceeds(spread: SourceSpread, margin: float) -> bool:
    """Say whether the spread between sources is above the margin, with confidence."""
    return spread.p_value(margin) < 1.0 - _CONFIDENCE


def _with_common_error(linked: SourceSpread, kind: str, mean: float, common: float) -> SourceSpread:
    """Add an error that moves all sources alike, on the scale of comparison.

    A source that hardly ever says yes is not moved as many points as one that often does: with the
    slope of its own share, its difference from the others would pass for error.
    """
    slope = 1.0
    if kind == "logit":
        share_j = scipy.special.expit(linked.y)
        share = float(np.clip(mean, share_j.min(), share_j.max()))
        slope = 1.0 / (share * (1.0 - share))
    return replace(linked, covariance=linked.covariance + common * slope**2)


def _back(value: float, kind: str) -> float:
    return float(scipy.special.expit(value)) if kind == "logit" else value


def _described(
    contrasts: Contrasts,
    estimate: Estimate,
    names: tuple[str, ...],
    count_k: Ints,
    spread: SourceSpread | None,
    kind: str,
) -> Agreement:
    """Describe every source; the rest of the record is filled in later."""
    own = {}
    position = {int(k): j for j, k in enumerate(contrasts.compared)}
    for k, name in enumerate(names):
        value, stderr, interval = math.nan, math.nan, (math.nan, math.nan)
        if k in position:
            j = position[k]
            value, stderr, interval = float(contrasts.y[j]), 0.0, (float(contrasts.y[j]),) * 2
            if spread is not None:
                on_scale = math.sqrt(max(float(spread.covariance[j, j]), 0.0))
                reach = on_scale * float(
                    scipy.special.stdtrit(spread.freedom[j], 0.5 + estimate.level / 2)
                )
                middle = float(spread.y[j])
                share = _back(middle, kind)
                slope = share * (1.0 - share) if kind == "logit" else 1.0
                stderr = on_scale * slope
                interval = (_back(middle - reach, kind), _back(middle + reach, kind))
        own[name] = SourceEstimate(
            value,
            stderr,
            interval,
            int(count_k[k]),
            min(float(contrasts.share[k]), 1.0),
            min(float(contrasts.shared[k]), 1.0),
        )
    return Agreement(
        by_source=own,
        p=math.nan,
        between_sd=math.nan,
        scale=kind,
        margin=math.nan,
        disagree=False,
        agreed=estimate.interval,
        new_source=None,
        shared=min(contrasts.all_shared, 1.0),
    )


def _leave_out(
    plain: SourceSpread,
    linked: SourceSpread,
    tests: tuple[SourceSpread, SourceSpread],
    names: list[str],
    margin: float,
) -> tuple[WithoutSource, ...]:
    """Compare the others without each source in turn."""
    if len(names) < 3:
        return ()
    rows = []
    for j, name in enumerate(names):
        value, stderr = plain.without(j).mean()
        rows.append(
            WithoutSource(
                name,
                value,
                stderr,
                tests[0].without(j).p_value(),
                linked.without(j).tau,
                _exceeds(tests[1].without(j), margin),
            )
        )
    return tuple(rows)
