"""How often intervals hold the truth, and how often a test of fit rejects: over many small data
sets of one recipe.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import unskew
from simulations import DataSet, Recipe
from unskew.errors import UnskewWarning
from unskew.records import Estimate
from unskew.weigh.estimated_omega import estimated_mean


@dataclass(frozen=True)
class Coverage:
    """Share of the data sets whose interval holds the truth, bias and spread of the estimates, and
    the mean of their standard errors.
    """

    share: float
    n_sets: int
    bias: float
    spread: float
    stderr: float

    @property
    def error(self) -> float:
        """Binomial standard error of the share."""
        return binomial_error(self.share, self.n_sets)


def binomial_error(share: float, n: int) -> float:
    return math.sqrt(share * (1 - share) / n)


def draw_sets(recipe: Recipe, n_sets: int, seed: int) -> Iterator[DataSet]:
    for at in range(n_sets):
        yield recipe(np.random.default_rng([seed, at]))


def mean_of(data: DataSet) -> Estimate:
    """The interval of ``weights.mean``."""
    return data.debias().mean(data.value)


def bootstrap_of(data: DataSet, n: int = 200) -> Estimate:
    """The percentile interval of a bootstrap that refits the model."""
    return data.debias().bootstrap(n, 0, data.value).estimate()


def mean_of_chosen_edges(data: DataSet) -> Estimate:
    """The errors of fitted soft boxes as if the choice of finite edges had been known
    beforehand.
    """
    return estimated_mean(data.debias().estimation.rows, data.value, 0.95)


def mean_as_if_known(data: DataSet) -> Estimate:
    """The trap: the fitted ω taken for the truth."""
    omega = data.debias().estimation.fitted.omega(data.pool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        return unskew.debias_weights(omega, data.pool.source, names=data.pool.names).mean(
            data.value
        )


def measure_coverage(
    recipe: Recipe, n_sets: int, seed: int, estimate: Callable[[DataSet], Estimate] = mean_of
) -> Coverage:
    results = []
    for data in draw_sets(recipe, n_sets, seed):
        result = estimate(data)
        low, high = result.interval
        results.append((low <= data.truth <= high, result.value - data.truth, result.stderr))
    hit, error, stderr = np.array(results).T
    return Coverage(
        float(hit.mean()), n_sets, float(error.mean()), float(error.std()), float(stderr.mean())
    )


def fit_p_values(
    recipe: Recipe, n_sets: int, seed: int, features: Sequence[str] | None = None, raw: bool = False
) -> np.ndarray:
    """(n_sets,) p-values of `check_fit`; ``raw``: of the weights that `debias_weights` makes of the
    model's ω.
    """
    results = []
    for data in draw_sets(recipe, n_sets, seed):
        weights = data.debias()
        if raw:
            group = data.pool.frame.get("group")
            weights = unskew.debias_weights(
                data.bias.omega, data.pool.source, names=data.pool.names, group=group
            )
        results.append(
            unskew.check_fit(
                data.pool,
                None if raw else data.bias,
                weights=weights,
                features=features,
                replicates=199,
            ).p_value
        )
    return np.array(results)
