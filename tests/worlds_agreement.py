"""Sources that measure alike or differently, with known truth: for tests and for
``benchmarks/honest_errors.py --part agreement``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulation_measures import binomial_error
from simulations import DataSet, Rng, make_pool, make_sample
from unskew.bias import Known, Strata, Tilt
from unskew.records import Estimate, Target

SPREADS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)
SHARES = np.array([0.3, 0.45, 0.25])


@dataclass(frozen=True, eq=False)
class DifferingSources(DataSet):
    """A data set whose ``truth`` is the target mean without the sources' differences.

    ``another`` is the target mean as one more source would measure it.
    """

    another: float = 0.0


World = Callable[[Rng, int, float], DifferingSources]


def _names(n_sources: int) -> tuple[str, ...]:
    return tuple(f"source {k}" for k in range(n_sources))


def strata_shares(rng: Rng, n_sources: int, spread: float) -> DifferingSources:
    """A share; three strata, 250 images a source, spread on the logit scale."""
    n = 250
    source = np.repeat(np.arange(n_sources), n)
    mix = rng.dirichlet([8.0, 8.0, 8.0], size=n_sources)
    level = np.concatenate([rng.choice(3, n, p=row) for row in mix])
    # A source of 250 images knows its logit to about 0.14.
    delta = rng.normal(0.0, spread * 0.14, size=n_sources + 1)
    base = np.array([-0.9, -0.2, 0.6])
    value = (rng.random(source.size) < _expit(base[level] + delta[source])).astype(float)
    target = Target.margins({"shade": dict(zip("abc", SHARES.tolist(), strict=True))})
    pool = make_pool(source, _names(n_sources), shade=np.array(list("abc"), dtype=object)[level])
    truth, another = (float(SHARES @ _expit(base + shift)) for shift in (0.0, delta[-1]))
    return DifferingSources(pool, Strata("shade"), target, value, truth, another)


def known_numbers(rng: Rng, n_sources: int, spread: float) -> DifferingSources:
    """A number; known exponential tilts, sources of 150 to 300 images."""
    size = rng.integers(150, 301, size=n_sources)
    tilt = rng.uniform(-0.6, 0.6, size=n_sources)
    source = np.repeat(np.arange(n_sources), size)
    x = rng.normal(tilt[source], 1.0)
    delta = rng.normal(0.0, spread * 0.11, size=n_sources + 1)
    value = 0.8 * x + rng.normal(0.0, 1.2, size=x.size) + delta[source]
    pool = make_pool(source, _names(n_sources), x=x)
    omega = np.exp(x[:, None] * tilt)
    return DifferingSources(pool, Known(omega), None, value, 0.0, float(delta[-1]))


def tilt_groups(rng: Rng, n_sources: int, spread: float) -> DifferingSources:
    """A number; tilts fitted to a sample of the target, groups of three images."""
    groups = 80
    source = np.repeat(np.arange(n_sources), 3 * groups)
    group = np.repeat(np.arange(n_sources * groups), 3)
    tilt = np.linspace(-0.6, 0.6, n_sources)
    x = np.repeat(rng.normal(tilt[source[::3]], 1.0), 3)
    delta = rng.normal(0.0, spread * 0.12, size=n_sources + 1)
    noise = rng.normal(size=n_sources * groups)[group] + 0.6 * rng.normal(size=x.size)
    value = 0.5 * x + noise + delta[source]
    pool = make_pool(source, _names(n_sources), x=x, group=group)
    sample = make_sample(400, x=rng.normal(size=400))
    return DifferingSources(pool, Tilt(["x"]), sample, value, 0.0, float(delta[-1]))


def rare_share(rng: Rng, n_sources: int, spread: float) -> DifferingSources:
    """A share of 3%; two strata, 400 images a source, one of which sees one stratum only."""
    n = 400
    source = np.repeat(np.arange(n_sources), n)
    level = (rng.random(source.size) < 0.5).astype(int)
    level[source == 0] = 0
    delta = rng.normal(0.0, spread * 0.3, size=n_sources + 1)
    base = np.array([-3.6, -3.2])
    value = (rng.random(source.size) < _expit(base[level] + delta[source])).astype(float)
    target = Target.margins({"shade": {"a": 0.5, "b": 0.5}})
    pool = make_pool(source, _names(n_sources), shade=np.array(list("ab"), dtype=object)[level])
    truth, another = (float(_expit(base + shift).mean()) for shift in (0.0, delta[-1]))
    return DifferingSources(pool, Strata("shade"), target, value, truth, another)


def tiny_numbers(rng: Rng, n_sources: int, spread: float) -> DifferingSources:
    """A number; two strata, one source of 100 images, the others of 3 to 9."""
    size = np.append(100, rng.integers(3, 10, size=n_sources - 1))
    source = np.repeat(np.arange(n_sources), size)
    level = (rng.random(source.size) < 0.4).astype(int)
    delta = rng.normal(0.0, spread * 0.45, size=n_sources + 1)
    value = level + rng.normal(size=source.size) + delta[source]
    target = Target.margins({"shade": {"a": 0.5, "b": 0.5}})
    pool = make_pool(source, _names(n_sources), shade=np.array(list("ab"), dtype=object)[level])
    return DifferingSources(pool, Strata("shade"), target, value, 0.5, 0.5 + float(delta[-1]))


WORLDS: tuple[World, ...] = (strata_shares, known_numbers, tilt_groups, rare_share, tiny_numbers)


def _expit(value: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-value))


@dataclass(frozen=True)
class Measured:
    """Shares of data sets: rejected at 5%, headline switched, intervals that hold their truth."""

    rejected: float
    switched: float
    agreed: float
    new_source: float
    headline: float


def measure(world: World, n_sources: int, spread: float, n_sets: int, seed: int) -> Measured:
    """Count over many data sets what the comparison of sources says.

    ``agreed`` counts against the mean without differences, ``new_source`` and ``headline`` against
    what another source would measure.
    """
    count = np.zeros(5)
    for rng in np.random.default_rng(seed).spawn(n_sets):
        data = world(rng, n_sources, spread)
        estimate = data.debias().mean(data.value)
        count += (
            estimate.agreement_p < 0.05,
            estimate.sources_disagree,
            _holds(estimate.agreed, data.truth),
            estimate.new_source is not None and _holds(estimate.new_source, data.another),
            _holds(estimate.interval, data.another),
        )
    return Measured(*(count / n_sets).tolist())


def _holds(interval: tuple[float, float], truth: float) -> bool:
    return interval[0] <= truth <= interval[1]


def agreement_rows(options: Any) -> Iterator[str]:
    """Print level, switching curve and coverage; 1,000 data sets where the spread is 0."""
    yield (
        "| world | sources | spread | sets | rejected at 5% | headline switched | "
        "agreed holds the mean | new source held | headline holds a new source |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for world in WORLDS:
        if options.only and world.__name__ not in options.only:
            continue
        for n_sources in (2, 3, 5, 10):
            for spread in SPREADS:
                n_sets = max(min(options.sets, 1000 if spread == 0.0 else 300), 1)
                result = measure(world, n_sources, spread, n_sets, 2026)
                shown = " | ".join(
                    f"{share:.1%} ± {binomial_error(share, n_sets):.1%}"
                    for share in (result.rejected, result.switched, result.agreed)
                )
                new = "cannot say" if n_sources == 2 else f"{result.new_source:.1%}"
                yield (
                    f"| `{world.__name__}` | {n_sources} | {spread:g} | {n_sets} | {shown} | "
                    f"{new} | {result.headline:.1%} |"
                )


def mean_in_world(world: World, n_sources: int, spread: float, seed: int) -> Estimate:
    data = world(np.random.default_rng(seed), n_sources, spread)
    return data.debias().mean(data.value)
