"""Weights for several targets, the worst case over them, and what hangs on the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from unskew.debiasing.pool_weights import debias
from unskew.debiasing.target_difference import difference_of_means
from unskew.debiasing.unused_masses import check_unused, ignores_masses
from unskew.engine.arguments import OpenShare, ShareAboveZero, checked
from unskew.errors import (
    ConfigError,
    CoverageError,
    OverlapError,
    UnskewError,
    did_you_mean,
    first_few,
)
from unskew.records import Estimate, Pool, Target, Weights
from unskew.records.arrays import Randomness, seed_of
from unskew.solve.options import SolverOptions, shows_options
from unskew.weigh.sampling_units import check_order, check_values

if TYPE_CHECKING:
    import pandas as pd

    from unskew.bias.base import Bias

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class MeansByTarget:
    """A mean on each of several targets, from the same images.

    Attributes
    ----------
    estimates : the mean with its error, by name of the target.
    lowest, highest : names of the targets with the smallest and the largest mean.
    difference : the mean of ``highest`` minus that of ``lowest``. Its error knows that both are of
        the same images; its interval holds for all pairs of targets together (Bonferroni).
    """

    estimates: Mapping[str, Estimate]
    lowest: str
    highest: str
    difference: Estimate

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest of the means: the worst case, whichever end that is."""
        return self.estimates[self.lowest].value, self.estimates[self.highest].value

    @property
    def interval(self) -> tuple[float, float]:
        """From the lowest to the highest end of all intervals: it holds whatever the target is."""
        ends = [estimate.interval for estimate in self.estimates.values()]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @property
    def hangs_on_target(self) -> bool:
        """Whether the mean moves between targets by more than sampling error explains."""
        low, high = self.difference.interval
        return low > 0.0 or high < 0.0

    def __repr__(self) -> str:
        lines = [f"  {name}: {estimate}" for name, estimate in self.estimates.items()]
        low, high = self.range
        verdict = "hangs on" if self.hangs_on_target else "does not visibly hang on"
        return "\n".join(
            [
                f"MeansByTarget, from {low:.4g} ({self.lowest}) to {high:.4g} ({self.highest}):",
                *lines,
                f"  difference {self.difference}: it {verdict} the choice of target",
            ]
        )


@checked
@dataclass(frozen=True, eq=False, repr=False)
class WeightsByTarget:
    """The weights of one pool for each of several targets.

    Attributes
    ----------
    weights : by name of the target; each as `unskew.debias` gives it for that target alone.
    """

    weights: Mapping[str, Weights]

    def __repr__(self) -> str:
        lines = [
            f"  {name}: effective number of images {weights.ess:.1f}, overlap "
            f"{weights.overlap.verdict}"
            for name, weights in self.weights.items()
        ]
        n = next(iter(self.weights.values())).weight.size
        return "\n".join([f"Weights of {n} images for {len(lines)} targets", *lines])

    @property
    def names(self) -> tuple[str, ...]:
        """The targets, in the order in which they were given."""
        return tuple(self.weights)

    def mean(self, values: npt.ArrayLike, *, level: OpenShare = 0.95) -> MeansByTarget:
        """Estimate the mean Σ_i π_i h_i on every target, and by how much it moves between them.

        Of right (1) and wrong (0) answers of a model it is its accuracy, and ``range[0]`` the worst
        accuracy over the targets.

        Parameters
        ----------
        values : (n,) h_i, finite, in the order of ``weights.id``.
        level : coverage of the intervals.
        """
        value_n = self._read_values(values, level)
        estimates = {
            name: weights.mean(value_n, level=level) for name, weights in self.weights.items()
        }
        return compare_means(self.weights, estimates, value_n, level)

    def difference(
        self, first: str, second: str, values: npt.ArrayLike, *, level: OpenShare = 0.95
    ) -> Estimate:
        """Estimate the mean on the target ``first`` minus that on ``second``.

        Its error knows that both are of the same images.
        """
        value_n = self._read_values(values, level)
        one, other = (
            (weights, weights.mean(value_n, level=level))
            for weights in (self._named(first), self._named(second))
        )
        return difference_of_means(one, other, value_n, level)

    def _read_values(self, values: npt.ArrayLike, level: float) -> npt.NDArray[np.float64]:
        some = next(iter(self.weights.values()))
        check_order(values, some)
        return check_values(values, some.weight.size)

    def _named(self, name: str) -> Weights:
        if name not in self.weights:
            raise ConfigError(
                f"there is no target {name!r}; there are {first_few(self.names)}."
                f"{did_you_mean(name, self.names)}",
                value=name,
                allowed=list(self.names),
            )
        return self.weights[name]

    def distance(self, first: str, second: str) -> float:
        """Compute the total variation ½ Σ_i |π_i − π'_i| between the weights of two targets.

        0: the same weights; 1: no image counts for both.
        """
        return total_variation(self._named(first), self._named(second))

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each image: id, and its weight for every target."""
        import pandas as pd

        some = next(iter(self.weights.values()))
        columns = {name: weights.weight for name, weights in self.weights.items()}
        return pd.DataFrame(columns, index=pd.Index(some.id, name="id")).reset_index()


def total_variation(first: Weights, second: Weights) -> float:
    """Compute ½ Σ_i |π_i − π'_i| of weights of the same images."""
    return min(0.5 * float(np.abs(first.weight - second.weight).sum()), 1.0)


