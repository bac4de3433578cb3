"""Cap the largest weights: less variance for some bias, with an account of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.arguments import Numbers, OneOrMore, checked
from unskew.errors import ConfigError, ConvergenceError, DataError, wrong_option
from unskew.records import Floats, Weights
from unskew.records.clustered_mean import effective_size
from unskew.weigh.calibrate import read_weight
from unskew.weigh.sampling_units import check_values
from unskew.weigh.uncertainty import weighted_mean

# Caps that at="mse" tries, evenly spaced in the logarithm from the mean to the largest weight.
_N_CANDIDATES = 41


@dataclass(frozen=True)
class MeanShift:
    """How far trimming moves one target mean.

    before, after : the weighted mean with the weights as they were and with the trimmed ones.
    difference : after − before.
    stderr : standard error of ``before``, None where it is not available (plain numbers instead of
        weights).
    difference_in_stderr : difference/stderr, None where stderr is.
    known : the mean that the target is known to have, None if it was not given.
    """

    before: float
    after: float
    difference: float
    stderr: float | None
    difference_in_stderr: float | None
    known: float | None


@dataclass(frozen=True, eq=False)
class Trimming:
    """Weights that nowhere exceed the cap, and what it took.

    Attributes
    ----------
    weight : (n,) min(cap, s π_i), sums to 1; s ≥ 1 hands the removed mass to the images below the
        cap in proportion to their weights.
    cap : the largest weight allowed.
    at : n cap, the cap as a multiple of the mean weight.
    n_trimmed : images at the cap.
    trimmed_by_source : the same by source, None where plain numbers were given instead of weights.
    moved : Σ_i max(π_i − p_i, 0), the share of the weight that was taken away and handed on.
    ess_before, ess_after : Kish's effective number of images; trimming never lowers it.
    means : how far each of the means moved.
    """

    weight: Floats = field(repr=False)
    cap: float
    at: float
    n_trimmed: int
    trimmed_by_source: Mapping[str, int] | None
    moved: float
    ess_before: float
    ess_after: float
    means: Mapping[str, MeanShift]

    @property
    def sample_weight(self) -> Floats:
        """(n,) n p_i: mean 1, at most ``at``."""
        return self.weight * self.weight.size


@checked
def trim_weights(
    weights: Weights | Numbers,
    *,
    at: OneOrMore | str | None = None,
    quantile: float | None = None,
    means: Mapping[str, Any] | None = None,
) -> Trimming:
    """Cap the weights at p_i = min(cap, s π_i), with s such that they sum to 1.

    So the cap holds after renormalising. Order is preserved. A cap above the largest weight changes
    nothing; a cap at the mean makes all (positive) weights equal.

    Parameters
    ----------
    weights : the weights, or (n,) numbers proportional to them.
    at : cap as a multiple of the mean weight 1/n, at least 1; or "mse": the cap with the smallest
        expected squared error of ``means`` (relative to their variance without trimming, added up;
        after Potter 1990). It lowers the error where the largest weights have little to do with the
        values (to 0.9 of it with heavy tails), and raises it by some percent where they have
        (docs/few-images.md).
    quantile : cap as a quantile of the weights, at most 1. Exactly one of ``at`` and ``quantile``
        must be given.
    means : for each name (n,) values, or (values, known mean): how far trimming moves them is
        reported.

    Raises
    ------
    ConfigError : a cap below the mean weight, which no weights that sum to 1 can keep.

    Examples
    --------
    >>> result = trim_weights([1, 1, 2, 6], at=1.6)
    >>> result.sample_weight.round(6).tolist(), result.n_trimmed
    ([0.6, 0.6, 1.2, 1.6], 1)
    """
    weight_n = read_weight(weights)
    values = {name: _read_mean(entry, weight_n.size) for name, entry in (means or {}).items()}
    cap = _choose_cap(weight_n, at, quantile, [value_n for value_n, _ in values.values()])
    after_n, trimmed_n = cap_weights(weight_n, cap)
    return Trimming(
        weight=after_n,
        cap=cap,
        at=cap * weight_n.size,
        n_trimmed=int(trimmed_n.sum()),
        trimmed_by_source=_count_by_source(weights, trimmed_n)
        if isinstance(weights, Weights)
        else None,
        moved=float(np.maximum(weight_n - after_n, 0.0).sum()),
        ess_before=effective_size(weight_n),
        ess_after=effective_size(after_n),
        means={
            name: _shift(weights, weight_n, after_n, value_n, known)
            for name, (value_n, known) in values.items()
        },
    )


def cap_weights(weight_n: Floats, cap: float) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return (n,) min(cap, s π) with sum 1, and which images are at the cap.

    With the m largest at the cap the others are multiplied by s_m = (1 − m cap)/(their sum); the
    answer is the smallest m for which the largest of them then stays below the cap.
    """
    n_positive = int(np.count_nonzero(weight_n))
    if cap * n_positive < 1.0 - 1e-12:
        raise ConfigError(
            f"weights that sum to 1 cannot all be at most {cap:.6g}: {n_positive} images have a "
            f"positive weight, so the cap must be at least {1 / n_positive:.6g}, that is at = "
            f"{weight_n.size / n_positive:.6g} times the mean weight. Trim less.",
            option="at",
            value=cap,
            limit=1 / n_positive,
            count=n_positive,
        )
    if weight_n.max() <= cap:
        return weight_n.copy(), np.zeros(weight_n.size, dtype=np.bool_)
    order = np.argsort(-weight_n, kind="stable")[:n_positive]
    sorted_n = weight_n[order]
    rest_n = np.cumsum(sorted_n[::-1])[::-1]
    left_n = 1.0 - cap * np.arange(n_positive)
    fits = np.flatnonzero(left_n * sorted_n <= cap * rest_n)
    m = max(int(fits[0]), 1) if fits.size else n_positive
    # Equal weights stay equal: where rounding puts the border among them, all are at the cap.
    m = int(np.searchsorted(-sorted_n, -sorted_n[m - 1], side="right"))
    after_n, trimmed_n = np.zeros(weight_n.size), np.zeros(weight_n.size, dtype=np.bool_)
    trimmed_n[order[:m]] = True
    after_n[order[:m]] = cap
    if m < n_positive:
        after_n[order[m:]] = np.minimum(sorted_n[m:] * (left_n[m] / rest_n[m]), cap)
    return after_n, trimmed_n


