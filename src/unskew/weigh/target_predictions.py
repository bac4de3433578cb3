"""The target's mean of an outcome model's predictions, and what it rests on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from unskew.errors import ConfigError, DataError
from unskew.records import Estimate, Floats, Ints
from unskew.records.arrays import refuse_entries
from unskew.records.design_weights import raw_design
from unskew.splits.folds import unit_or_row
from unskew.weigh.effective_size import add_by_unit

if TYPE_CHECKING:
    import pandas as pd

    from unskew.debiasing.estimation import Estimation
    from unskew.records import Weights

_WAY_OUT = (
    "Pass target_predicted: the predictions for the images of the target's sample, or for other "
    "images drawn from the target; or one number, the known mean of the prediction on the target."
)


@dataclass(frozen=True, eq=False)
class TargetMean:
    """The target's mean of the predictions, T̂.

    value : T̂.
    row_r : (R,) what the rows of the fit add to it, t_j/M for images of the target, else 0; None
        where T̂ rests on none of them.
    other_u : what other independent units add to its error; their squares add up to its variance.
    freedom : degrees of freedom of the error.
    """

    value: float
    row_r: Floats | None = field(repr=False, default=None)
    other_u: Floats = field(repr=False, default_factory=lambda: np.zeros(0))
    freedom: float = math.inf


def read_target_predictions(weights: Weights, predicted_n: Floats, given: Any) -> TargetMean:
    """Read ``target_predicted``; without it, the target must be a source of the pool."""
    if given is None:
        return _mean_of_source(weights.estimation, predicted_n)
    if isinstance(given, Estimate):
        return TargetMean(given.value, None, np.array([given.stderr]), freedom_of(given))
    check_index(given)
    target_m = np.asarray(given)
    if target_m.dtype.kind not in "biuf" or target_m.ndim > 1 or target_m.size == 0:
        raise DataError(
            "target_predicted is one number for each image of the target, in one dimension, or "
            f"their known mean; got an array of type {target_m.dtype} and shape {target_m.shape}.",
            option="target_predicted",
            value=list(target_m.shape),
        )
    target_m = target_m.astype(np.float64)
    flat_m = np.atleast_1d(target_m)
    way_out = " Predict it, or leave that image out."
    refuse_entries(~np.isfinite(flat_m), flat_m, "target_predicted", "finite", way_out)
    if target_m.ndim == 0:
        return TargetMean(float(target_m))
    if target_m.size == 1:
        raise DataError(
            "target_predicted is an array with one entry: the mean of one image has no error bar. "
            "Pass a plain number if it is the target's known mean.",
            option="target_predicted",
            count=1,
        )
    return _mean_of_images(weights.estimation, target_m)


def check_index(given: Any) -> None:
    """Refuse a table where one column is meant."""
    if hasattr(given, "columns"):
        raise DataError(
            "target_predicted is one column of numbers; got a table. Choose a column.",
            option="target_predicted",
        )


def freedom_of(estimate: Estimate) -> float:
    """Find the degrees of freedom of Student's t that an interval is as wide as; ∞ for Gauss's."""
    half_width = (estimate.agreed[1] - estimate.agreed[0]) / 2
    if not 0.0 < estimate.stderr < math.inf or not math.isfinite(half_width):
        return math.inf
    quantile, upper = half_width / estimate.stderr, 0.5 + estimate.level / 2
    # Beyond this many the quantiles agree to three digits.
    if quantile <= scipy.special.stdtrit(1e4, upper):
        return math.inf
    return float(scipy.special.stdtridf(upper, quantile))


def _mean_of_source(estimation: Estimation | None, predicted_n: Floats) -> TargetMean:
    """Average over the source of the pool that is the target."""
    if estimation is None or estimation.fitted.data.sample is not None:
        raise ConfigError(
            f"predicted needs the target's mean of the predictions. {_WAY_OUT}",
            option="target_predicted",
        )
    fitted = estimation.fitted
    is_reference_r = fitted.is_reference_r
    if not is_reference_r.any():
        raise ConfigError(
            "predicted needs the target's mean of the predictions, and this target has no images: "
            f"shares of strata do not tell it. {_WAY_OUT} With margins alone pass "
            "target_predicted=Target.margins(…) and no predicted: the generalised regression "
            "estimator.",
            option="target_predicted",
        )
    reference = int(fitted.data.source[is_reference_r][0])
    at = np.flatnonzero(estimation.pool.source == reference)
    row_of_image = np.full(len(estimation.pool), -1, dtype=np.int64)
    row_of_image[fitted.row] = np.arange(fitted.row.size)
    return _gathered(estimation, predicted_n[at], row_of_image[at], estimation.pool.frame.iloc[at])


def _mean_of_images(estimation: Estimation | None, target_m: Floats) -> TargetMean:
    """Average over the target's sample where there are as many numbers, else over other images."""
    sample = None if estimation is None else getattr(estimation.fitted.target, "reference", None)
    if sample is None or isinstance(sample, str) or len(sample) != target_m.size:
        mean = float(target_m.mean())
        scale = math.sqrt(target_m.size * (target_m.size - 1.0))
        return TargetMean(mean, None, (target_m - mean) / scale, target_m.size - 1.0)
    assert estimation is not None
    data, judge = estimation.fitted.data, estimation.fitted.judge
    row_of_id = dict(
        zip(data.frame["id"].iloc[data.n_pool :], range(data.n_pool, len(data.frame)), strict=True)
    )
    judging = set() if judge is None else set(judge["id"])
    ids = sample.frame["id"]
    # Images that the fit left out (uncovered strata) are no part of what the weights represent.
    kept = np.flatnonzero([name in row_of_id or name in judging for name in ids])
    row_m = np.array([row_of_id.get(name, -1) for name in ids.iloc[kept]], dtype=np.int64)
    return _gathered(estimation, target_m[kept], row_m, sample.frame.iloc[kept])


