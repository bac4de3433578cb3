"""Worlds with copies of images and with design weights; `rows` prints how often intervals hold
the truth there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from simulation_measures import Coverage, bootstrap_of, mean_of, measure_coverage
from simulations import DataSet, Rng, make_pool, make_sample, text
from unskew.bias import Known, Strata, Tilt
from unskew.records import Estimate, Target

# ---- copies: sources select from one universe of images, and a third of what they select is copied


def _copied(rng: Rng, chance_jk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(source, image) of every row: source k holds image j of the universe with the given chance,
    and a third of its images 1 to 5 times more.
    """
    held_kj = (rng.random(chance_jk.shape) < chance_jk).T
    source, image = np.nonzero(held_kj)
    times = 1 + np.where(rng.random(source.size) < 1 / 3, rng.integers(1, 6, source.size), 0)
    return np.repeat(source, times), np.repeat(image, times)


def _hashes(image: np.ndarray) -> np.ndarray:
    return np.array([f"{at:032x}" for at in image.tolist()], dtype=object)


def copies_known(rng: Rng) -> DataSet:
    """Two known selections from one universe; a third of the images copied 1–5 times."""
    x = rng.uniform(size=400)
    omega_jk = np.column_stack([0.2 + 0.8 * x, 1.0 - 0.8 * x])
    source, image = _copied(rng, 0.35 * omega_jk)
    value = (x + 0.5 * rng.normal(size=x.size))[image]
    pool = make_pool(source, x=x[image], content=_hashes(image))
    return DataSet(pool, Known(omega_jk[image]), None, value, 0.5)


def copies_strata(rng: Rng) -> DataSet:
    """Three labels with given masses, selected differently by two sources; copies as before."""
    label = rng.choice(3, 500, p=[0.5, 0.3, 0.2])
    source, image = _copied(rng, np.array([[0.1, 0.4], [0.3, 0.2], [0.4, 0.1]])[label])
    value = (label + rng.normal(size=label.size))[image]
    pool = make_pool(source, label=text(label[image]), content=_hashes(image))
    masses = Target.margins({"label": {"a": 0.5, "b": 0.3, "c": 0.2}})
    return DataSet(pool, Strata("label"), masses, value, 0.7)


def copies_tilt(rng: Rng) -> DataSet:
    """A logistic selection on x by two sources, estimated against a sample of 150; copies."""
    x = rng.normal(size=600)
    chance = 0.3 * np.exp(x[:, None] * np.array([0.7, -0.5]) - 1.0)
    source, image = _copied(rng, np.minimum(chance, 1.0))
    value = (x + rng.normal(size=x.size))[image]
    pool = make_pool(source, x=x[image], content=_hashes(image))
    return DataSet(pool, Tilt(["x"]), make_sample(150, x=rng.normal(size=150)), value, 0.0)


COPIES = (copies_known, copies_strata, copies_tilt)


def without_content(data: DataSet) -> DataSet:
    """The trap: every copy taken for an image of its own."""
    pool = type(data.pool)(data.pool.frame.drop(columns="content"))
    return DataSet(pool, data.bias, data.target, data.value, data.truth)


# ---- design weights: a source draws from what it selects, by chances that depend on the outcome


