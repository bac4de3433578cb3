"""The range of a target mean over a set of margins: exactly, by a linear programme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from unskew.debiasing.pool_weights import debias
from unskew.debiasing.target_difference import difference_of_means
from unskew.engine.arguments import NotNegative, OpenShare, checked
from unskew.errors import ConfigError, CoverageError, first_few
from unskew.records import Bools, Estimate, Floats, Pool, Target, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.solve.options import SolverOptions, shows_options
from unskew.target.facts import Distribution
from unskew.target.margin_set import level_names, name_bounds, only_fact, read_margin_set
from unskew.weigh.sampling_units import check_values

if TYPE_CHECKING:
    from unskew.bias.base import Bias


@dataclass(frozen=True, eq=False, repr=False)
class MeanOverMargins:
    """The range of a target mean when the target's margin is anywhere in a set.

    Attributes
    ----------
    low, high : the smallest and the largest mean over the set, with their standard errors.
    centre : the mean at the target that was given.
    difference : high − low, with the error of a difference on the same images.
    lowest, highest : the margins at which they are reached, {level: mass}.
    bounds : the set, {level: (smallest mass, largest mass)}.
    """

    low: Estimate
    high: Estimate
    centre: Estimate
    difference: Estimate
    lowest: Mapping[str, float]
    highest: Mapping[str, float]
    bounds: Mapping[str, tuple[float, float]]

    @property
    def interval(self) -> tuple[float, float]:
        """From the lower end at ``lowest`` to the upper end at ``highest``.

        It holds at least as often as the intervals of means do, wherever the margin is in the set.
        """
        return self.low.interval[0], self.high.interval[1]

    def __repr__(self) -> str:
        def shown(margin: Mapping[str, float]) -> str:
            return first_few([f"{level} {mass:.3g}" for level, mass in margin.items()])

        return (
            f"MeanOverMargins: {self.low.value:.4g} to {self.high.value:.4g}, with sampling error "
            f"{self.interval[0]:.4g} to {self.interval[1]:.4g}\n  lowest: {self.low} at "
            f"{shown(self.lowest)}\n  highest: {self.high} at {shown(self.highest)}\n  at the "
            f"target that was given: {self.centre}"
        )


@checked
@shows_options(SolverOptions)
def bound_over_margins(
    pool: Pool,
    bias: Bias,
    target: Target,
    values: npt.ArrayLike,
    *,
    within: NotNegative | Mapping[Any, NotNegative | tuple[float, float]] | None = None,
    level: OpenShare = 0.95,
    rng: Randomness = 0,
    **options: Unpack[SolverOptions],
) -> MeanOverMargins:
    """Bound a target mean when the target's margin is known up to a set only.

    With a `Strata` part the mean is Σ_c p_c m_c/Σ_c p_c over the strata c with images, m_c the
    weighted mean within stratum c, which does not depend on p. Its smallest and largest value over
    all p with low_c ≤ p_c ≤ high_c, Σ_c p_c = 1, is a linear-fractional programme, solved exactly
    (Charnes & Cooper 1962); it is linear where every stratum has images. At each end the pool is
    weighed again, for the standard error there.

    Parameters
    ----------
    pool, bias : as for `unskew.debias`; the model needs a `Strata` part.
    target : one margin, or one joint table; its ``n`` or ``stderr`` is not used at the ends,
        because the set takes their place.
    values : (n,) h_i, finite, in the order of the pool.
    within : how far every mass may be from that of the target (0.05: ±0.05, within 0 and 1); or for
        single levels, by name, such a distance or their smallest and largest mass. Levels that are
        not named keep their mass. Of a joint table a level is written ``"old × f"``. Default: that
        of the target.
    level : coverage of the intervals.
    rng : as for `unskew.debias`.
    **options

    Examples
    --------
    >>> import unskew
    >>> pool = unskew.Pool.from_arrays(["a", "a", "a", "b"], label=["cat", "cat", "dog", "dog"])
    >>> target = unskew.Target.margins({"label": {"cat": 0.8, "dog": 0.2}})
    >>> bounds = unskew.bound_over_margins(
    ...     pool, unskew.bias.Strata("label"), target, [1, 1, 0, 0], within=0.05
    ... )
    >>> round(bounds.low.value, 12), round(bounds.high.value, 12)
    (0.75, 0.85)
    """
    if within is not None:
        target = replace(target, within=name_bounds(only_fact(target), within))
    value_n = check_values(values, len(pool))
    bounded = bound_outcomes(pool, bias, target, {"": value_n}, level=level, rng=rng, **options)
    return bounded.means[""]


@dataclass(frozen=True, eq=False)
class BoundedMeans:
    """Several means over one set of margins, and the weights at their ends.

    ``weights``: by the margin, a tuple of masses; ``means``: by outcome.
    """

    weights: Mapping[tuple[float, ...], Weights]
    means: Mapping[str, MeanOverMargins]


def bound_outcomes(
    pool: Pool,
    bias: Bias,
    target: Target,
    values: Mapping[str, Floats],
    *,
    level: float = 0.95,
    rng: Randomness = 0,
    **options: Unpack[SolverOptions],
) -> BoundedMeans:
    """Bound the mean of every outcome over the set of the target, as `bound_over_margins` does."""
    seed, fact = seed_of(rng), only_fact(target)
    if not target.within:
        raise ConfigError(
            "within says how far the masses of the target may be from those given, such as 0.05.",
            option="within",
        )
    low_c, high_c = read_margin_set(fact, target.within)
    weights: dict[tuple[float, ...], Weights] = {}

    def weigh(mass_c: Floats) -> Weights:
        margin = tuple(mass_c.tolist())
        if margin not in weights:
            weights[margin] = debias(pool, bias, _at(target, fact, mass_c), rng=seed, **options)
        return weights[margin]

    inside = weigh(_inner_point(low_c, high_c))
    at_centre = debias(pool, bias, target, rng=seed, **options)
    names, means = level_names(fact), {}
    for name, value_n in values.items():
        mean_c, covered_c = _stratum_means(inside, fact, value_n)
        _check_covered(target, fact, high_c, covered_c)
        ends = [_extreme(sign * mean_c, covered_c, low_c, high_c) for sign in (1.0, -1.0)]
        low, high = ((weigh(mass_c), weigh(mass_c).mean(value_n, level=level)) for mass_c in ends)
        margins = [dict(zip(names, mass_c.tolist(), strict=True)) for mass_c in ends]
        means[name] = MeanOverMargins(
            low[1],
            high[1],
            at_centre.mean(value_n, level=level),
            difference_of_means(high, low, value_n, level),
            margins[0],
            margins[1],
            target.within,
        )
    return BoundedMeans(weights, means)


def _inner_point(low_c: Floats, high_c: Floats) -> Floats:
    """Return the margin at the same fraction of the way from low to high in every level."""
    room = float((high_c - low_c).sum())
    share = (1.0 - float(low_c.sum())) / room if room > 0.0 else 0.0
    mass_c = low_c + np.clip(share, 0.0, 1.0) * (high_c - low_c)
    return np.asarray(mass_c / mass_c.sum())


def _at(target: Target, fact: Distribution, mass_c: Floats) -> Target:
    """Return the same target with other masses, taken as exact."""
    exact = Distribution(fact.by, fact.cells, tuple(mass_c.tolist()))
    return replace(target, facts=(exact,))


def _stratum_means(weights: Weights, fact: Distribution, value_n: Floats) -> tuple[Floats, Bools]:
    """Return (C,) the weighted mean in every level of the margin, and which have images."""
    assert weights.estimation is not None
    fitted = weights.estimation.fitted.strata
    if fitted is None or fitted.target.by != fact.by:
        raise ConfigError(
            "a set of margins needs a bias model with Strata over the same attributes, "
            f"Strata({list(fact.by)}): the weights of others do not follow the margin.",
            option="bias",
            columns=list(fact.by),
        )
    strata = fitted.target
    index = {cell: at for at, cell in enumerate(fact.cells)}
    level_c = np.array([index.get(cell, -1) for cell in strata.strata])
    level_n = np.where(strata.code >= 0, level_c[strata.code], -1)
    kept_n = (level_n >= 0) & (weights.weight > 0)
    size = len(fact.cells)
    mass_l = np.bincount(level_n[kept_n], weights.weight[kept_n], size)
    total_l = np.bincount(level_n[kept_n], (weights.weight * value_n)[kept_n], size)
    return np.divide(total_l, mass_l, out=np.zeros(size), where=mass_l > 0), mass_l > 0


def _check_covered(target: Target, fact: Distribution, high_c: Floats, covered_c: Bools) -> None:
    """Refuse mass that the set allows where no source has images, unless it may be restricted."""
    empty = [level_names(fact)[at] for at in np.flatnonzero(~covered_c & (high_c > 0))]
    if empty and target.uncovered != "restrict":
        raise CoverageError(
            f"the set allows {fact.name} = {first_few(empty)} a mass, but no source has images of "
            "it. Collect some, or pass uncovered='restrict' to the target.",
            levels=empty,
        )


def _extreme(cost_c: Floats, covered_c: Bools, low_c: Floats, high_c: Floats) -> Floats:
    """Return the margin p in the set that minimises Σ_covered p_c cost_c/Σ_covered p_c.

    With y = t p and t = 1/Σ_covered p_c it is a linear programme in (y, t): Σ_covered y_c = 1,
    Σ y_c = t, low_c t ≤ y_c ≤ high_c t.
    """
    import scipy.optimize

    size = cost_c.size
    used_c = covered_c.astype(np.float64)
    bounds_rows = np.vstack(
        [np.column_stack([np.eye(size), -high_c]), np.column_stack([-np.eye(size), low_c])]
    )
    sums = np.vstack([np.append(used_c, 0.0), np.append(np.ones(size), -1.0)])
    solved = scipy.optimize.linprog(
        np.append(np.where(covered_c, cost_c, 0.0), 0.0),
        A_ub=bounds_rows,
        b_ub=np.zeros(2 * size),
        A_eq=sums,
        b_eq=[1.0, 0.0],
        bounds=(0.0, None),
        method="highs",
    )
    if solved.x is None:
        raise CoverageError("no margin in the set has mass where a source has images.")
    mass_c = np.clip(solved.x[:-1] / solved.x[-1], low_c, high_c)
    return np.asarray(mass_c / mass_c.sum())
