"""Small data sets whose truth is known, one recipe for each bias model; `simulation_measures`
counts how often unskew is right about them.

Used by the tests (a few data sets in the default run, thousands in the slow one) and by
``benchmarks/honest_errors.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import unskew
from unskew.bias import Bias, Box, Known, Product, Propensity, SoftBox, Strata, Subpopulation, Tilt
from unskew.errors import UnskewWarning
from unskew.records import Pool, Target, Weights

Rng = np.random.Generator
LETTERS = np.array(["a", "b", "c", "d"], dtype=object)


@dataclass(frozen=True, eq=False)
class DataSet:
    """A pool with the model and target to debias it by, the value of each image, and the target's
    true mean of them.
    """

    pool: Pool
    bias: Bias
    target: Target | None
    value: np.ndarray
    truth: float

    def debias(self) -> Weights:
        # The verdict on a small data set may be a warning; it is not what is measured here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnskewWarning)
            return unskew.debias(self.pool, self.bias, self.target, check_sample=False)


Recipe = Callable[[Rng], DataSet]


def make_pool(
    source: np.ndarray, names: tuple[str, ...] = ("a", "b", "c", "d"), **columns: Any
) -> Pool:
    """A pool from codes of the sources; made directly, since most of the time of a small data set
    is spent in pandas.
    """
    codes = pd.Categorical.from_codes(source, categories=list(names[: int(source.max()) + 1]))
    return Pool(pd.DataFrame({"id": np.arange(source.size), "source": codes, **columns}))


def make_sample(n: int, **columns: Any) -> Target:
    return Target.sample(make_pool(np.zeros(n, dtype=np.int64), ("sample",), **columns))


def text(code: np.ndarray) -> np.ndarray:
    return LETTERS[code]


# ---- known


def known(rng: Rng) -> DataSet:
    """Two Gaussian tilts, known."""
    source = np.repeat([0, 1], [80, 60])
    x = rng.normal(np.array([0.7, -0.5])[source], 1.0)
    omega = np.exp(x[:, None] * np.array([0.7, -0.5]))
    return DataSet(make_pool(source, x=x), Known(omega), None, x + rng.normal(size=x.size), 0.0)


def known_groups(rng: Rng) -> DataSet:
    """The same with groups of four images that share x and most of the noise."""
    group = np.repeat(np.arange(100), 4)
    source = np.repeat([0, 1], [200, 200])
    x = np.repeat(rng.normal(np.repeat([0.7, -0.5], 50), 1.0), 4)
    omega = np.exp(x[:, None] * np.array([0.7, -0.5]))
    value = x + rng.normal(size=100)[group] + 0.5 * rng.normal(size=x.size)
    return DataSet(make_pool(source, x=x, group=group), Known(omega), None, value, 0.0)


def subpopulation(rng: Rng) -> DataSet:
    """One source of everything, one of a part."""
    everything, part = rng.uniform(size=60), rng.uniform(0.5, 1.0, size=100)
    x = np.concatenate([everything, part])
    model = Subpopulation(
        {
            "a": lambda frame: np.ones(len(frame), dtype=bool),
            "b": lambda frame: frame["x"].to_numpy() >= 0.5,
        }
    )
    return DataSet(
        make_pool(np.repeat([0, 1], [60, 100]), x=x),
        model,
        None,
        x + 0.2 * rng.normal(size=160),
        0.5,
    )


# ---- strata

MASS = np.array([0.5, 0.3, 0.2])
MIX = np.array([[0.2, 0.6, 0.2], [0.7, 0.1, 0.2]])
LABELS = ("a", "b", "c")


def _labels(rng: Rng, n: int, mix: np.ndarray = MIX) -> tuple[np.ndarray, np.ndarray]:
    """(source, label) of n images in each source, every label seen: values are independent of the
    labels' counts.
    """
    while True:
        label = np.concatenate([rng.choice(mix.shape[1], n, p=row) for row in mix])
        if np.bincount(label, minlength=mix.shape[1]).min() > 0:
            return np.repeat(np.arange(len(mix)), n), label


def _skewed(rng: Rng, label: np.ndarray, slope: float) -> np.ndarray:
    """Values of mean slope × label + 1 + label, exponential: spread differs between strata."""
    return slope * label + rng.exponential(size=label.size) * (1 + label)


def _skewed_truth(slope: float, mass: np.ndarray = MASS) -> float:
    level = np.arange(mass.size)
    return float(mass @ (slope * level + 1 + level))


def strata(rng: Rng) -> DataSet:
    """Exact margins."""
    source, label = _labels(rng, 60)
    target = Target.margins({"label": dict(zip(LABELS, MASS.tolist(), strict=True))})
    return DataSet(
        make_pool(source, label=text(label)),
        Strata("label"),
        target,
        _skewed(rng, label, 1.0),
        _skewed_truth(1.0),
    )


def strata_disconnected(rng: Rng) -> DataSet:
    """Every label seen by one source alone."""
    source, label = _labels(rng, 50, np.array([[0.4, 0.6, 0.0], [0.0, 0.0, 1.0]]))
    target = Target.margins({"label": dict(zip(LABELS, MASS.tolist(), strict=True))})
    return DataSet(
        make_pool(source, label=text(label)),
        Strata("label"),
        target,
        _skewed(rng, label, 1.0),
        _skewed_truth(1.0),
    )


def _surveyed(rng: Rng, fact: Callable[[np.ndarray, int], dict[str, Any]]) -> DataSet:
    source, label = _labels(rng, 60)
    n = 150
    target = Target.margins({"label": fact(rng.multinomial(n, MASS), n)})
    return DataSet(
        make_pool(source, label=text(label)),
        Strata("label"),
        target,
        _skewed(rng, label, 3.0),
        _skewed_truth(3.0),
    )


def strata_survey(rng: Rng) -> DataSet:
    """Margins from a survey of 150."""
    return _surveyed(
        rng, lambda count, n: {"mass": dict(zip(LABELS, count.tolist(), strict=True)), "n": n}
    )


def strata_survey_exact(rng: Rng) -> DataSet:
    """The same survey taken for the truth: the trap."""
    return _surveyed(rng, lambda count, n: dict(zip(LABELS, count.tolist(), strict=True)))


def strata_stderr(rng: Rng) -> DataSet:
    """Margins from a survey of 150, with standard errors."""

    def fact(count: np.ndarray, n: int) -> dict[str, Any]:
        share = count / n
        stderr = np.sqrt(share * (1 - share) / n)
        return {
            "mass": dict(zip(LABELS, share.tolist(), strict=True)),
            "stderr": dict(zip(LABELS, stderr.tolist(), strict=True)),
        }

    return _surveyed(rng, fact)


def strata_thin(rng: Rng) -> DataSet:
    """Twelve strata, some with two or three images."""
    mass = np.repeat([0.14, 0.06, 0.04, 0.01], 3)
    mass = mass / mass.sum()
    mix = np.vstack([mass[::-1] + 0.05, mass + 0.02])
    source, label = _labels(rng, 80, mix / mix.sum(axis=1, keepdims=True))
    target = Target.margins({"label": {str(level): float(p) for level, p in enumerate(mass)}})
    value = label % 4 + rng.normal(size=label.size) * (1 + label % 3)
    return DataSet(
        make_pool(source, label=label),
        Strata("label"),
        target,
        value,
        float(mass @ (np.arange(12) % 4)),
    )


def _grouped_labels(
    rng: Rng, n_groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(source, group, label, value) of groups of one to five images, whose labels differ and whose
    values go together.
    """
    size = rng.integers(1, 6, size=2 * n_groups)
    group = np.repeat(np.arange(2 * n_groups), size)
    source = (group >= n_groups).astype(np.int64)
    cut = np.cumsum(MIX, axis=1)[source]
    label = (rng.uniform(size=group.size)[:, None] > cut[:, :2]).sum(axis=1)
    value = 2.0 * label + rng.normal(size=2 * n_groups)[group] + 0.7 * rng.normal(size=group.size)
    return source, group, label, value


