"""Worlds that verdicts are measured in: some where nothing can be estimated, some where a source is
small and everything can.

A verdict is right if "ok" with an interval that misses the truth is rare in every world, and "ok"
is frequent where intervals hold what they promise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import simulations as recipes
import worlds_design
from simulation_measures import binomial_error, draw_sets
from simulations import DataSet, Recipe, Rng, make_pool, make_sample
from unskew.bias import Known, Propensity, Strata, Tilt
from unskew.records import Target

# ---- a part of the target is hardly ever drawn


def _power(rng: Rng, n: int, *powers: float) -> DataSet:
    """Sources with ω = x^power on [0, 1], a uniform target; the value is x."""
    source = np.repeat(np.arange(len(powers)), n)
    power = np.array(powers)
    x = rng.random(source.size) ** (1 / (power[source] + 1))
    return DataSet(make_pool(source, x=x), Known(x[:, None] ** power), None, x, 0.5)


def _shifted(rng: Rng, n: int, *shifts: float, noise: float = 0.0) -> DataSet:
    """Gaussian sources ``shifts`` standard deviations off the target, ω known."""
    shift, source = np.array(shifts), np.repeat(np.arange(len(shifts)), n)
    x = rng.normal(shift[source], 1.0)
    value = x + noise * rng.normal(size=x.size)
    pool = make_pool(source, ("a", "b", "c", "d", "e"), x=x)
    return DataSet(pool, Known(np.exp(x[:, None] * shift)), None, value, 0.0)


def power_two(rng: Rng) -> DataSet:
    """One source of 400 images with ω = x² on [0, 1]."""
    return _power(rng, 400, 2)


def power_four(rng: Rng) -> DataSet:
    """One source of 400 images with ω = x⁴ on [0, 1]."""
    return _power(rng, 400, 4)


def power_one_large(rng: Rng) -> DataSet:
    """One source of 4,000 images with ω = x^1.5: a variance that is infinite."""
    return _power(rng, 4000, 1.5)


def shifted_two(rng: Rng) -> DataSet:
    """One Gaussian source of 400 images, 2 standard deviations off."""
    return _shifted(rng, 400, 2.0)


def shifted_large(rng: Rng) -> DataSet:
    """One Gaussian source of 4,000 images, 2 standard deviations off."""
    return _shifted(rng, 4000, 2.0)


def shifted_five(rng: Rng) -> DataSet:
    """Five Gaussian sources of 100 images, 1.5 to 2 standard deviations off."""
    return _shifted(rng, 100, 1.5, 1.6, 1.7, 1.8, 2.0)


def shifted_groups(rng: Rng) -> DataSet:
    """A Gaussian source of 100 groups of five images, 1.5 standard deviations off."""
    x = np.repeat(rng.normal(1.5, 1.0, 100), 5)
    pool = make_pool(np.zeros(500, dtype=np.int64), x=x, group=np.repeat(np.arange(100), 5))
    return DataSet(pool, Known(np.exp(1.5 * x)[:, None]), None, x, 0.0)


def avoided(rng: Rng) -> DataSet:
    """Two sources of 400 images that both avoid small x: ω = x² and x³."""
    return _power(rng, 400, 2, 3)


def avoided_step(rng: Rng) -> DataSet:
    """Two sources of 1,000 images with ω = 0.02 on a fifth of the target, 1 + x and 2 − x else."""
    x, source = [], np.repeat([0, 1], 1000)
    for slope in (1.0, -1.0):
        z = rng.random(8000)
        chance = np.where(z < 0.2, 0.02, 1.5 + slope * (z - 0.5)) / 2
        x.append(z[rng.random(z.size) < chance][:1000])
    value = np.concatenate(x)
    both = np.column_stack([1.5 + (value - 0.5), 1.5 - (value - 0.5)])
    omega = np.where((value < 0.2)[:, None], 0.02, both)
    return DataSet(make_pool(source, x=value), Known(omega), None, value, 0.5)


def lognormal_heavy(rng: Rng) -> DataSet:
    """Weights e^z, z Gaussian of standard deviation 2; 400 images."""
    z = rng.normal(-2.0, 2.0, 400)
    value = (z - 2.0) / 2.0 + rng.normal(size=400)
    return DataSet(
        make_pool(np.zeros(400, dtype=np.int64), z=z), Known(np.exp(-z)[:, None]), None, value, 0.0
    )


def _far_from_sample(rng: Rng, model: Tilt | Propensity, n: int, m: int) -> DataSet:
    source = np.repeat([0, 1], n)
    x = rng.normal(np.array([1.6, 2.0])[source], 1.0)
    value = x + 0.3 * rng.normal(size=x.size)
    return DataSet(make_pool(source, x=x), model, make_sample(m, x=rng.normal(size=m)), value, 0.0)


def tilt_far(rng: Rng) -> DataSet:
    """Tilt, two sources of 400 images 1.6 and 2 standard deviations off a sample of 200."""
    return _far_from_sample(rng, Tilt(["x"]), 400, 200)


def tilt_far_small(rng: Rng) -> DataSet:
    """The same with sources of 150 and a sample of 100."""
    return _far_from_sample(rng, Tilt(["x"]), 150, 100)


def propensity_far(rng: Rng) -> DataSet:
    """The same by Propensity."""
    return _far_from_sample(rng, Propensity(["x"]), 150, 100)


def strata_lone(rng: Rng) -> DataSet:
    """A stratum of a third of the target with one image, whose values vary ten times as much."""
    label = np.r_[0, 1 + np.arange(150) % 2]
    value = label + rng.normal(size=151) * np.where(label == 0, 10.0, 1.0)
    target = Target.uniform("label")
    return DataSet(make_pool(np.arange(151) % 2, label=label), Strata("label"), target, value, 1.0)


# ---- a small source


def small_equal(rng: Rng) -> DataSet:
    """ω ≡ 1, two sources of 500 images and one of 8."""
    source = np.repeat([0, 1, 2], [500, 500, 8])
    value = rng.exponential(size=source.size)
    return DataSet(make_pool(source, x=value), Known(np.ones((1008, 3))), None, value, 1.0)


def small_tilted(rng: Rng) -> DataSet:
    """Known tilts, two sources of 300 images and one of 5."""
    source, tilt = np.repeat([0, 1, 2], [300, 300, 5]), np.array([0.5, -0.5, 1.0])
    x = rng.normal(tilt[source], 1.0)
    value = x + rng.normal(size=x.size)
    return DataSet(make_pool(source, x=x), Known(np.exp(x[:, None] * tilt)), None, value, 0.0)


def small_part(rng: Rng) -> DataSet:
    """A source of everything with 300 images, one of a tenth of the target with 6."""
    everything, part = rng.random(300), 0.9 + 0.1 * rng.random(6)
    x, source = np.concatenate([everything, part]), np.repeat([0, 1], [300, 6])
    omega = np.column_stack([np.ones(306), (x >= 0.9) * 1.0])
    return DataSet(make_pool(source, x=x), Known(omega), None, x, 0.5)


def small_tilt_sample(rng: Rng) -> DataSet:
    """Tilt, sources of 300, 300 and 12 images, a sample of 150."""
    source = np.repeat([0, 1, 2], [300, 300, 12])
    x = rng.normal(np.array([0.7, -0.5, 0.2])[source], 1.0)
    value = x + rng.normal(size=x.size)
    target = make_sample(150, x=rng.normal(size=150))
    return DataSet(make_pool(source, x=x), Tilt(["x"]), target, value, 0.0)


HARD: tuple[Recipe, ...] = (
    power_two,
    power_four,
    power_one_large,
    shifted_two,
    shifted_large,
    shifted_five,
    shifted_groups,
    avoided,
    avoided_step,
    lognormal_heavy,
    tilt_far,
    tilt_far_small,
    propensity_far,
    strata_lone,
)
SMALL: tuple[Recipe, ...] = (small_equal, small_tilted, small_part, small_tilt_sample)
BENIGN: tuple[Recipe, ...] = (
    *SMALL,
    *recipes.PRINCIPAL,
    *recipes.VARIANTS,
    *recipes.BOXES,
    *worlds_design.COPIES,
)


@dataclass(frozen=True)
class Verdicts:
    """Over many data sets: shares called "ok", covered, and called "ok" but missed."""

    n_sets: int
    ok: float
    covered: float
    covered_if_ok: float
    ok_and_missed: float


def measure_verdicts(recipe: Recipe, n_sets: int, seed: int) -> Verdicts:
    is_ok, holds = np.zeros(n_sets, dtype=bool), np.zeros(n_sets, dtype=bool)
    for at, data in enumerate(draw_sets(recipe, n_sets, seed)):
        weights = data.debias()
        low, high = weights.mean(data.value).interval
        is_ok[at], holds[at] = weights.overlap.verdict == "ok", low <= data.truth <= high
    return Verdicts(
        n_sets=n_sets,
        ok=float(is_ok.mean()),
        covered=float(holds.mean()),
        covered_if_ok=float(holds[is_ok].mean()) if is_ok.any() else float("nan"),
        ok_and_missed=float((is_ok & ~holds).mean()),
    )


def rows(options: argparse.Namespace, seed: int) -> Iterator[str]:
    """The table of verdicts: hard worlds, then benign ones."""
    yield '| world | data | sets | coverage | "ok" | coverage if "ok" | "ok" and missed |'
    yield "|---|---|---|---|---|---|---|"
    n_sets = min(options.sets, 300)
    for recipe in (*HARD, *BENIGN):
        if options.only and recipe.__name__ not in options.only:
            continue
        found = measure_verdicts(recipe, n_sets, seed)
        error = binomial_error(found.ok_and_missed, n_sets)
        description = " ".join((recipe.__doc__ or "").split()).rstrip(".")
        if_ok = "–" if np.isnan(found.covered_if_ok) else f"{found.covered_if_ok:.0%}"
        yield (
            f"| `{recipe.__name__}` | {description} | {n_sets} | {found.covered:.1%} | "
            f"{found.ok:.1%} | {if_ok} | {found.ok_and_missed:.1%} ± {error:.1%} |"
        )
