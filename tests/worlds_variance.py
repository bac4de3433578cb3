"""Small data sets with known truth for ridges, lone images, groups of the target's sample, and
weights that are trimmed or shrunk; tables of them are printed by ``benchmarks/honest_errors.py
--part variance``.
"""

from __future__ import annotations

import numpy as np

from simulations import LETTERS, DataSet, Rng, make_pool, make_sample, text
from unskew.bias import Bias, Known, Product, Propensity, Strata, Tilt
from unskew.records import Pool, Target

MASS = np.array([0.5, 0.3, 0.2])
MIX = np.array([[0.2, 0.6, 0.2], [0.6, 0.1, 0.3]])


def _grouped_sample(rng: Rng, model: Bias, sizes: np.ndarray, alike: float) -> DataSet:
    """A labelled sample in groups; an image has its group's label with chance ``alike``."""
    group = np.repeat(np.arange(sizes.size), sizes)
    while True:
        shared = rng.choice(3, sizes.size, p=MASS)[group]
        own = rng.choice(3, group.size, p=MASS)
        label = np.where(rng.random(group.size) < alike, shared, own)
        if np.bincount(label, minlength=3).min() > 0:
            break
    source = np.repeat([0, 1], 300)
    pooled = np.concatenate([rng.choice(3, 300, p=mix) for mix in MIX])
    return DataSet(
        make_pool(source, label=text(pooled)),
        model,
        make_sample(group.size, label=text(label), group=group),
        2.0 * pooled + rng.normal(size=600),
        2.0 * float(MASS @ np.arange(3)),
    )


def strata_sample_groups(rng: Rng) -> DataSet:
    """Strata; a labelled sample of 40 groups of 1 to 8 images that are much alike."""
    return _grouped_sample(rng, Strata("label"), rng.integers(1, 9, 40), 0.7)


def tilt_sample_groups(rng: Rng) -> DataSet:
    """The same images by a tilt in the label, which has as many parameters as labels."""
    return _grouped_sample(rng, Tilt(["label"]), rng.integers(1, 9, 40), 0.7)


def strata_sample_unlike(rng: Rng) -> DataSet:
    """Strata; a labelled sample of 60 groups of three images, no more alike than others."""
    return _grouped_sample(rng, Strata("label"), np.full(60, 3), 0.0)


# ---- strata with a few images


def _thin(
    rng: Rng, size: list[int], mass: list[float], spread: list[float], between: float
) -> DataSet:
    """Strata of these sizes, masses and standard deviations; their means differ by ``between``."""
    level = np.repeat(np.arange(len(size)), size)
    mean = between * rng.normal(size=len(size))
    target = Target.margins({"label": dict(zip(LETTERS, mass, strict=False))})
    value = mean[level] + np.array(spread)[level] * rng.normal(size=level.size)
    pool = make_pool(np.arange(level.size) % 2, label=text(level))
    return DataSet(pool, Strata("label"), target, value, float(np.array(mass) @ mean))


def lone_alike(rng: Rng) -> DataSet:
    """One image in a stratum of mass 0.2; all strata vary alike."""
    return _thin(rng, [80, 60, 1], [0.5, 0.3, 0.2], [1.0, 1.0, 1.0], 1.0)


def lone_wild(rng: Rng) -> DataSet:
    """One image in a stratum of mass 0.2 that varies ten times as much as the others."""
    return _thin(rng, [80, 60, 1], [0.4, 0.4, 0.2], [0.1, 0.1, 1.0], 1.0)


def lone_light(rng: Rng) -> DataSet:
    """One image in a stratum of mass 0.05, three in one of mass 0.3."""
    return _thin(rng, [80, 60, 1, 3], [0.35, 0.3, 0.05, 0.3], [1.0, 0.5, 1.0, 1.0], 0.5)


def pair_alike(rng: Rng) -> DataSet:
    """Two images in a stratum of mass 0.3."""
    return _thin(rng, [80, 60, 2], [0.4, 0.3, 0.3], [1.0, 1.0, 1.0], 1.0)