def strata_groups(rng: Rng) -> DataSet:
    """Groups of one to five images; the margin counts images."""
    source, group, label, value = _grouped_labels(rng, 40)
    target = Target.margins({"label": dict(zip(LABELS, MASS.tolist(), strict=True))})
    pool = make_pool(source, label=text(label), group=group)
    return DataSet(pool, Strata("label"), target, value, float(2.0 * MASS @ np.arange(3)))


def strata_units(rng: Rng) -> DataSet:
    """The same; the margin counts groups, each sharing its weight among its images."""
    drawn = strata_groups(rng)
    target = Target.margins({"label": dict(zip(LABELS, MASS.tolist(), strict=True))}, unit="group")
    return DataSet(drawn.pool, drawn.bias, target, drawn.value, drawn.truth)


def strata_two(rng: Rng) -> DataSet:
    """Two attributes, a joint table."""
    source, label = _labels(rng, 70)
    night = rng.uniform(size=label.size) < np.where(source == 0, 0.3, 0.6)
    joint = np.outer(MASS, [0.7, 0.3])
    table = pd.DataFrame(
        {"label": np.repeat(list(LABELS), 2), "light": ["day", "night"] * 3, "mass": joint.ravel()}
    )
    pool = make_pool(
        source, label=text(label), light=np.where(night, "night", "day").astype(object)
    )
    value = label + 1.5 * night + rng.normal(size=label.size)
    return DataSet(
        pool,
        Strata(["label", "light"]),
        Target.table(table),
        value,
        float(MASS @ np.arange(3) + 0.45),
    )


