"""Weights drawn back towards the plain pool where they add more noise than they correct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from unskew.engine.arguments import checked
from unskew.errors import ConfigError, CoverageError, DataError, first_few
from unskew.records import Floats, Ints, Weights
from unskew.records.clustered_mean import effective_size
from unskew.target.tilting import TiltSolution, tilt_to_zero
from unskew.weigh.curvature import check_solved
from unskew.weigh.pool_comparison import MeanNoise, equal_weights, noise_beside_pool
from unskew.weigh.sampling_units import check_order, check_values

# Of its own standard deviation, what the values named before must leave of a value.
_REDUNDANT = 1e-7
# A squared distance, in units of a direction's variance, that is rounding.
_NOTHING = 1e-24
_ROUNDING = 1e-10
# Standard errors that any linear combination of the means may be moved by.
_MOST_GIVEN_UP = 1.25
# Beyond so many standard errors a direction is sure by itself, and says no more of the others.
_SURE = 3.0


@dataclass(frozen=True)
class ShrunkMean:
    """One target mean, before and after.

    pool : the mean with every image counted alike.
    before, after : the mean with the weights as they were, and with the shrunken ones.
    kept : f in [0, 1], how much of the way from the pool to the weights is kept, in that part of
        the values which the means named before do not explain; None where they explain all of it
        (or it is constant).
    apart : how many standard errors of their difference weights and pool are apart in that part;
        None likewise.
    """

    pool: float
    before: float
    after: float
    kept: float | None
    apart: float | None


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Weights between the given ones and the pool, and what it took.

    Attributes
    ----------
    weight : (n,) sums to 1; 0 where the weight was 0 before.
    moved : Σ_i max(π_i − p_i, 0), the share of the weight that was handed on.
    ess_before, ess_after : Kish's effective number of images.
    means : each of the means, before and after.
    """

    weight: Floats = field(repr=False)
    moved: float
    ess_before: float
    ess_after: float
    means: Mapping[str, ShrunkMean]

    @property
    def sample_weight(self) -> Floats:
        """(n,) n p_i: mean 1, as scikit-learn's ``sample_weight`` expects."""
        return self.weight * self.weight.size

    @property
    def kept(self) -> dict[str, float]:
        """``kept`` of every mean that is not explained by those before it."""
        return {name: mean.kept for name, mean in self.means.items() if mean.kept is not None}