def pair_shares(rng: Rng) -> DataSet:
    """Two images in a stratum of mass 0.25; what is estimated is a share of a third or so."""
    level = np.repeat(np.arange(3), [80, 60, 2])
    mass, chance = np.array([0.4, 0.35, 0.25]), np.array([0.2, 0.5, 0.35])
    return DataSet(
        make_pool(np.arange(level.size) % 2, label=text(level)),
        Strata("label"),
        Target.margins({"label": dict(zip(LETTERS, mass.tolist(), strict=False))}),
        (rng.random(level.size) < chance[level]).astype(float),
        float(mass @ chance),
    )


def lone_product(rng: Rng) -> DataSet:
    """One image in a stratum of mass 0.2, and known tilts within strata."""
    data = _thin(rng, [80, 60, 1], [0.5, 0.3, 0.2], [1.0, 1.0, 1.0], 1.0)
    x = rng.normal(0.4 * np.where(data.pool.source == 0, 1, -1), 1.0)
    tilts = Known(np.exp(x[:, None] * np.array([0.4, -0.4])))
    pool = Pool(data.pool.frame.assign(x=x))
    return DataSet(pool, Product(Strata("label"), tilts), data.target, data.value + x, data.truth)


# ---- ridge


def _penalised(rng: Rng, ridge: float) -> DataSet:
    """Three features that both sources shift alike, and a sample of 150."""
    x = rng.normal(size=(400, 3)) + np.where(np.arange(400) < 200, 0.5, 0.2)[:, None]
    columns = {f"x{at}": x[:, at] for at in range(3)}
    sample = make_sample(150, **{f"x{at}": rng.normal(size=150) for at in range(3)})
    pool = make_pool(np.repeat([0, 1], 200), **columns)
    return DataSet(pool, Tilt(list(columns), ridge=ridge), sample, x @ [1, 1, 0.5], 0.0)


def ridge_small(rng: Rng) -> DataSet:
    """Three features shifted in both sources, ridge 0.1."""
    return _penalised(rng, 0.1)


def ridge_one(rng: Rng) -> DataSet:
    """The same, ridge 1."""
    return _penalised(rng, 1.0)


def ridge_twenty(rng: Rng) -> DataSet:
    """The same, ridge 20."""
    return _penalised(rng, 20.0)


def _rare_level(rng: Rng, model: Bias) -> DataSet:
    chance = np.array([[0.6, 0.2, 0.15, 0.05], [0.3, 0.5, 0.1, 0.1]])
    level = np.concatenate([rng.choice(4, 150, p=row) for row in chance])
    sample = make_sample(120, kind=text(rng.integers(0, 4, 120)))
    pool = make_pool(np.repeat([0, 1], 150), kind=text(level))
    return DataSet(pool, model, sample, level + rng.normal(size=300), 1.5)


def ridge_levels(rng: Rng) -> DataSet:
    """A categorical feature with rare levels, ridge 20."""
    return _rare_level(rng, Tilt(["kind"], ridge=20.0))


def propensity_levels(rng: Rng) -> DataSet:
    """The same by logistic regression, whose ridge is 1."""
    return _rare_level(rng, Propensity(["kind"]))


# ---- many features, which weights are shrunk in together


def _many(rng: Rng, n_features: int, shift: float, bend: float = 0.0) -> DataSet:
    """Features shifted alike in both sources; the value is their sum, or bends with it."""
    x = rng.normal(size=(400, n_features)) + shift
    columns = {f"x{at}": x[:, at] for at in range(n_features)}
    sampled = rng.normal(size=(200, n_features))
    sample = make_sample(200, **{f"x{at}": sampled[:, at] for at in range(n_features)})
    total = x.sum(axis=1)
    value = total + bend * np.sin(total) + rng.normal(size=400)
    pool = make_pool(np.repeat([0, 1], 200), **columns)
    return DataSet(pool, Tilt(list(columns)), sample, value, 0.0)


def five_alike(rng: Rng) -> DataSet:
    """Five features, each off by a standard error and a half."""
    return _many(rng, 5, 0.12)


def ten_alike(rng: Rng) -> DataSet:
    """Ten features, each off by a standard error and a half."""
    return _many(rng, 10, 0.12)


def twenty_alike(rng: Rng) -> DataSet:
    """Twenty features, each off by a standard error and a half."""
    return _many(rng, 20, 0.12)


def ten_bent(rng: Rng) -> DataSet:
    """Ten features, each off by two standard errors, and an outcome that bends with their sum."""
    return _many(rng, 10, 0.16, 2.0)