def _raked(rng: Rng, n: int | None) -> DataSet:
    """Two attributes that go together in the sources as in the target, and a value that depends on
    their combination.
    """
    joint = np.array([[0.35, 0.15], [0.1, 0.4]])
    mean = np.array([[0.0, 1.0], [3.0, 0.0]])
    drawn = joint * [[1.0], [2.0]]
    cell = rng.choice(4, 200, p=(drawn / drawn.sum()).ravel())
    first, second = cell // 2, cell % 2
    masses = [joint.sum(axis=1), joint.sum(axis=0)]
    if n is not None:
        masses = [rng.multinomial(n, mass) / n for mass in masses]
    margins: dict[str, Any] = {
        name: dict(zip("ab", mass.tolist(), strict=True))
        for name, mass in zip(("label", "light"), masses, strict=True)
    }
    if n is not None:
        margins = {name: {"mass": mass, "n": n} for name, mass in margins.items()}
    pool = make_pool(np.repeat([0, 1], 100), label=text(first), light=text(second))
    value = mean[first, second] + rng.normal(0.0, 0.3, cell.size)
    return DataSet(pool, Strata(), Target.margins(margins), value, float((joint * mean).sum()))


def strata_raked(rng: Rng) -> DataSet:
    """Two exact margins; how the attributes go together is learned from the pool."""
    return _raked(rng, None)


def strata_raked_survey(rng: Rng) -> DataSet:
    """The same with margins from surveys of 150 each."""
    return _raked(rng, 150)


def strata_sample(rng: Rng) -> DataSet:
    """The label's distribution from a labelled sample of 150 images of the target."""
    source, label = _labels(rng, 60)
    target = make_sample(150, label=text(rng.choice(3, 150, p=MASS)))
    return DataSet(
        make_pool(source, label=text(label)),
        Strata("label"),
        target,
        _skewed(rng, label, 3.0),
        _skewed_truth(3.0),
    )


def strata_source(rng: Rng) -> DataSet:
    """The same distribution from a source that is known to be unbiased, and is itself weighed."""
    source, label = _labels(rng, 60, np.vstack([MIX, MASS]))
    pool = make_pool(source, label=text(label))
    return DataSet(
        pool, Strata("label"), Target.source("c"), _skewed(rng, label, 3.0), _skewed_truth(3.0)
    )


# ---- tilt and propensity


def _gaussians(rng: Rng, n: int, n_sources: int = 2) -> tuple[np.ndarray, np.ndarray]:
    source = np.repeat(np.arange(n_sources), n)
    return source, rng.normal(np.array([0.7, -0.5, 0.2])[source], 1.0)


def _sampled(
    rng: Rng, model: Bias, m: int, n: int = 150, n_sources: int = 2, noise: float = 1.0
) -> DataSet:
    source, x = _gaussians(rng, n, n_sources)
    value = x + noise * rng.normal(size=x.size)
    return DataSet(make_pool(source, x=x), model, make_sample(m, x=rng.normal(size=m)), value, 0.0)


def tilt(rng: Rng) -> DataSet:
    """An unlabelled sample of 500 images of the target, two sources of 1,500."""
    return _sampled(rng, Tilt(["x"]), 500, 1500, noise=0.3)


def tilt_small(rng: Rng) -> DataSet:
    """A sample of 100 images, two sources of 150."""
    return _sampled(rng, Tilt(["x"]), 100)


def tilt_tiny(rng: Rng) -> DataSet:
    """A sample of 30 images, two sources of 60."""
    return _sampled(rng, Tilt(["x"]), 30, 60)


def tilt_three(rng: Rng) -> DataSet:
    """Three sources."""
    return _sampled(rng, Tilt(["x"]), 100, 100, 3)