def _choose_cap(
    weight_n: Floats, at: float | str | None, quantile: float | None, values: list[Floats]
) -> float:
    if (at is None) == (quantile is None):
        raise ConfigError(
            "say where to trim by exactly one of at (a multiple of the mean weight, or 'mse') and "
            "quantile.",
            option="at",
        )
    if quantile is not None:
        if not 0.0 <= quantile <= 1.0:
            raise wrong_option("quantile is between 0 and 1", quantile=quantile)
        return float(np.quantile(weight_n, quantile))
    if at == "mse":
        if not values:
            raise ConfigError(
                "at='mse' weighs the bias of known means against their variance: pass means.",
                option="means",
            )
        return _best_cap(weight_n, values)
    if isinstance(at, str) or at is None or not at >= 1.0:
        raise wrong_option(
            "at is the cap as a multiple of the mean weight, at least 1 (weights cannot all be "
            "below their mean), or 'mse'",
            at=at,
        )
    # An infinite multiple is no cap at all.
    return min(float(at) / weight_n.size, 1.0)


def _best_cap(weight_n: Floats, values: list[Floats]) -> float:
    """Choose the candidate with the smallest Σ_h MSE(h)/Var(h), none trimmed included.

    With d_i = p_i (h_i − μ_p) and e_i = π_i (h_i − μ_π), the variance is Σ d_i². The bias b is seen
    as μ_p − μ_π with the noise Σ (d_i − e_i)², so its square is expected to be the sum of
    (μ_p − μ_π)² and that noise (b given what is seen, all b being alike beforehand). The unbiased
    estimate, their difference, is smallest for caps where it happens to be too small, and the best
    of many caps would be one of those. The normalizers are taken as fixed, and images as
    independent: a guide, not a standard error.
    """
    # Sorted once: sorting sorted weights again for every cap is cheap.
    order = np.argsort(-weight_n, kind="stable")
    weight_n, values = weight_n[order], [value_n[order] for value_n in values]
    caps = np.geomspace(1.0 / np.count_nonzero(weight_n), weight_n.max(), _N_CANDIDATES)
    # Rounding must not put the ends outside of what is possible, or trim the largest weight by one
    # digit.
    caps[-1] = weight_n.max()
    errors = [
        _relative_error(weight_n, cap_weights(weight_n, float(cap))[0], values) for cap in caps
    ]
    # The largest of equally good caps: trim no more than it helps.
    return float(caps[len(errors) - 1 - int(np.argmin(errors[::-1]))])


def _relative_error(weight_n: Floats, after_n: Floats, values: list[Floats]) -> float:
    total = 0.0
    for value_n in values:
        spread_n = weight_n * (value_n - weight_n @ value_n)
        trimmed_n = after_n * (value_n - after_n @ value_n)
        variance = float(spread_n @ spread_n)
        if variance > 0:
            shift = float((after_n - weight_n) @ value_n)
            bias = shift**2 + float(np.square(trimmed_n - spread_n).sum())
            total += (float(trimmed_n @ trimmed_n) + bias) / variance
    return total


def _count_by_source(weights: Weights, trimmed_n: npt.NDArray[np.bool_]) -> dict[str, int]:
    count_k = np.bincount(weights.source[trimmed_n], minlength=len(weights.names))
    return dict(zip(weights.names, count_k.tolist(), strict=True))


def _read_mean(entry: Any, n: int) -> tuple[Floats, float | None]:
    if (
        isinstance(entry, tuple)
        and len(entry) == 2
        and np.ndim(entry[0]) == 1
        and np.ndim(entry[1]) == 0
    ):
        known = float(entry[1])
        if not math.isfinite(known):
            raise DataError(
                f"a known mean must be finite; got {known}.", option="means", value=float(known)
            )
        return check_values(entry[0], n), known
    return check_values(entry, n), None


def _shift(
    weights: Weights | npt.ArrayLike,
    weight_n: Floats,
    after_n: Floats,
    value_n: Floats,
    known: float | None,
) -> MeanShift:
    before, after = float(weight_n @ value_n), float(after_n @ value_n)
    stderr = None
    if isinstance(weights, Weights) and weights.rows is not None:
        try:
            stderr = weighted_mean(weights, value_n).stderr
        except ConvergenceError:
            # The trimming is as valid without it; the overlap's verdict tells the user why there is
            # none.
            stderr = None
    in_stderr = None
    if stderr is not None:
        in_stderr = (
            (after - before) / stderr
            if stderr > 0
            else math.copysign(math.inf, after - before)
            if after != before
            else 0.0
        )
    return MeanShift(before, after, after - before, stderr, in_stderr, known)
