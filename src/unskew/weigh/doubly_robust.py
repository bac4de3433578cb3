"""Target means augmented by an outcome model: right if the weights or the model are right.

With π the weights, h the values, m the predictions of an outcome model and T̂ the target's mean of
the predictions,

    μ̂_λ = Σ_i π_i h_i + λ D,   D = T̂ − Σ_i π_i m_i.

D estimates 0 where the weights are right, whatever λ. Two values of λ matter:

- λ_v = −Cov(Σπh, D)/Var(D) has the smallest variance (the power tuning of PPI++, Angelopoulos,
  Duchi & Zrnic 2023). It is kept between 0 and β: where the weights balance what is predicted
  anyway, D hardly varies, and λ_v would follow its noise.
- β, the slope of the weighted regression of h on m. Where the model is right β estimates 1, and
  μ̂_β is right whatever the weights: the generalised regression estimator (Särndal, Swensson &
  Wretman 1992), which for β = 1 is the augmented inverse probability weighted one.

They agree where T̂ is known well. Elsewhere λ_v removes only a part of the bias of wrong weights,
and β costs variance if the weights are right. So λ = λ_v + g (β − λ_v), where g rises from 0 to 1
as |D| exceeds what its standard error explains. Where that rise begins is chosen so that, with
right weights, it adds at most `PREMIUM` to the variance. Large samples with wrong weights have
g = 1. Before that the interval counts what may be left, (β − λ) D, in the same way: with right
weights this adds at most `DOUBT` to the squared standard error on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from unskew.errors import ConfigError
from unskew.records import Estimate, Floats, Ints, RobustEstimate, Target
from unskew.weigh.margin_regression import mean_by_margins, regress_on_margins
from unskew.weigh.sampling_units import check_order, check_values, find_units
from unskew.weigh.target_predictions import (
    TargetMean,
    freedom_of,
    read_target_predictions,
    scaled,
    with_error,
)
from unskew.weigh.uncertainty import weighted_mean
from unskew.weigh.unit_spread import unit_spreads

if TYPE_CHECKING:
    from unskew.debiasing.outcome_model import OutcomePredictions
    from unskew.records import Weights

CROSS_FIT = "cross-fit"
# What double robustness may add to the variance if the weights are right, relative to it.
PREMIUM = 0.01
# What the bias that may be left adds to the square of the standard error, likewise.
DOUBT = 0.1
# g rises from 0 at c standard errors to 1 at this many times c.
_RAMP = 1.25
# Predictions that vary less than this, relative to their size, are constant.
_CONSTANT = 1e-12


def doubly_robust_mean(
    weights: Weights,
    values: npt.ArrayLike,
    predicted: Any,
    target_predicted: Any = None,
    level: float = 0.95,
) -> RobustEstimate:
    """Estimate the target mean μ̂_λ = Σ π h + λ (T̂ − Σ π m) with its standard error.

    Facts: predictions may be replaced by a + b m (b ≠ 0) on both sides without any change; constant
    predictions change nothing; predictions that equal the values give T̂.

    The variance is that of the influence function of Σ π (h − λ m) + λ T̂, over the units of the
    pool and of the target's images. Where these took part in the fit of ω, their covariance with
    the weights is included. If g > 0, the error of β counts: β̂ D moves by D m̃_i e_i π_i, with m̃
    the standardised predictions and e the residuals of the regression. The error of λ_v is of
    second order.

    The parameters are those of `Weights.mean`.
    """
    check_order(values, weights)
    values = check_values(values, weights.weight.size)
    if isinstance(target_predicted, Target):
        return _by_margins(weights, values, predicted, target_predicted, level)
    if predicted is None:
        raise ConfigError(
            "target_predicted is given without predicted: pass the same model's predictions for "
            "the images of the pool, too.",
            option="predicted",
        )
    if isinstance(predicted, str) or hasattr(predicted, "fit"):
        predicted = _cross_fitted(weights, values, predicted, target_predicted)
    model_stderr, folds = 0.0, 0
    if hasattr(predicted, "target_predicted"):
        model_stderr, folds = predicted.model_stderr, predicted.folds
        predicted, target_predicted = predicted.predicted, predicted.target_predicted
    check_order(predicted, weights, "predicted")
    predicted_n = check_values(predicted, weights.weight.size, "predicted")
    target = read_target_predictions(weights, predicted_n, target_predicted)
    if model_stderr > 0.0:
        target = with_error(target, model_stderr, folds - 1.0)
    return _augment(weights, values, predicted_n, target, level)


def _by_margins(
    weights: Weights, value_n: Floats, predicted: Any, target: Target, level: float
) -> RobustEstimate:
    """Augment by predictions whose mean on the target follows from known shares."""
    if predicted is None:
        regressed = regress_on_margins(weights, value_n, target)
        predicted_n, mean = (np.zeros(value_n.size), None) if regressed is None else regressed
    else:
        predicted_n = check_values(predicted, value_n.size, "predicted")
        mean = mean_by_margins(weights, predicted_n, target)
    if mean is None:
        # The weights hold these shares: the predictions have the same mean on both sides.
        predicted_n, mean = np.zeros(value_n.size), TargetMean(0.0)
    return _augment(weights, value_n, predicted_n, mean, level)


def _augment(
    weights: Weights, value_n: Floats, predicted_n: Floats, target: TargetMean, level: float
) -> RobustEstimate:
    return augment_mean(
        weights.weight,
        value_n,
        predicted_n,
        target,
        find_units(weights).unit_n,
        lambda value_n: weighted_mean(weights, value_n, level),
        lambda value_nj, row_r: unit_spreads(weights, value_nj, row_r),
    )


def augment_mean(
    weight_n: Floats,
    value_n: Floats,
    predicted_n: Floats,
    target: TargetMean,
    unit_n: Ints,
    mean_of: Callable[[Floats], Estimate],
    spreads_of: Callable[[Floats, Floats | None], tuple[Floats, Floats]],
) -> RobustEstimate:
    """Augment the mean Σ π h: `doubly_robust_mean` for weights of any kind.

    ``mean_of`` estimates the mean of (n,) values, and its error; ``spreads_of`` says what each unit
    adds to means, as `unit_spreads` does.
    """
    plain = mean_of(value_n)
    mean = float(weight_n @ predicted_n)
    deviation_n = predicted_n - mean
    scale = math.sqrt(float(weight_n @ deviation_n**2))
    size = float(np.abs(predicted_n[weight_n > 0]).max())
    residual_n = value_n - plain.value
    # The residuals' size, so that no threshold depends on the unit of the values.
    reach = float(np.abs(residual_n[weight_n > 0]).max())
    if scale <= _CONSTANT * size or reach == 0.0 or not math.isfinite(plain.stderr):
        return RobustEstimate(
            plain.value,
            plain.stderr,
            plain.interval,
            plain.level,
            weighted=plain,
            shift=target.value - mean,
        )
    predicted_n, target = deviation_n / scale, scaled(target, mean, scale)
    slope = float(weight_n @ (predicted_n * residual_n))
    spread_uj, row_u = spreads_of(np.column_stack([residual_n, predicted_n]), target.row_r)
    value_u, pull_u, target_u = _joined(spread_uj, row_u, target)
    tuning = _tune(value_u / reach, target_u - pull_u, slope / reach, target.value)
    factor = reach * tuning.factor
    # The influence function of Σ π (h − λ m) + g D β̂. Units that carry the regression count by what
    # it would be without them (HC3 of MacKinnon & White 1985).
    leverage_u = np.bincount(unit_n, weight_n * (1.0 + predicted_n**2))
    error_n = (residual_n - slope * predicted_n) / (1.0 - np.minimum(leverage_u, 0.5))[unit_n]
    moved_n = (
        residual_n - factor * predicted_n + tuning.share * target.value * predicted_n * error_n
    )
    pool = mean_of(moved_n)
    moved_u = _joined(*spreads_of(moved_n[:, None], target.row_r), target)[0]
    unseen = max(pool.stderr**2 - float(moved_u @ moved_u), 0.0)
    total_u = moved_u + factor * target_u
    stderr = math.sqrt(float(total_u @ total_u) + unseen + (reach * tuning.left) ** 2)
    freedom = _freedom(pool, factor**2 * float(target_u @ target_u), target.freedom)
    value = plain.value + factor * target.value
    half_width = stderr * float(scipy.special.stdtrit(freedom, 0.5 + plain.level / 2))
    return RobustEstimate(
        value,
        stderr,
        (value - half_width, value + half_width),
        plain.level,
        weighted=plain,
        tuning=factor / scale,
        slope=slope / scale,
        shift=target.value * scale,
        shift_p=tuning.shift_p,
    )


def _cross_fitted(
    weights: Weights, value_n: Floats, learner: Any, target_predicted: Any
) -> OutcomePredictions:
    """Predict the values of the pool and of the target's images from the bias model's features."""
    if isinstance(learner, str) and learner != CROSS_FIT:
        raise ConfigError(
            f"predicted is one number per image, {CROSS_FIT!r}, or a scikit-learn estimator; got "
            f"the text {learner!r}.",
            option="predicted",
            value=learner,
        )
    if target_predicted is not None:
        raise ConfigError(
            "an outcome model that is trained here also predicts the target's images: leave "
            "target_predicted out, or pass predictions for both.",
            option="target_predicted",
        )
    if weights.estimation is None:
        raise ConfigError(
            "an outcome model is trained on the features of a pool, and these weights came from "
            "numbers. Compute them with unskew.debias(pool, bias, Target.sample(…)), or pass "
            "predicted and target_predicted.",
            option="predicted",
        )
    return weights.estimation.predict_outcome(
        weights, value_n, None if isinstance(learner, str) else learner
    )


class _Tuning(NamedTuple):
    """λ, the part g of it that is β, the bias (β − λ) D that counts, and the p-value of D = 0."""

    factor: float
    share: float
    left: float
    shift_p: float


def _joined(spread_uj: Floats, row_u: Floats, target: TargetMean) -> tuple[Floats, ...]:
    """Put the target's other units under those of the pool: (U,) each column, then T̂'s own."""
    nothing_u = np.zeros(target.other_u.size)
    columns = [np.concatenate([column_u, nothing_u]) for column_u in spread_uj.T]
    return *columns, np.concatenate([row_u, target.other_u])


def _freedom(pool: Estimate, target_variance: float, target_freedom: float) -> float:
    """Combine the degrees of freedom of both parts as Welch and Satterthwaite do; at most 10⁶."""
    largest = max(pool.stderr**2, target_variance)
    if largest == 0.0:
        return 1e6
    # Relative to the largest, so that squares neither overflow nor vanish.
    variance_s = np.array([pool.stderr**2, target_variance]) / largest
    freedom_s = np.minimum([freedom_of(pool), target_freedom], 1e6)
    return float(variance_s.sum() ** 2 / (variance_s**2 / freedom_s).sum())


def _tune(value_u: Floats, shift_u: Floats, slope: float, shift: float) -> _Tuning:
    """Choose λ from what the units add to Σ π h and to D."""
    variance = float(shift_u @ shift_u)
    # Relative to predictions of variance 1: D cannot vary, and rounding is no variation.
    if variance <= 1e-24:
        is_off = abs(shift) > 1e-9
        return _Tuning(slope, float(is_off), 0.0, 0.0 if is_off else 1.0)
    low, high = sorted((0.0, slope))
    tuned = float(np.clip(_smallest_variance(value_u, shift_u, variance), low, high))
    z = abs(shift) / math.sqrt(variance)
    shift_p = 2.0 * float(scipy.special.ndtr(-z))
    rest_u = value_u + tuned * shift_u
    price = (slope - tuned) ** 2 * variance
    allowed = float(rest_u @ rest_u)
    share = _ramp(z, PREMIUM * allowed, price)
    factor = tuned + share * (slope - tuned)
    left = _ramp(z, DOUBT * allowed, price) * (slope - factor) * shift
    return _Tuning(factor, share, left, shift_p)


def _ramp(z: float, allowed: float, price: float) -> float:
    """Return g(z) whose cost for a standard normal z, price × E[z² g²], is ``allowed``."""
    if price <= allowed:
        return 1.0
    return float(np.clip((z / _begin_of_ramp(allowed / price) - 1.0) / (_RAMP - 1.0), 0.0, 1.0))


def _smallest_variance(value_u: Floats, shift_u: Floats, variance: float) -> float:
    """λ_v = −Σ_u v_u d_u/Σ_u d_u², times 1 − 2 (its standard error/λ_v)², or 0 if that is negative.

    The factor (in the manner of James and Stein) keeps predictions that say little from adding
    their noise.
    """
    factor = -float(value_u @ shift_u) / variance
    error = float(np.linalg.norm(shift_u * (value_u + factor * shift_u))) / variance
    if factor**2 <= 2.0 * error**2:
        return 0.0
    return factor * (1.0 - 2.0 * (error / factor) ** 2)


def _begin_of_ramp(share: float) -> float:
    """Find c with E[z² g(z)²] = ``share`` for a standard normal z, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _cost(middle) > share else (low, middle)
    return max(high, 1e-6)


_NODE, _NODE_WEIGHT = np.polynomial.legendre.leggauss(32)


def _cost(begin: float) -> float:
    """E[z² g(z)²]: g rises linearly from 0 at ``begin`` to 1 at `_RAMP` times that."""
    end, half = _RAMP * begin, (_RAMP - 1.0) * begin / 2
    z = begin + half * (1.0 + _NODE)
    rise = z**2 * ((1.0 + _NODE) / 2) ** 2 * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    tail = end * math.exp(-(end**2) / 2) / math.sqrt(2 * math.pi) + scipy.special.ndtr(-end)
    return 2.0 * float(half * (_NODE_WEIGHT @ rise) + tail)
