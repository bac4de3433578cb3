"""One target weight for every image: debiasing × design weights, calibrated to known moments."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import ConfigError, DataError, did_you_mean, first_few
from unskew.estimators.pool_from_xy import ONE_SOURCE, GivenImages, pool_images
from unskew.records import Estimate, Floats, Pool, Target, Weights
from unskew.weigh.uncertainty import weighted_mean

if TYPE_CHECKING:
    from unskew.bias.base import Bias
    from unskew.weigh.calibrate import Calibration

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TargetWeights:
    """Weights p_i = g_i π_i: debiasing × design weights, calibrated to known moments.

    Attributes
    ----------
    weights : π, with what its standard errors need.
    factor : (n,) g_i, such that Σ_i g_i π_i = 1; all 1 without design weights and moments.
    calibration : the account of the calibration; None without moments.
    moment : (n, m) the values whose means are known; m = 0 without moments.
    design : the sum of ``sample_weight`` is n times this: the mean of the design weights d (without
        bias and target Σ_i π_i d_i); 1 without them.
    """

    weights: Weights
    factor: Floats = field(repr=False)
    calibration: Calibration | None
    moment: Floats = field(repr=False)
    design: float = 1.0

    @property
    def weight(self) -> Floats:
        """(n,) p_i, sum 1."""
        return self.factor * self.weights.weight

    @property
    def sample_weight(self) -> Floats:
        """(n,) what a model learns from: n π_i, which contains design weights, times their mean.

        One source without moments passes them on unchanged.
        """
        return self.weight * (self.factor.size * self.design)

    def mean(self, values: Floats, level: float = 0.95) -> Estimate:
        """Estimate the target mean μ̂ = Σ_i p_i h_i with a standard error.

        A small change dπ of the debiasing weights moves the calibrated mean by Σ_i dπ_i g_i r_i,
        with the residuals r_i = h_i − μ̂ − B·(x_i − x̄) of the regression of h on the moments x
        under p. So its standard error is that of the debiased mean of g_i r_i, which accounts for
        all that went into π; and a mean that is known has none.
        """
        if np.all(self.factor == 1.0):
            return self.weights.mean(values, level=level)
        weight_n = self.weight
        mean = float(weight_n @ values)
        residual_n = values - mean
        if self.moment.shape[1]:
            root_n = np.sqrt(weight_n)
            deviation_nm = self.moment - weight_n @ self.moment
            slope_m = np.linalg.lstsq(
                root_n[:, None] * deviation_nm, root_n * residual_n, rcond=None
            )[0]
            # What rounding leaves of a mean that is known is not an error.
            explained_n = deviation_nm @ slope_m
            residual_n = np.where(
                np.abs(residual_n - explained_n) <= 1e-12 * np.abs(residual_n).max(),
                0.0,
                residual_n - explained_n,
            )
        moved = weighted_mean(self.weights, self.factor * residual_n, level)
        low, high = moved.interval
        return Estimate(
            mean, moved.stderr, (mean + low - moved.value, mean + high - moved.value), level
        )


def weigh_images(
    images: GivenImages,
    bias: Any,
    target: Target | None,
    moments: Mapping[str, Any] | None,
    *,
    max_uncovered: float = 0.2,
    seed: int = 0,
) -> TargetWeights:
    """Debias with the design weights, and calibrate to the moments: in that order.

    Without bias and target the design weights are the weights.
    """
    n = len(images)
    design_n = _design_weights(images.sample_weight, n)
    if bias is None and target is None:
        pool = pool_images(images) if moments else None
        weights, total = _as_they_are(images, pool), 1.0
    else:
        pool = pool_images(images, design_n=design_n)
        _check_columns(pool, bias, target)
        weights = _debias(pool, bias, target, max_uncovered, seed)
        # The weights contain the design weights; what is left of these is their sum.
        total, design_n = 1.0 if design_n is None else float(design_n.mean()), None
    return _calibrated(weights, design_n, total, moments, pool)


def _check_columns(pool: Pool, bias: Bias | None, target: Target | None) -> None:
    """Refuse a bias model or target that reads what is neither in X nor in ``attributes``."""
    # What is no model, such as a path, has parts of its own kind; `debias` refuses it.
    parts = getattr(bias, "parts", ())
    names = [name for part in parts for name in getattr(part, "columns", ())]
    names += [] if target is None else list(target.by)
    columns = [str(name) for name in pool.frame.columns]
    lacking = [
        name
        for name in dict.fromkeys(names)
        if not any(column == name or column.startswith(f"{name}_") for column in columns)
    ]
    if lacking:
        raise DataError(
            f"bias model and target read {first_few(lacking)}, which neither X nor y is. Pass "
            f"such columns of the images by attributes: fit(X, y, source=…, "
            f"attributes=frame[{lacking!r}]).",
            option="attributes",
            columns=lacking,
        )


def _calibrated(
    weights: Weights,
    design_n: Floats | None,
    scale: float,
    moments: Mapping[str, Any] | None,
    pool: Pool | None,
) -> TargetWeights:
    """Multiply by design weights, and calibrate to the moments."""
    n = weights.weight.size
    base_n = weights.weight if design_n is None else weights.weight * design_n
    total = float(base_n.sum())
    if not total > 0:
        raise DataError(
            "sample_weight is zero on every image that the debiasing weights keep, so nothing is "
            "left to learn from.",
            option="sample_weight",
        )
    if not moments:
        factor_n = np.ones(n) if design_n is None else design_n / total
        return TargetWeights(
            weights, factor_n, None, np.empty((n, 0)), scale if design_n is None else total
        )
    from unskew.weigh.calibrate import calibrate_weights

    assert pool is not None
    means = _read_moments(moments, pool)
    calibration = calibrate_weights(base_n, means=means)
    factor_n = np.divide(
        calibration.weight, weights.weight, out=np.zeros(n), where=weights.weight > 0
    )
    moment_nm = np.column_stack([value_n for value_n, _ in means.values()])
    return TargetWeights(
        weights, factor_n, calibration, moment_nm, scale if design_n is None else total
    )


def _debias(
    pool: Pool | None, bias: Any, target: Target | None, max_uncovered: float, seed: int
) -> Weights:
    from unskew.bias.strata import Strata
    from unskew.debiasing.pool_weights import debias

    assert pool is not None
    wanted: Any = target  # of any kind where it comes from a user
    if wanted is not None and not isinstance(wanted, Target):
        raise ConfigError(
            f"target is an unskew.Target, such as Target.margins({{…}}); got {wanted!r}.",
            option="target",
            value=repr(wanted),
        )
    if bias is None and target is not None and target.kind in ("sample", "source"):
        return _choose(pool, target, max_uncovered, seed)
    return debias(
        pool, Strata() if bias is None else bias, target, max_uncovered=max_uncovered, rng=seed
    )


def _choose(pool: Pool, target: Target, max_uncovered: float, seed: int) -> Weights:
    """Weigh by the best of the models that are proposed for images of the target.

    What was chosen, and why, is logged.
    """
    from unskew.choosing.ranking import choose_bias
    from unskew.debiasing.pool_weights import debias

    choice = choose_bias(pool, None, target, check=False, rng=seed)
    if choice.best is None:
        raise ConfigError(
            f"{choice.reason} Name a bias model, for instance bias=Tilt(features).",
            option="bias",
            value=None,
        )
    logger.info("%s", choice.reason)
    return debias(pool, choice.best, target, max_uncovered=max_uncovered, rng=seed)


def _as_they_are(images: GivenImages, pool: Pool | None) -> Weights:
    """Weight all images alike: ω ≡ 1, π_i = 1/n.

    Several sources are accepted only where moments move the weights afterwards.
    """
    from unskew.weigh.solved_weights import debias_weights

    n = len(images)
    if pool is None and images.source is None:
        names, source_n = [ONE_SOURCE], np.zeros(n, dtype=np.int64)
    else:
        bare = (
            pool
            if pool is not None
            else pool_images(GivenImages(images.X, None, images.source), features=False)
        )
        names, source_n = list(bare.names), bare.source.astype(np.int64)
        if pool is None and len(names) > 1:
            raise ConfigError(
                f"source names {len(names)} databases ({first_few(names)}), but nothing says how "
                "they are biased or which population they should represent. Give bias (for "
                "instance unskew.bias.Strata('label')), target, or both; to pool them unweighted, "
                "leave source out.",
                option="bias",
                sources=list(names),
            )
    ids = None if pool is None else np.asarray(pool.frame["id"])
    return debias_weights(
        np.ones((n, len(names))), source_n, group=images.group, names=names, id=ids
    )


def _design_weights(sample_weight: Any, n: int) -> Floats | None:
    if sample_weight is None:
        return None
    design_n = np.asarray(sample_weight, dtype=np.float64)
    if design_n.shape != (n,):
        raise DataError(
            f"sample_weight has one number for each of the {n} images, in one dimension; got shape "
            f"{design_n.shape}.",
            option="sample_weight",
            limit=n,
        )
    if not np.isfinite(design_n).all() or design_n.min(initial=0.0) < 0:
        row = int(np.flatnonzero(~(np.isfinite(design_n) & (design_n >= 0)))[0])
        raise DataError(
            f"sample_weight is finite and not negative, but image {row} has {design_n[row]}.",
            option="sample_weight",
            row=row,
        )
    return design_n


def _read_moments(moments: Mapping[str, Any], pool: Pool) -> dict[str, tuple[Floats, float]]:
    """Return, for each known moment, the values of the images and their target mean.

    A standard deviation s is the mean s² of (v − mean)².
    """
    means: dict[str, tuple[Floats, float]] = {}
    whole: Any = moments  # of any kind where it comes from a user
    if not isinstance(whole, Mapping):
        raise ConfigError(
            f"moments is a table {{column: mean}} or {{column: {{'mean': …, 'sd': …}}}}; got "
            f"{whole!r}.",
            option="moments",
            value=repr(whole),
        )
    for column, known in moments.items():
        value_n = _numbers(pool, column)
        moment = dict(known) if isinstance(known, Mapping) else {"mean": known}
        numbers = all(
            isinstance(value, Real) and np.isfinite(float(value)) for value in moment.values()
        )
        if "mean" not in moment or not set(moment) <= {"mean", "sd"} or not numbers:
            raise ConfigError(
                f"a moment is a mean, or {{'mean': …, 'sd': …}}; for {column!r} it is {known!r}.",
                option="moments",
                column=column,
                value=repr(known),
            )
        if moment.get("sd", 0.0) < 0:
            raise ConfigError(
                f"sd is a standard deviation, which is not negative; for {column!r} it is "
                f"{moment['sd']!r}.",
                option="moments",
                column=column,
                value=moment["sd"],
            )
        mean = float(moment["mean"])
        means[f"{column}: mean"] = (value_n, mean)
        if "sd" in moment:
            means[f"{column}: variance"] = (np.square(value_n - mean), float(moment["sd"]) ** 2)
    return means


def _numbers(pool: Pool, column: str) -> Floats:
    if column not in pool.frame.columns:
        raise DataError(
            f"moments names {column!r}, but the images have no such column; theirs are "
            f"{first_few(list(pool.frame.columns), 12)}."
            f"{did_you_mean(column, pool.frame.columns)}",
            option="moments",
            column=column,
        )
    try:
        value_n = pool.frame[column].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"moments gives the mean of {column!r}, whose values are not numbers.",
            option="moments",
            column=column,
        ) from error
    if not np.isfinite(value_n).all():
        raise DataError(
            f"moments names {column!r}, which is missing or infinite for "
            f"{int((~np.isfinite(value_n)).sum())} images.",
            option="moments",
            column=column,
            count=int((~np.isfinite(value_n)).sum()),
        )
    return value_n


def draw_seed(random_state: Any) -> int:
    """Return an integer ``random_state``, or draw a seed from the generator that it names."""
    from sklearn.utils import check_random_state

    try:
        generator = check_random_state(random_state)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "random_state is a whole number from 0 to 2³² − 1, a numpy.random.RandomState, or "
            f"None; got {random_state!r}.",
            option="random_state",
            value=repr(random_state),
        ) from error
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(generator.randint(2**31 - 1))