@checked
def shrink_weights(weights: Weights, means: Mapping[str, npt.ArrayLike] | None = None) -> Shrinkage:
    """Keep of the debiasing what the data are sure of.

    The result is the weights nearest to π whose means minimise the estimated mean squared error.
    With few images the right weights can be worse than none: they remove a bias b of the pool and
    add noise. In every direction u_j (the values in the order given, each without its regression on
    those before it under the pool, with variance 1) the pool's mean is 0 and the weighted one δ_j =
    Σ_i π_i u_ij. Between them, f δ_j has the mean squared error

        Var(pool) + 2 f C + f² V + (1 − f)² b²,   V = Var(δ_j),   C = Cov(pool, δ_j),   b² =
        max(δ_j² − V, 0),

    which is least at f_j = (b² − C)/(b² + V), cut to [0, 1]; for C = 0 that is max(1 − V/δ_j², 0),
    Breiman's (1995) nonnegative garrote. On shrinking unbiased estimates towards biased ones see
    Green & Strawderman (1991). V and C come from the influence functions behind `Weights.mean`.

    Small biases of many directions that point one way add up in a mean that depends on all of them.
    So what is given up, d_j = (1 − f_j) δ_j, is limited together (`limit_loss`): all 1 − f_j are
    multiplied by one number so that dᵀ W⁻¹ d ≤ 1.25², W the covariance of the weighted means, and
    less where the directions together show that the pool is wrong. Hence **every linear combination
    of these means stays within 1.25 of its standard errors of the weighted one**, in every data
    set, and by the triangle inequality its root mean squared error is at most 2.25 times as large.
    Measured in the worst directions of the worst biases it is 1.3 times as large at most
    (tests/weigh/test_shrink.py), and 0.6 (one direction) to 0.8 times (twenty) where the pool is
    right.

    The weights returned are p_i ∝ π_i exp(ν·u_i) with Σ_i p_i u_ij = f_j δ_j: as near to π as that
    allows, in Kullback–Leibler divergence. As images are added f_j → 1 wherever the pool is biased,
    so the shrunken weights are consistent as the weights are. The price: means of these values are
    biased towards the pool, and no interval comes with them (`Weights.mean` has those of the
    weights themselves). A bias that is many standard errors large is corrected as before. Where a
    few images carry nearly all the weight, standard errors see too little, and so does this: look
    at ``weights.ess`` first.

    Parameters
    ----------
    weights : from `unskew.debias` or `unskew.debias_weights`.
    means : for each name (n,) finite values, such as the features that the selection depends on and
        the shares of labels. By default the features of the bias model.

    Raises
    ------
    ConfigError : no ``means``, and the bias model reads no features.
    DataError : nothing tells how much the images differ (one group in every source).
    CoverageError : no weights on these images have the means wanted: too many means for few images.
    """
    if weights.estimation is None:
        check_solved(weights)
    values = _read_values(weights, means)
    before_n, pool_n = weights.weight, equal_weights(weights)
    value_nj = np.column_stack(list(values.values()))
    direction_nj, of_value = _directions(value_nj, pool_n)
    noise = noise_beside_pool(weights, direction_nj)
    if not np.isfinite(noise.of_difference).all():
        raise DataError(
            "noise cannot be told from bias, because no standard error exists: every source has "
            "one group, or hardly a bootstrap replicate could be solved. Do not shrink.",
            option="weights",
        )
    distance_j = before_n @ direction_nj
    kept_j = limit_loss(distance_j, shrink_factors(distance_j, noise), noise)
    after_n = nearest_weights(before_n, direction_nj, kept_j * distance_j, list(values))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart_j = np.where(
            distance_j**2 <= _NOTHING, 0.0, np.abs(distance_j) / np.sqrt(noise.of_difference)
        )
    return Shrinkage(
        weight=after_n,
        moved=float(np.maximum(before_n - after_n, 0.0).sum()),
        ess_before=effective_size(before_n),
        ess_after=effective_size(after_n),
        means={
            name: ShrunkMean(
                pool=float(pool_n @ value_n),
                before=float(before_n @ value_n),
                after=float(after_n @ value_n),
                kept=None if at < 0 else float(kept_j[at]),
                apart=None if at < 0 else float(apart_j[at]),
            )
            for (name, value_n), at in zip(values.items(), of_value.tolist(), strict=True)
        },
    )


def shrink_factors(distance_j: Floats, noise: MeanNoise) -> Floats:
    """Compute (J,) f = (b² − C)/(b² + V) in [0, 1], b² = max(δ² − V, 0).

    It is 1 where there is neither bias nor noise.
    """
    variance_j, shared_j = noise.of_difference, noise.shared - noise.pooled
    bias_j = np.maximum(distance_j**2 - variance_j, 0.0)
    total_j = bias_j + variance_j
    return np.clip(
        np.divide(bias_j - shared_j, total_j, out=np.ones_like(total_j), where=total_j > _NOTHING),
        0.0,
        1.0,
    )


def limit_loss(distance_j: Floats, kept_j: Floats, noise: MeanNoise) -> Floats:
    """Return (J,) 1 − s (1 − f_j), s the largest number up to 1 with s² dᵀ W⁻¹ d ≤ κ².

    d_j = (1 − f_j) δ_j is given up, W the covariance of the weighted means: for every c the mean
    cᵀμ̂ moves by |s cᵀd| ≤ κ √(cᵀ W c), by Cauchy's inequality. κ is 1.25/√(mean_j min(x_j², 9)),
    1.25 at most, x_j = δ_j without its regression on the δ before it in units of the standard
    deviation left: 1 on average where the pool is right, more where biases too small to be seen one
    by one are many.
    """
    given_j = (1.0 - kept_j) * distance_j
    if not given_j.any():
        return kept_j
    evidence_j = np.minimum(_innovations(distance_j, noise.difference_jj) ** 2, _SURE**2)
    limit = _MOST_GIVEN_UP / max(1.0, float(np.sqrt(evidence_j.mean())))
    size = float(np.linalg.norm(_innovations(given_j, noise.weighted_jj)))
    return np.asarray(1.0 - min(1.0, limit / size) * (1.0 - kept_j))


