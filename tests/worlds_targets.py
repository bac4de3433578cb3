"""Worlds whose target is known by margins, by kept levels, or by a small survey: recipes as in
`simulations`, with their truth, for tests and for ``benchmarks/honest_errors.py --part targets``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from simulations import DataSet, Recipe, Rng, make_pool, make_sample, text
from unskew.bias import Product, Strata, Tilt
from unskew.records import Pool, Target

LEVELS = "abcd"

# ---- several margins: every source selects by one attribute at a time


def _joint(levels: tuple[int, ...], strength: float, seed: int) -> np.ndarray:
    """A joint distribution with interactions of every order."""
    table = np.exp(strength * np.random.default_rng(seed).normal(size=levels))
    return table / table.sum()


def _selected(joint: np.ndarray, n_sources: int, strength: float, seed: int) -> list[np.ndarray]:
    """Distributions of the sources, ω_k = a_k(A) b_k(B) …: the odds ratios are those of the
    target.
    """
    rng = np.random.default_rng(seed)
    sources = []
    for _ in range(n_sources):
        table = joint
        for axis, size in enumerate(joint.shape):
            shape = [1] * joint.ndim
            shape[axis] = size
            table = table * np.exp(strength * rng.normal(size=size)).reshape(shape)
        sources.append(table / table.sum())
    return sources


def _draw_cells(rng: Rng, tables: list[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
    """(source, cell) of n images of each source, every cell seen."""
    while True:
        cell = np.concatenate([rng.choice(table.size, n, p=table.ravel()) for table in tables])
        if np.bincount(cell, minlength=tables[0].size).min() > 0:
            return np.repeat(np.arange(len(tables)), n), cell


def _margins(
    rng: Rng, joint: np.ndarray, n: int | None, names: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    margins: dict[str, dict[str, Any]] = {}
    for axis, name in enumerate(names):
        mass = joint.sum(axis=tuple(other for other in range(joint.ndim) if other != axis))
        drawn = mass if n is None else rng.multinomial(n, mass) / n
        levels = dict(zip(LEVELS, drawn.tolist(), strict=False))
        margins[name] = levels if n is None else {"mass": levels, "n": n}
    return margins


def _separate(
    rng: Rng,
    joint: np.ndarray,
    n_sources: int,
    n: int,
    *,
    survey: int | None = None,
    strength: float = 0.8,
    group_size: int = 1,
) -> DataSet:
    """Values depend on the combination of the attributes."""
    tables = _selected(joint, n_sources, strength, 3)
    source, cell = _draw_cells(rng, tables, n)
    mean = 2.0 * np.random.default_rng(5).normal(size=joint.size)
    names = tuple("ABC"[: joint.ndim])
    columns: dict[str, Any] = {}
    if group_size > 1:
        source, cell = np.repeat(source, group_size), np.repeat(cell, group_size)
        columns["group"] = np.arange(source.size) // group_size
    codes = np.unravel_index(cell, joint.shape)
    columns |= {name: text(code) for name, code in zip(names, codes, strict=True)}
    value = mean[cell] + 0.3 * rng.normal(size=cell.size)
    target = Target.margins(_margins(rng, joint, survey, names))
    truth = float(joint.ravel() @ mean)
    sources = tuple(f"s{k}" for k in range(n_sources))
    pool = make_pool(source, sources, **columns)
    return DataSet(pool, Strata(list(names)), target, value, truth)


def margins_two(rng: Rng) -> DataSet:
    """Two margins; two sources of 300 that select by each attribute separately."""
    joint = np.array([[0.4, 0.1], [0.15, 0.35]])
    return _separate(rng, joint, 2, 300, strength=1.2)


def margins_three(rng: Rng) -> DataSet:
    """Three margins of three levels; four sources of 400 that select by each separately."""
    return _separate(rng, _joint((3, 3, 3), 0.5, 1), 4, 400, strength=0.6)


def margins_three_survey(rng: Rng) -> DataSet:
    """The same with margins from surveys of 120 each."""
    return _separate(rng, _joint((3, 3, 3), 0.5, 1), 4, 400, strength=0.6, survey=120)


def margins_groups(rng: Rng) -> DataSet:
    """Margins of four and three levels; three sources of 150 groups of three alike images."""
    return _separate(rng, _joint((4, 3), 0.7, 2), 3, 150, group_size=3)


def margins_unequal(rng: Rng) -> DataSet:
    """Two margins; sources of 600, 200 and 30, of which one never sees a level."""
    joint = _joint((3, 3), 0.7, 4)
    tables = _selected(joint, 3, 0.7, 6)
    tables[1][2] = 0.0
    tables[1] /= tables[1].sum()
    mean = np.random.default_rng(7).normal(size=9)
    while True:
        sizes = (600, 200, 30)
        cell = np.concatenate(
            [rng.choice(9, n, p=t.ravel()) for n, t in zip(sizes, tables, strict=True)]
        )
        if np.bincount(cell, minlength=9).min() > 0:
            break
    source = np.repeat([0, 1, 2], sizes)
    pool = make_pool(source, A=text(cell // 3), B=text(cell % 3))
    target = Target.margins(_margins(rng, joint, None, ("A", "B")))
    value = mean[cell] + 0.3 * rng.normal(size=cell.size)
    return DataSet(pool, Strata(["A", "B"]), target, value, float(joint.ravel() @ mean))


def margins_many(rng: Rng) -> DataSet:
    """Two margins; forty sources of 15 images that select by each attribute separately."""
    return _separate(rng, _joint((2, 2), 0.7, 11), 40, 15, strength=0.7)


# ---- levels kept at their pool share

KEPT_MIX = np.array([[0.3, 0.4, 0.3], [0.6, 0.3, 0.1]])
KEPT_MASS = {"a": 0.4, "b": 0.6}
KEPT_MEAN = np.array([0.0, 1.0, 4.0])


def _kept(
    rng: Rng, *, missing: bool, survey: int | None = None, uniform: bool = False, drop: bool = False
) -> DataSet:
    """Sources of 120 and 180; the target gives a and b, the third level keeps its share."""
    mix = np.column_stack([0.8 * KEPT_MIX, [0.2, 0.2]]) if drop else KEPT_MIX
    sizes = np.array([120, 180])
    level = np.concatenate(
        [rng.choice(mix.shape[1], n, p=row) for n, row in zip(sizes, mix, strict=True)]
    )
    source = np.repeat([0, 1], sizes)
    label = np.array(["a", "b", None if missing else "c", "d"], dtype=object)[level]
    share = np.array([sizes @ column for column in mix.T])[:3]
    kept = share[2] / share.sum()
    mass: Any = dict(KEPT_MASS)
    if survey is not None:
        count = rng.multinomial(survey, list(KEPT_MASS.values()))
        mass = {"mass": dict(zip("ab", count.tolist(), strict=True)), "n": survey}
    options: dict[str, Any] = {}
    outside = {} if missing else {"c": "keep"}
    if drop:
        outside["d"] = "drop"
    if outside:
        options["outside"] = {"label": outside}
    if missing:
        options["missing"] = {"label": "keep"}
    target = (
        Target.uniform("label", **options)
        if uniform
        else Target.margins({"label": mass}, **options)
    )
    p = np.array([0.5, 0.5] if uniform else list(KEPT_MASS.values()))
    mean = np.array([*KEPT_MEAN, 2.0])
    truth = float((1 - kept) * p @ KEPT_MEAN[:2] + kept * KEPT_MEAN[2])
    value = mean[level] + 0.5 * rng.normal(size=level.size)
    return DataSet(make_pool(source, label=label), Strata("label"), target, value, truth)


def kept_outside(rng: Rng) -> DataSet:
    """A level that the target does not name is kept at its pool share."""
    return _kept(rng, missing=False)


def kept_missing(rng: Rng) -> DataSet:
    """Missing values are kept at their pool share."""
    return _kept(rng, missing=True)


def kept_survey(rng: Rng) -> DataSet:
    """The same with the margin from a survey of 60."""
    return _kept(rng, missing=True, survey=60)


def kept_uniform(rng: Rng) -> DataSet:
    """A level kept at its pool share, and a uniform target."""
    return _kept(rng, missing=False, uniform=True)


def kept_dropped(rng: Rng) -> DataSet:
    """One level kept at its pool share, another dropped."""
    return _kept(rng, missing=False, drop=True)


def _kept_groups(rng: Rng, unit: str) -> DataSet:
    """60 and 90 groups of one to five images, all of one level; larger where it is kept."""
    groups = np.array([60, 90])
    source_g = np.repeat([0, 1], groups)
    level_g = np.concatenate(
        [rng.choice(3, n, p=row) for n, row in zip(groups, KEPT_MIX, strict=True)]
    )
    size_g = rng.integers(1, 4, size=source_g.size) + 2 * (level_g == 2)
    group = np.repeat(np.arange(source_g.size), size_g)
    level, source = level_g[group], source_g[group]
    value = KEPT_MEAN[level] + rng.normal(size=source_g.size)[group]
    count = groups @ KEPT_MIX * (np.array([2.0, 2.0, 4.0]) if unit == "image" else 1.0)
    kept = count[2] / count.sum()
    truth = (1 - kept) * np.array([0.4, 0.6]) @ KEPT_MEAN[:2] + kept * KEPT_MEAN[2]
    target = Target.margins({"label": KEPT_MASS}, outside={"label": "keep"}, unit=unit)
    pool = make_pool(source, label=text(level), group=group)
    return DataSet(pool, Strata("label"), target, value, float(truth))


def kept_groups(rng: Rng) -> DataSet:
    """A kept level in groups of one to five images."""
    return _kept_groups(rng, "image")


def kept_units(rng: Rng) -> DataSet:
    """The same; the margin counts groups."""
    return _kept_groups(rng, "group")


def _kept_two(rng: Rng, survey: int | None, unit: str = "image") -> DataSet:
    """Two attributes, one with a level outside, one with missing values; sources of 250 and 350
    select by each separately.
    """
    joint = _joint((3, 3), 0.6, 8)
    tables = _selected(joint, 2, 0.6, 9)
    sizes = (250, 350)
    cell = np.concatenate(
        [rng.choice(9, n, p=t.ravel()) for n, t in zip(sizes, tables, strict=True)]
    )
    first, second = cell // 3, cell % 3
    columns: dict[str, Any] = {
        "A": np.array(["a", "b", "other"], dtype=object)[first],
        "B": np.array(["a", "b", None], dtype=object)[second],
    }
    source = np.repeat([0, 1], sizes)
    pooled = sum(n * table for n, table in zip(sizes, tables, strict=True)) / sum(sizes)
    inner = joint[:2, :2] / joint[:2, :2].sum()
    mass = pooled.copy()
    mass[:2, :2] = pooled[:2, :2].sum() * inner
    mean = np.random.default_rng(10).normal(size=9)
    value = mean[cell] + 0.5 * rng.normal(size=cell.size)
    if unit == "group":
        size = rng.integers(1, 4, size=cell.size)
        row = np.repeat(np.arange(cell.size), size)
        columns = {name: column[row] for name, column in columns.items()} | {"group": row}
        source, value = source[row], value[row]
    target = Target.margins(
        _margins(rng, inner, survey, ("A", "B")),
        outside={"A": "keep"},
        missing={"B": "keep"},
        unit=unit,
    )
    truth = float(mass.ravel() @ mean)
    return DataSet(make_pool(source, **columns), Strata(["A", "B"]), target, value, truth)


def kept_two(rng: Rng) -> DataSet:
    """Two margins, one with a kept level, one with kept missing values."""
    return _kept_two(rng, None)


def kept_two_survey(rng: Rng) -> DataSet:
    """The same with surveys of 80, counted in groups."""
    return _kept_two(rng, 80, "group")


# ---- small surveys and samples

SURVEYED = np.array([0.5, 0.3, 0.2])
RARE = np.array([0.6, 0.33, 0.07])
SURVEY_MIX = np.array([[0.2, 0.5, 0.3], [0.5, 0.2, 0.3]])
SURVEY_MEAN = np.array([2.0, 5.0, 9.0])


def _surveyed(rng: Rng, mass: np.ndarray, n: int, kind: str = "n") -> DataSet:
    """Two sources of 100."""
    while True:
        level = np.concatenate([rng.choice(3, 100, p=row) for row in SURVEY_MIX])
        count = rng.multinomial(n, mass)
        # An error of 0 would say that the level is known; a survey of one level shows no spread.
        if np.bincount(level, minlength=3).min() > 1 and (kind != "stderr" or count.min() > 0):
            break
    source = np.repeat([0, 1], 100)
    value = SURVEY_MEAN[level] + rng.normal(size=level.size) * (1 + level)
    levels = list("abc")
    share = dict(zip(levels, (count / n).tolist(), strict=True))
    if kind == "sample":
        target = make_sample(n, label=text(np.repeat(np.arange(3), count)))
    elif kind == "stderr":
        stderr = {name: float(np.sqrt(p * (1 - p) / n)) for name, p in share.items()}
        target = Target.margins({"label": {"mass": share, "stderr": stderr}})
    elif kind == "table":
        table = pd.DataFrame({"label": levels, "share": list(share.values())})
        target = Target.table(table, n=n)
    else:
        target = Target.margins({"label": {"mass": share, "n": n}})
    pool = make_pool(source, label=text(level))
    return DataSet(pool, Strata("label"), target, value, float(mass @ SURVEY_MEAN))


def survey_20(rng: Rng) -> DataSet:
    """A margin from a survey of 20."""
    return _surveyed(rng, SURVEYED, 20)


def survey_40(rng: Rng) -> DataSet:
    """A margin from a survey of 40."""
    return _surveyed(rng, SURVEYED, 40)


def survey_100(rng: Rng) -> DataSet:
    """A margin from a survey of 100."""
    return _surveyed(rng, SURVEYED, 100)


def survey_20_rare(rng: Rng) -> DataSet:
    """A survey of 20 that misses a level of 7% in a quarter of the draws."""
    return _surveyed(rng, RARE, 20)


def survey_40_rare(rng: Rng) -> DataSet:
    """A survey of 40 that misses it in one of twenty."""
    return _surveyed(rng, RARE, 40)


def survey_100_rare(rng: Rng) -> DataSet:
    """A survey of 100 with a level of 7%."""
    return _surveyed(rng, RARE, 100)


def survey_20_table(rng: Rng) -> DataSet:
    """A table from a survey of 20."""
    return _surveyed(rng, SURVEYED, 20, "table")


def survey_20_stderr(rng: Rng) -> DataSet:
    """A survey of 20, given with standard errors."""
    return _surveyed(rng, SURVEYED, 20, "stderr")


def sample_20(rng: Rng) -> DataSet:
    """A labelled sample of 20 images of the target."""
    return _surveyed(rng, SURVEYED, 20, "sample")


def sample_20_rare(rng: Rng) -> DataSet:
    """A labelled sample of 20 images; a level of 7% is often missed."""
    return _surveyed(rng, RARE, 20, "sample")


def sample_40_rare(rng: Rng) -> DataSet:
    """A labelled sample of 40 images with that level."""
    return _surveyed(rng, RARE, 40, "sample")


def survey_20_two(rng: Rng) -> DataSet:
    """Two margins from surveys of 20 each; two sources of 300 select by each separately."""
    joint = np.array([[0.35, 0.15], [0.15, 0.35]])
    return _separate(rng, joint, 2, 300, survey=20)


def survey_20_tilt(rng: Rng) -> DataSet:
    """Label bias × tilt with the margin from a survey of 20."""
    data = _surveyed(rng, SURVEYED, 20)
    frame = data.pool.frame
    third = frame.iloc[:100].assign(id=np.arange(200, 300), source="c")
    third["label"] = text(rng.choice(3, 100, p=SURVEYED))
    frame = pd.concat([frame.assign(source=frame["source"].astype(object)), third])
    source = np.repeat([0, 1, 2], 100)
    x = rng.normal(np.array([0.5, -0.4, 0.0])[source], 1.0)
    level = np.array([LEVELS.index(label) for label in frame["label"]])
    value = SURVEY_MEAN[level] + x + rng.normal(size=300)
    pool = make_pool(source, label=frame["label"].to_numpy(), x=x)
    model = Product(Strata("label"), Tilt(["x"], reference="c"))
    return DataSet(pool, model, data.target, value, data.truth)


MARGINS: tuple[Recipe, ...] = (
    margins_two,
    margins_three,
    margins_three_survey,
    margins_groups,
    margins_unequal,
    margins_many,
)
KEPT: tuple[Recipe, ...] = (
    kept_outside,
    kept_missing,
    kept_survey,
    kept_uniform,
    kept_dropped,
    kept_groups,
    kept_units,
    kept_two,
    kept_two_survey,
)
SMALL: tuple[Recipe, ...] = (
    survey_20,
    survey_40,
    survey_100,
    survey_20_rare,
    survey_40_rare,
    survey_100_rare,
    survey_20_table,
    survey_20_stderr,
    sample_20,
    sample_20_rare,
    sample_40_rare,
    survey_20_two,
    survey_20_tilt,
)
TARGETS = (*MARGINS, *KEPT, *SMALL)


def pooled_interactions(data: DataSet) -> DataSet:
    """The same data raked from the pool's own table."""
    target = Target.margins(
        {fact.name: _given(fact) for fact in data.target.facts}, interactions="pool"
    )
    return DataSet(Pool(data.pool.frame), data.bias, target, data.value, data.truth)


def margins_two_pooled(rng: Rng) -> DataSet:
    """`margins_two`, raked from the pool's own table: the trap."""
    return pooled_interactions(margins_two(rng))


def _given(fact: Any) -> dict[str, Any]:
    mass = {cell[0]: mass for cell, mass in zip(fact.cells, fact.mass, strict=True)}
    return mass if fact.n is None else {"mass": mass, "n": fact.n}
