"""Small data sets with known truth for ridges, lone images, groups of the target's sample, and
weights that are trimmed or shrunk; tables of them are printed by ``benchmarks/honest_errors.py
--part variance``.
"""

from __future__ import annotations

import numpy as np

from simulations import DataSet, Rng, make_pool, make_sample, text
from unskew.bias import Bias, Strata, Tilt

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


GROUPS = [strata_sample_groups, tilt_sample_groups, strata_sample_unlike]