def tilt_source(rng: Rng) -> DataSet:
    """A source of 60 images is the reference, and is itself weighed."""
    source = np.repeat([0, 1, 2], [150, 150, 60])
    x = rng.normal(np.array([0.7, -0.5, 0.0])[source], 1.0)
    return DataSet(
        make_pool(source, x=x), Tilt(["x"]), Target.source("c"), x + rng.normal(size=x.size), 0.0
    )


def tilt_groups(rng: Rng) -> DataSet:
    """Groups of four images, in the sample, too."""
    group = np.repeat(np.arange(120), 4)
    source = np.repeat([0, 1], 240)
    x = np.repeat(rng.normal(np.repeat([0.7, -0.5], 60), 1.0), 4)
    value = x + rng.normal(size=120)[group] + rng.normal(size=x.size)
    own = np.repeat(np.arange(60), 4)
    target = make_sample(240, x=rng.normal(size=60)[own], group=1000 + own)
    return DataSet(make_pool(source, x=x, group=group), Tilt(["x"]), target, value, 0.0)


def tilt_categorical(rng: Rng) -> DataSet:
    """A categorical feature and a numeric one."""
    source, x = _gaussians(rng, 150)
    level = np.where(source == 0, rng.choice(3, 300, p=MIX[0]), rng.choice(3, 300, p=MIX[1]))
    pool = make_pool(source, x=x, kind=text(level))
    target = make_sample(150, x=rng.normal(size=150), kind=text(rng.choice(3, 150, p=MASS)))
    value = x + 1.5 * level + rng.normal(size=300)
    return DataSet(pool, Tilt(["x", "kind"]), target, value, float(1.5 * MASS @ np.arange(3)))


def tilt_quadratic(rng: Rng) -> DataSet:
    """Gaussians of other widths: squares among the features."""
    source = np.repeat([0, 1], 200)
    x = rng.normal(np.array([0.4, -0.3])[source], np.array([0.8, 1.2])[source])
    target = make_sample(150, x=rng.normal(size=150))
    return DataSet(
        make_pool(source, x=x), Tilt(["x"], degree=2), target, x**2 + rng.normal(size=400), 1.0
    )


def propensity(rng: Rng) -> DataSet:
    """Cross-fitted logistic regression, a sample of 100 images."""
    return _sampled(rng, Propensity(["x"]), 100)


def propensity_three(rng: Rng) -> DataSet:
    """The same with three sources, one of them the reference."""
    source = np.repeat([0, 1, 2], [150, 150, 80])
    x = rng.normal(np.array([0.7, -0.5, 0.0])[source], 1.0)
    return DataSet(
        make_pool(source, x=x),
        Propensity(["x"]),
        Target.source("c"),
        x + rng.normal(size=x.size),
        0.0,
    )


def propensity_boosting(rng: Rng) -> DataSet:
    """Gradient boosting, whose errors come from a bootstrap that refits."""
    return _sampled(rng, Propensity(["x"], classifier="boosting", folds=2), 300, 300)


# ---- products


def _shifted_in_strata(rng: Rng, part: Bias, n: int = 150, m: int = 100) -> DataSet:
    """Sources differ in their labels and, within a label, in x; the third one in its labels only:
    it is the reference of ``part``.
    """
    source = np.repeat([0, 1, 2], [n, n, m])
    label = (rng.uniform(size=source.size) < np.array([0.2, 0.7, 0.5])[source]).astype(np.int64)
    x = rng.normal(label + np.array([0.6, -0.5, 0.0])[source], 1.0)
    target = Target.margins({"label": {"a": 0.6, "b": 0.4}})
    return DataSet(
        make_pool(source, x=x, label=text(label)),
        Product(Strata("label"), part),
        target,
        x + rng.normal(size=x.size),
        0.4,
    )


def strata_tilt(rng: Rng) -> DataSet:
    """Label bias × a tilt relative to a source of 100 images."""
    return _shifted_in_strata(rng, Tilt(["x"], reference="c"))


def strata_known(rng: Rng) -> DataSet:
    """Label bias × known tilts."""
    shift = np.array([0.6, -0.5, 0.0])
    return _shifted_in_strata(
        rng, Known(lambda frame: np.exp(frame["x"].to_numpy()[:, None] * shift)), 60, 30
    )


def strata_propensity(rng: Rng) -> DataSet:
    """Label bias × cross-fitted logistic regression."""
    return _shifted_in_strata(rng, Propensity(["x"], reference="c"))