def ten_right(rng: Rng) -> DataSet:
    """Ten features of which the pool is right."""
    return _many(rng, 10, 0.0)


MANY = [five_alike, ten_alike, twenty_alike, ten_bent, ten_right]
# ---- heavy weights, which are trimmed


def _heavy(rng: Rng, off: float, related: float) -> DataSet:
    """One Gaussian source ``off`` standard deviations from the target, with known ω."""
    x = rng.normal(off, 1.0, 200)
    pool = make_pool(np.zeros(200, dtype=np.int64), x=x)
    return DataSet(
        pool, Known(np.exp(off * x)[:, None]), None, related * x + rng.normal(size=200), 0.0
    )


def heavy_unrelated(rng: Rng) -> DataSet:
    """A source 1.3 standard deviations off; the value is unrelated to the weights."""
    return _heavy(rng, 1.3, 0.0)


def heavy_related(rng: Rng) -> DataSet:
    """The same; the value depends on what the weights depend on, with noise."""
    return _heavy(rng, 1.3, 0.5)


def heavy_same(rng: Rng) -> DataSet:
    """The same; the value is little else than what the weights depend on."""
    return _heavy(rng, 1.3, 3.0)


def light_same(rng: Rng) -> DataSet:
    """A source half a standard deviation off; the value is little else than what they depend on."""
    return _heavy(rng, 0.5, 3.0)


def power_share(rng: Rng) -> DataSet:
    """ω = x on [0, 1]: the smallest x weigh most; the value is a share that only they show."""
    x = np.sqrt(rng.random(200))
    pool = make_pool(np.zeros(200, dtype=np.int64), x=x)
    return DataSet(pool, Known(x[:, None]), None, (x < 0.3).astype(float), 0.3)


HEAVY = [heavy_unrelated, heavy_related, heavy_same, light_same, power_share]
RIDGES = [ridge_small, ridge_one, ridge_twenty, ridge_levels, propensity_levels]
# ---- shares that rest on a few images


def _share(
    rng: Rng, chance: np.ndarray, cell: np.ndarray, mass: float, **columns: object
) -> DataSet:
    """Values 0 and 1 in two strata, of which the first is ``mass`` of the target."""
    value = (rng.random(cell.size) < chance[cell]).astype(float)
    target = Target.margins({"cell": {"a": mass, "b": 1.0 - mass}})
    pool = make_pool(np.arange(cell.size) % 3, cell=text(cell), **columns)
    truth = mass * chance[0] + (1.0 - mass) * chance[1]
    return DataSet(pool, Strata("cell"), target, value, float(truth))


def rare_shares(rng: Rng) -> DataSet:
    """A share of 1% in one stratum and 3% in the other; 300 images."""
    return _share(rng, np.array([0.01, 0.03]), np.repeat([0, 1], [135, 165]), 0.5)


def rare_lopsided(rng: Rng) -> DataSet:
    """A share of 3%; the stratum that is four fifths of the target has 35 of 300 images."""
    return _share(rng, np.array([0.03, 0.03]), np.repeat([0, 1], [35, 265]), 0.8)


def rare_groups(rng: Rng) -> DataSet:
    """A share of 5% that differs much between 60 groups of five images."""
    group = np.repeat(np.arange(60), 5)
    value = (rng.random(300) < rng.beta(0.3, 5.7, 60)[group]).astype(float)
    pool = make_pool(group // 30, cell=text(np.arange(300) % 2), group=group)
    target = Target.margins({"cell": {"a": 0.5, "b": 0.5}})
    return DataSet(pool, Strata("cell"), target, value, 0.05)


def rare_known(rng: Rng) -> DataSet:
    """A share of 2% in 100 images with ω ≡ 1: none in one of eight data sets."""
    value = (rng.random(100) < 0.02).astype(float)
    pool = make_pool(np.zeros(100, dtype=np.int64), x=np.arange(100.0))
    return DataSet(pool, Known(np.ones((100, 1))), None, value, 0.02)


RARE = [rare_shares, rare_lopsided, rare_groups, rare_known]
THIN = [lone_alike, lone_wild, lone_light, pair_alike, pair_shares, lone_product]
GROUPS = [strata_sample_groups, tilt_sample_groups, strata_sample_unlike]