def _innovations(value_j: Floats, covariance_jj: Floats) -> Floats:
    """(J,) L⁻¹ v, L Lᵀ the covariance, so that its squares sum to vᵀ Cov⁻¹ v."""
    deviation_j = np.sqrt(np.diag(covariance_jj))
    fixed_j = deviation_j**2 <= _NOTHING
    scale_j = np.where(fixed_j, 1.0, deviation_j)
    correlation_jj = np.where(
        fixed_j[:, None] | fixed_j, 0.0, covariance_jj / np.outer(scale_j, scale_j)
    )
    # More directions than units, or rounding: no variance is left, and a little keeps L regular.
    correlation_jj[np.diag_indices_from(correlation_jj)] = 1.0 + _ROUNDING
    sure_j = np.where(value_j**2 <= _NOTHING, 0.0, np.copysign(np.inf, value_j))
    found_j = scipy.linalg.solve_triangular(
        np.linalg.cholesky(correlation_jj), np.where(fixed_j, 0.0, value_j / scale_j), lower=True
    )
    return np.where(fixed_j, sure_j, found_j)


def _read_values(weights: Weights, means: Mapping[str, npt.ArrayLike] | None) -> dict[str, Floats]:
    if means is None:
        means = {} if weights.estimation is None else weights.estimation.feature_values()
        if not means:
            raise ConfigError(
                "name the means that count, shrink_weights(weights, means={'brightness': values, "
                "…}): the weights come from numbers, or from a bias model that reads no features.",
                option="means",
            )
    if not means:
        raise ConfigError(
            "means is empty: name at least one, such as {'brightness': pool.frame['brightness']}.",
            option="means",
        )
    for values in means.values():
        check_order(values, weights)
    return {name: check_values(values, weights.weight.size) for name, values in means.items()}


def _directions(value_nj: Floats, pool_n: Floats) -> tuple[Floats, Ints]:
    """Return (n, D) u, mean 0, variance 1 and uncorrelated under the pool, and whose they are."""
    directions: list[Floats] = []
    of_value = np.full(value_nj.shape[1], -1)
    weighed_n = pool_n > 0
    first = int(np.argmax(weighed_n))
    for at, value_n in enumerate(value_nj.T):
        # Relative to the largest, so that squares neither overflow nor vanish, and from one of
        # them, so that rounding makes no variation of a constant; images without weight have no
        # say.
        scaled_n = np.where(
            weighed_n, value_n / (float(np.abs(value_n[weighed_n]).max()) or 1.0), 0.0
        )
        rest_n = np.where(weighed_n, scaled_n - scaled_n[first], 0.0)
        largest = float(np.abs(rest_n).max())
        if largest == 0.0:
            continue
        rest_n = rest_n / largest
        rest_n = np.where(weighed_n, rest_n - pool_n @ rest_n, 0.0)
        rest_n = rest_n / np.sqrt(pool_n @ rest_n**2)
        # Twice: rounding in the first pass leaves a little of what was taken out.
        for _ in range(2):
            for other_n in directions:
                rest_n = rest_n - (pool_n @ (other_n * rest_n)) * other_n
        left = float(np.sqrt(pool_n @ rest_n**2))
        if left > _REDUNDANT:
            of_value[at] = len(directions)
            directions.append(rest_n / left)
    return np.column_stack(directions) if directions else np.empty((value_nj.shape[0], 0)), of_value


def nearest_weights(
    weight_n: Floats, direction_nj: Floats, wanted_j: Floats, names: list[str]
) -> Floats:
    """Find (n,) the weights nearest to ``weight_n`` with means ``wanted_j`` of the directions."""
    kept_n = weight_n > 0
    gap_cj = direction_nj[kept_n] - wanted_j
    if not gap_cj.shape[1]:
        return weight_n.copy()
    tilt: Any = tilt_to_zero(weight_n[kept_n], gap_cj / np.abs(gap_cj).max(axis=0))
    if not isinstance(tilt, TiltSolution):
        raise CoverageError(
            f"no weights on these {int(np.count_nonzero(kept_n))} images have the shrunken means "
            f"of {first_few(names)} together. Name fewer means.",
            columns=names,
            count=int(np.count_nonzero(kept_n)),
        )
    after_n = np.zeros(weight_n.size)
    after_n[kept_n] = tilt.probability
    return after_n