def _gathered(
    estimation: Estimation, target_m: Floats, row_m: Ints, frame: pd.DataFrame
) -> TargetMean:
    """Average images of the target; ``row_m`` is their row in the fit, −1 for held-out ones."""
    # Scaling within the target does not matter: only ratios of design weights do.
    count_m = raw_design(frame)
    share_m = count_m / count_m.sum()
    mean = float(share_m @ target_m)
    unit_m = unit_or_row(frame)
    row_r = np.zeros(estimation.rows.weight.size)
    is_row_m = row_m >= 0
    row_r[row_m[is_row_m]] = share_m[is_row_m] * target_m[is_row_m]
    held_u = add_by_unit(unit_m, np.where(is_row_m, 0.0, share_m * (target_m - mean)))
    n_units = held_u.size
    if n_units < 2:
        raise DataError(
            "the images of the target are one group: they do not show how much the mean of the "
            "predictions may vary. Pass more groups.",
            option="target_predicted",
            count=n_units,
        )
    return TargetMean(mean, row_r, held_u[held_u != 0.0], n_units - 1.0)


def scaled(target: TargetMean, centre: float, scale: float) -> TargetMean:
    """Return T̂ of (m − ``centre``)/``scale``."""
    return TargetMean(
        (target.value - centre) / scale,
        None if target.row_r is None else target.row_r / scale,
        target.other_u / scale,
        target.freedom,
    )


def with_error(target: TargetMean, stderr: float, freedom: float) -> TargetMean:
    """Add an independent error to T̂, with degrees of freedom of its own (Satterthwaite)."""
    variance = float(target.other_u @ target.other_u)
    if target.row_r is not None:
        row_m = target.row_r[target.row_r != 0.0]
        variance += row_m.size * float(row_m.var())
    total = variance + stderr**2
    squares = variance**2 / target.freedom + stderr**4 / freedom
    return TargetMean(
        target.value,
        target.row_r,
        np.append(target.other_u, stderr),
        total**2 / squares if squares > 0.0 else math.inf,
    )