def known_tilt(rng: Rng) -> DataSet:
    """A known tilt in one feature × an estimated one in another, relative to a sample of 100."""
    source, x = _gaussians(rng, 150)
    z = rng.normal(np.array([-0.4, 0.6])[source], 1.0)
    known = Known(
        {
            "a": lambda frame: np.exp(0.7 * frame["x"].to_numpy()),
            "b": lambda frame: np.exp(-0.5 * frame["x"].to_numpy()),
        }
    )
    target = make_sample(100, x=rng.normal(size=100), z=rng.normal(size=100))
    return DataSet(
        make_pool(source, x=x, z=z),
        Product(known, Tilt(["z"])),
        target,
        x + z + rng.normal(size=x.size),
        0.0,
    )


def strata_survey_tilt(rng: Rng) -> DataSet:
    """Label bias × tilt, the margin from a survey of 100."""
    drawn = _shifted_in_strata(rng, Tilt(["x"], reference="c"))
    count = rng.multinomial(100, [0.6, 0.4]).tolist()
    target = Target.margins({"label": {"mass": dict(zip("ab", count, strict=True)), "n": 100}})
    return DataSet(drawn.pool, drawn.bias, target, drawn.value, drawn.truth)


# ---- boxes


def box(rng: Rng) -> DataSet:
    """Three overlapping rectangles in the unit square, which they cover."""
    edge = np.array([[0.0, 0.6], [0.4, 1.0], [0.0, 1.0]])
    source = np.repeat([0, 1, 2], 100)
    x = rng.uniform(edge[source, 0], edge[source, 1])
    z = rng.uniform(size=300)
    return DataSet(
        make_pool(source, x=x, z=z), Box(["x", "z"]), None, x + z + 0.3 * rng.normal(size=300), 1.0
    )


def box_many(rng: Rng) -> DataSet:
    """Boxes that share edges only little, in three features, and no source that sees everything."""
    edge = np.array([[0.0, 0.6], [0.4, 1.0]])
    source = np.repeat([0, 1], 150)
    x = rng.uniform(edge[source, 0], edge[source, 1])
    rest = rng.uniform(size=(300, 2))
    pool = make_pool(source, x=x, y=rest[:, 0], z=rest[:, 1])
    return DataSet(
        pool, Box(["x", "y", "z"]), None, x + rest.sum(axis=1) + 0.3 * rng.normal(size=300), 1.5
    )


def soft_box(rng: Rng) -> DataSet:
    """Two sources of 150 images that fall off linearly towards each other's end of the unit
    interval.
    """
    source = np.repeat([0, 1], 150)
    x = np.concatenate([_falling(rng, 150), 1.0 - _falling(rng, 150)])
    return DataSet(
        make_pool(source, x=x), SoftBox(["x"]), None, x + 0.3 * rng.normal(size=300), 0.5
    )


def _falling(rng: Rng, n: int) -> np.ndarray:
    """Density ∝ 1 below 0.3, then falling linearly to 0 over a width of 0.6."""
    x = rng.uniform(0.0, 0.9, size=20 * n)
    return x[rng.uniform(size=x.size) < 1.0 - np.maximum(x - 0.3, 0.0) / 0.6][:n]


def _corners(rng: Rng, width: float) -> DataSet:
    x, z = np.column_stack(
        [_near_corner(rng, 150, corner, width) for corner in ((0.0, 0.0), (1.0, 0.0), (0.5, 1.0))]
    )
    pool = make_pool(np.repeat([0, 1, 2], 150), x=x, z=z)
    return DataSet(pool, SoftBox(["x", "z"]), None, x + z + 0.3 * rng.normal(size=450), 1.0)


def _near_corner(rng: Rng, n: int, corner: tuple[float, float], width: float) -> np.ndarray:
    """(2, n) density ∝ 1 within 0.6 of the corner in both directions, falling linearly to 0 over
    ``width``.
    """
    point = rng.uniform(size=(2, 30 * n))
    beyond = np.maximum(np.abs(point - np.array(corner)[:, None]) - 0.6, 0.0).sum(axis=0)
    return point[:, rng.uniform(size=30 * n) < 1.0 - beyond / width][:, :n]


def soft_box_two(rng: Rng) -> DataSet:
    """Three sources of 150 images around corners of the unit square, falling off over 0.25."""
    return _corners(rng, 0.25)


def soft_box_blurred(rng: Rng) -> DataSet:
    """The same, falling off over 0.7: hardly distinguishable from no selection."""
    return _corners(rng, 0.7)


# ---- features in addition to the value, for tests of fit