def _drawn(rng: Rng, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows that a source drew, their design weights: inverse chances up to a factor)."""
    row = np.flatnonzero(rng.random(chance.size) < chance)
    return row, 3.0 / chance[row]


def _chance(value: np.ndarray) -> np.ndarray:
    """Large outcomes are drawn up to six times as often as small ones."""
    return 0.15 + 0.75 / (1.0 + np.exp(-2.0 * value))


def design_known(rng: Rng) -> DataSet:
    """Two known tilts; a source draws large outcomes up to six times as often as small ones."""
    source = np.repeat([0, 1], [160, 110])
    slope = np.array([0.6, -0.4])
    x = rng.normal(slope[source], 1.0)
    value = x + rng.normal(size=x.size)
    row, design = _drawn(rng, _chance(value))
    pool = make_pool(source[row], x=x[row], design_weight=design)
    return DataSet(pool, Known(np.exp(x[row, None] * slope)), None, value[row], 0.0)


def design_groups(rng: Rng) -> DataSet:
    """The same in groups of three images, drawn as a whole by their mean outcome."""
    group = np.repeat(np.arange(180), 3)
    source = np.repeat([0, 1], [300, 240])
    slope = np.array([0.6, -0.4])
    x = np.repeat(rng.normal(slope[source[::3]], 1.0), 3)
    value = x + rng.normal(size=180)[group] + 0.5 * rng.normal(size=x.size)
    chance = _chance(value.reshape(-1, 3).mean(axis=1))
    taken, design = _drawn(rng, chance)
    row = np.flatnonzero(np.isin(group, taken))
    pool = make_pool(source[row], x=x[row], group=group[row], design_weight=np.repeat(design, 3))
    return DataSet(pool, Known(np.exp(x[row, None] * slope)), None, value[row], 0.0)


def design_strata(rng: Rng) -> DataSet:
    """Three labels with given masses; large outcomes are drawn more often, the more in source b."""
    source = np.repeat([0, 1], 200)
    mix = np.array([[0.2, 0.6, 0.2], [0.6, 0.1, 0.3]])
    label = np.concatenate([rng.choice(3, 200, p=row) for row in mix])
    value = label + rng.normal(size=400)
    row, design = _drawn(rng, _chance((1 + source) * (value - 1.0)))
    pool = make_pool(source[row], label=text(label[row]), design_weight=design)
    masses = Target.margins({"label": {"a": 0.5, "b": 0.3, "c": 0.2}})
    return DataSet(pool, Strata("label"), masses, value[row], 0.7)


def design_raked(rng: Rng) -> DataSet:
    """Two attributes with given margins, raked; outcomes above 2 are drawn five times as often."""
    source = np.repeat([0, 1], 400)
    a = rng.random(800) < 0.5
    b = rng.random(800) < np.where(a, 0.7, 0.3)
    value = a + 2.0 * b + rng.normal(size=800)
    row, design = _drawn(rng, np.where(value > 2.0, 0.5, 0.1))
    pool = make_pool(source[row], a=a[row].astype(str), b=b[row].astype(str), design_weight=design)
    half = {"True": 0.5, "False": 0.5}
    target = Target.margins({"a": half, "b": half})
    return DataSet(pool, Strata(["a", "b"]), target, (value * (a == b))[row], 0.7 * 1.5)


def design_tilt(rng: Rng) -> DataSet:
    """Two tilts estimated against a sample of 120; large outcomes are drawn more often."""
    source = np.repeat([0, 1], [250, 200])
    x = rng.normal(np.array([0.6, -0.4])[source], 1.0)
    value = x + rng.normal(size=x.size)
    row, design = _drawn(rng, _chance(value))
    pool = make_pool(source[row], x=x[row], design_weight=design)
    return DataSet(pool, Tilt(["x"]), make_sample(120, x=rng.normal(size=120)), value[row], 0.0)


def design_sample(rng: Rng) -> DataSet:
    """The same where the sample of the target is a survey, too, that prefers large x."""
    source = np.repeat([0, 1], [250, 200])
    x = rng.normal(np.array([0.6, -0.4])[source], 1.0)
    value = x + rng.normal(size=x.size)
    row, design = _drawn(rng, _chance(value))
    pool = make_pool(source[row], x=x[row], design_weight=design)
    own = rng.normal(size=300)
    taken, weight = _drawn(rng, _chance(own))
    target = make_sample(taken.size, x=own[taken], design_weight=weight)
    return DataSet(pool, Tilt(["x"]), target, value[row], 0.0)


DESIGNS = (design_known, design_groups, design_strata, design_raked, design_tilt, design_sample)


def without_design(data: DataSet) -> DataSet:
    """The trap: design weights left out."""
    pool = type(data.pool)(data.pool.frame.drop(columns="design_weight"))
    return DataSet(pool, data.bias, data.target, data.value, data.truth)


def _mean_without_design(data: DataSet) -> Estimate:
    return mean_of(without_design(data))


def _mean_without_content(data: DataSet) -> Estimate:
    return mean_of(without_content(data))


def rows(options: Any) -> Iterator[str]:
    """The table of the part "design" of benchmarks/honest_errors.py."""
    yield "| recipe | data | interval | sets | coverage | bias / spread | stderr / spread |"
    yield "|---|---|---|---|---|---|---|"
    cases: list[tuple[str, Callable[[DataSet], Estimate], tuple[Any, ...], int]] = [
        ("`weights.mean`", mean_of, (*COPIES, *DESIGNS), options.sets),
        ("copies unknown", _mean_without_content, COPIES, options.sets),
        ("design ignored", _mean_without_design, (design_known, design_strata), options.sets),
        (
            "bootstrap",
            partial(bootstrap_of, n=options.replicates),
            (*COPIES[:2], design_known, design_strata),
            options.bootstrap_sets,
        ),
    ]
    for title, estimate, recipes, n_sets in cases:
        for recipe in recipes:
            if not options.only or recipe.__name__ in options.only:
                yield _row(recipe, title, measure_coverage(recipe, n_sets, 2026, estimate))


def _row(recipe: Callable[..., Any], title: str, coverage: Coverage) -> str:
    data = " ".join((recipe.__doc__ or "").split()).rstrip(".")
    return (
        f"| `{recipe.__name__}` | {data} | {title} | {coverage.n_sets:,} | {coverage.share:.1%} ± "
        f"{coverage.error:.1%} | {coverage.bias / coverage.spread:+.2f} | "
        f"{coverage.stderr / coverage.spread:.2f} |"
    )