def compare_means(
    weights: Mapping[str, Weights],
    estimates: Mapping[str, Estimate],
    value_n: npt.NDArray[np.float64],
    level: float = 0.95,
) -> MeansByTarget:
    """Find the targets with the smallest and the largest mean, and the difference of the two."""
    # Ties go to the name, so that the order of the targets has no say.
    lowest = min(estimates, key=lambda name: (estimates[name].value, name))
    highest = max(estimates, key=lambda name: (estimates[name].value, name))
    pairs = max(len(estimates) * (len(estimates) - 1) // 2, 1)
    difference = difference_of_means(
        (weights[highest], estimates[highest]),
        (weights[lowest], estimates[lowest]),
        value_n,
        1.0 - (1.0 - level) / pairs,
    )
    return MeansByTarget(dict(estimates), lowest, highest, difference)


@checked
@shows_options(SolverOptions)
def debias_targets(
    pool: Pool,
    bias: Bias,
    targets: Mapping[str, Target],
    *,
    rng: Randomness = 0,
    max_uncovered: ShareAboveZero = 0.2,
    check_sample: bool = True,
    **options: Unpack[SolverOptions],
) -> WeightsByTarget:
    """Weigh the pool to each of several targets, as `unskew.debias` does to one.

    The weights of every target are those of ``debias(pool, bias, target)``, whatever the other
    targets are. A bias model that does not depend on the target (`Known`, `Subpopulation`, `Box`
    and `SoftBox` without `Strata`) is fitted once; all others are fitted for every target.

    Parameters
    ----------
    pool, bias : as for `unskew.debias`.
    targets : by name.
    rng, max_uncovered, check_sample : as for `unskew.debias`; every target gets the same seed.
    **options

    Raises
    ------
    OverlapError, CoverageError : some targets are not identifiable. All are tried; the error names
        those (``error.facts["targets"]``), and is about the first of them.

    Examples
    --------
    >>> import unskew
    >>> pool = unskew.Pool.from_arrays(["a", "a", "a", "b"], label=["cat", "cat", "dog", "dog"])
    >>> targets = {
    ...     "city": unskew.Target.margins({"label": {"cat": 0.8, "dog": 0.2}}),
    ...     "farm": unskew.Target.margins({"label": {"cat": 0.4, "dog": 0.6}}),
    ... }
    >>> by_target = unskew.debias_targets(pool, unskew.bias.Strata("label"), targets)
    >>> by_target.weights["farm"].weight.round(12).tolist()
    [0.2, 0.2, 0.3, 0.3]
    >>> round(by_target.distance("city", "farm"), 12)
    0.4
    """
    from unskew.sources.part_pool import PartPool

    _check_targets(targets)
    if isinstance(pool, PartPool):
        raise ConfigError(
            "a pool over parts is weighed to one target after the other, debias(pool, bias, "
            "target): weights of several are compared image by image, in memory. To compare them, "
            "take pool.sample(n).",
            option="pool",
            count=len(pool),
        )
    settings: dict[str, Any] = {"max_uncovered": max_uncovered, "check_sample": check_sample}
    settings |= {"rng": seed_of(rng), **options}
    weights, refused = weigh_each(
        targets,
        lambda target: debias(pool, bias, target, **settings),
        lambda known, target: retarget(pool, bias, known, target),
        bias,
    )
    if refused:
        raise first_refusal(refused, len(targets))
    return WeightsByTarget(weights)


def _check_targets(targets: Mapping[str, Target]) -> None:
    if not targets or not all(targets):
        raise ConfigError(
            "targets are given by name, such as {'city': Target.margins(…), 'farm': "
            f"Target.sample(…)}}; got {targets!r:.200}.",
            option="targets",
        )


def retarget(pool: Pool, bias: Bias, known: Weights, target: Target) -> Weights:
    """Return the weights of a model that does not depend on the target, for another target."""
    check_unused(pool, bias, target)
    assert known.estimation is not None
    fitted = replace(known.estimation.fitted, target=target)
    return replace(known, estimation=replace(known.estimation, fitted=fitted))


def weigh_each(
    targets: Mapping[str, Target],
    weigh: Callable[[Target], T],
    reuse: Callable[[T, Target], T],
    bias: Bias,
) -> tuple[dict[str, T], dict[str, OverlapError | CoverageError]]:
    """Weigh to every target; ``reuse`` the result where the bias model does not depend on it."""
    weighed: dict[str, T] = {}
    refused: dict[str, OverlapError | CoverageError] = {}
    shared: T | None = None
    for name, target in targets.items():
        try:
            if ignores_masses(bias, target):
                shared = weigh(target) if shared is None else reuse(shared, target)
                weighed[name] = shared
            else:
                weighed[name] = weigh(target)
        except (OverlapError, CoverageError) as error:
            refused[name] = error
        except UnskewError as error:
            error.args = (f"in the target {name!r}: {error}", *error.args[1:])
            raise
    return weighed, refused


def first_refusal(
    refused: Mapping[str, OverlapError | CoverageError], count: int
) -> OverlapError | CoverageError:
    """Return the first error, its message beginning with the targets that are refused."""
    names = list(refused)
    error = refused[names[0]]
    if count > 1:
        shown = first_few([repr(name) for name in names])
        verb = "is" if len(names) == 1 else "are"
        error.args = (
            f"of {count} targets {shown} {verb} not identifiable. {names[0]}: {error}",
            *error.args[1:],
        )
    error.facts["targets"] = names
    return error