def strata_feature(rng: Rng) -> DataSet:
    """Label bias, and a feature that depends on the label alone."""
    data = strata(rng)
    label = (data.pool.frame["label"].to_numpy()[:, None] == np.array(LABELS)).argmax(axis=1)
    return _with_columns(data, x=rng.normal(label, 1.0))


def strata_groups_feature(rng: Rng) -> DataSet:
    """The same in groups, to which most of the feature belongs."""
    data = strata_groups(rng)
    group = data.pool.frame["group"].to_numpy()
    return _with_columns(
        data, x=rng.normal(size=group.max() + 1)[group] + 0.3 * rng.normal(size=group.size)
    )


def known_categorical(rng: Rng) -> DataSet:
    """Known shares of a categorical feature, and another one that plays no part."""
    source, label = _labels(rng, 100)
    omega = (MIX / MASS).T[label]
    pool = make_pool(source, kind=text(label), other=text(rng.choice(4, label.size)))
    return DataSet(pool, Known(omega), None, label.astype(float), float(MASS @ np.arange(3)))


def _with_columns(data: DataSet, **columns: np.ndarray) -> DataSet:
    return DataSet(
        Pool(data.pool.frame.assign(**columns)), data.bias, data.target, data.value, data.truth
    )


# ---- wrong models


def wrong_linear(rng: Rng) -> DataSet:
    """A linear tilt where the sources differ in their width."""
    source = np.repeat([0, 1], 200)
    x = rng.normal(0.0, np.array([0.8, 1.2])[source])
    return DataSet(
        make_pool(source, x=x), Tilt(["x"]), make_sample(150, x=rng.normal(size=150)), x, 0.0
    )


def wrong_known(rng: Rng) -> DataSet:
    """Half the tilt that the sources have."""
    data = known(rng)
    return DataSet(data.pool, Known(np.sqrt(data.bias.omega)), None, data.value, data.truth)


def wrong_strata(rng: Rng) -> DataSet:
    """Label bias where the sources differ by the light, too."""
    source, label = _labels(rng, 70)
    light = (rng.uniform(size=label.size) < np.where(source == 0, 0.3, 0.6)).astype(np.int64)
    target = Target.margins({"label": dict(zip(LABELS, MASS.tolist(), strict=True))})
    pool = make_pool(source, label=text(label), light=text(light), x=rng.normal(size=label.size))
    return DataSet(pool, Strata("label"), target, label.astype(float), float(MASS @ np.arange(3)))


def wrong_box(rng: Rng) -> DataSet:
    """A hard box where selection falls off linearly towards its ends."""
    source = np.repeat([0, 1], [150, 150])
    x = np.where(source == 0, rng.uniform(size=300), rng.triangular(0.0, 0.5, 1.0, size=300))
    return DataSet(make_pool(source, x=x), Box(["x"]), None, x, 0.5)


def wrong_product(rng: Rng) -> DataSet:
    """Label bias × tilt where the tilt differs between the labels."""
    source = np.repeat([0, 1, 2], [200, 200, 200])
    label = (rng.uniform(size=source.size) < np.array([0.3, 0.7, 0.5])[source]).astype(np.int64)
    x = rng.normal(np.array([0.7, -0.7, 0.0])[source] * (1 - 2 * label), 1.0)
    target = Target.margins({"label": {"a": 0.6, "b": 0.4}})
    # One factor for x cannot hold both directions; the product x × label shows it.
    pool = make_pool(source, x=x, label=text(label), cross=x * (1 - 2 * label))
    return DataSet(pool, Product(Strata("label"), Tilt(["x"], reference="c")), target, x, 0.0)


# One recipe for each family and product; further settings of the same; families whose likelihood is
# not regular.
PRINCIPAL: tuple[Recipe, ...] = (
    known,
    strata,
    strata_survey,
    tilt_small,
    propensity,
    strata_tilt,
    strata_known,
    known_tilt,
    strata_propensity,
)
VARIANTS: tuple[Recipe, ...] = (
    known_groups,
    subpopulation,
    strata_disconnected,
    strata_stderr,
    strata_thin,
    strata_groups,
    strata_units,
    strata_two,
    strata_raked,
    strata_raked_survey,
    strata_sample,
    strata_source,
    tilt,
    tilt_tiny,
    tilt_three,
    tilt_source,
    tilt_groups,
    tilt_categorical,
    tilt_quadratic,
    propensity_three,
    strata_survey_tilt,
)
BOXES: tuple[Recipe, ...] = (box, box_many)
SOFT_BOXES: tuple[Recipe, ...] = (soft_box, soft_box_two, soft_box_blurred)
