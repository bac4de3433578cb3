"""Right bias models whose rehearsal must not object, and classes with few images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import unskew
from simulation_measures import binomial_error
from unskew.errors import UnskewWarning
from unskew.forecasting.record import share_mean
from unskew.records.clustered_mean import plain_mean

Rehearsed = tuple[unskew.Pool, Any]


def rehearsed_classes(rng: np.random.Generator, n_sources: int, n: int) -> Rehearsed:
    """Three Gaussian classes; sources that differ in their mix of them."""
    centre = np.array([[1.0, 0], [-0.5, 0.9], [-0.5, -0.9]])
    mix = rng.dirichlet(np.full(3, 3.0), n_sources)
    label = np.concatenate([rng.choice(3, n, p=share) for share in mix])
    X = centre[label] + 0.8 * rng.normal(size=(label.size, 2))
    source = np.repeat([f"s{k}" for k in range(n_sources)], n)
    return unskew.Pool.from_arrays(source, label=label, x=X), unskew.bias.Strata("label")


def rehearsed_tilts(rng: np.random.Generator, n_sources: int, n: int) -> Rehearsed:
    """Gaussian features shifted by source; a rule for the label that bends."""
    shift = rng.normal(size=(n_sources, 2)) * 0.5
    X = np.concatenate([rng.normal(size=(n, 2)) + at for at in shift])
    bent = X[:, 0] + X[:, 1] * (1 - 0.3 * X[:, 1]) + 0.5 * rng.normal(size=len(X))
    source = np.repeat([f"s{k}" for k in range(n_sources)], n)
    return unskew.Pool.from_arrays(source, label=(bent > 0) * 1, x=X), unskew.bias.Tilt(["x"])


def share_objected(
    recipe: Callable[..., Rehearsed], n_sources: int, n: int, n_sets: int, seed: int
) -> float:
    """How often a rehearsal says that a right model does not transfer, or in part."""
    count = 0
    for at in range(n_sets):
        pool, bias = recipe(np.random.default_rng([seed, n_sources, at]), n_sources, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            rehearsal = unskew.rehearse(pool, bias, features=["x"], folds=3, progress=False)
        count += rehearsal.verdict in ("transfers in part", "does not transfer")
    return count / n_sets


def share_coverage(share: float, kind: str, n_sets: int, seed: int, images: int = 30) -> Any:
    """How often the intervals of `share_mean` and of `plain_mean` hold the true share."""
    rng, held = np.random.default_rng(seed), np.zeros(2)
    for _ in range(n_sets):
        unit_n, chance = np.arange(images), share
        if kind == "groups of three":
            unit_n = np.arange(images) // 3
            chance = rng.beta(4 * share, 4 * (1 - share), images)[unit_n]
        value_n = (rng.random(images) < chance) * 1.0
        weight_n = rng.gamma(1.0, size=images) if kind == "unequal weights" else np.ones(images)
        for at, mean in enumerate((share_mean, plain_mean)):
            low, high = mean(weight_n / weight_n.sum(), value_n, unit_n).interval
            held[at] += low <= share <= high
    return held / n_sets


def rows(n_sets: int, seed: int) -> Iterator[str]:
    """Print both tables."""
    yield "| sources | model | sets | right model objected to |"
    yield "|---|---|---|---|"
    for recipe, name in ((rehearsed_classes, "Strata"), (rehearsed_tilts, "Tilt")):
        for n_sources, n in ((2, 300), (4, 300), (8, 200)):
            share = share_objected(recipe, n_sources, n, n_sets, seed)
            yield (
                f"| {n_sources} of {n} images | {name} | {n_sets:,} | {share:.1%} ± "
                f"{binomial_error(share, n_sets):.1%} |"
            )
    yield ""
    yield "| share of a class, 30 images | data | Korn and Graubard | Student |"
    yield "|---|---|---|---|"
    for share in (0.5, 0.9, 0.98):
        for kind in ("independent", "unequal weights", "groups of three"):
            new, old = share_coverage(share, kind, 2000, seed)
            yield f"| {share:g} | {kind} | {new:.1%} | {old:.1%} |"
