"""Pools of labelled images and unlabelled images of a target, with the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unskew import Pool, Target
from unskew.records import Floats, Ints

ANIMALS = np.array(["cat", "dog", "fox"])
# Classes are told apart by the first three of six numbers, and by nothing else.
MEANS = 3.0 * np.eye(3, 6)
Shift = Callable[[Ints], Floats]


def no_shift(label_n: Ints) -> Floats:
    return np.zeros((label_n.size, 6))


def tilt_alike(label_n: Ints) -> Floats:
    """Images of every class are farther along the fourth number."""
    return np.tile(np.eye(6)[3] * 0.8, (label_n.size, 1))


def tilt_by_class(label_n: Ints) -> Floats:
    """Cats are farther along the fourth number, the others less far."""
    sign_n = np.where(label_n == 0, 1.0, -1.0)
    return np.asarray(sign_n[:, None] * np.eye(6)[3])


def draw_images(
    rng: np.random.Generator, n: int, share: list[float], shift: Shift = no_shift
) -> tuple[Ints, Floats]:
    label_n = rng.choice(3, n, p=share)
    return label_n, MEANS[label_n] + rng.normal(size=(n, 6)) + shift(label_n)


def make_pool(x_nd: Floats, source: list[str], label_n: Ints | None = None) -> Pool:
    columns = {f"x_{d}": x_nd[:, d] for d in range(x_nd.shape[1])}
    if label_n is not None:
        columns["label"] = ANIMALS[label_n]
    return Pool.from_arrays(np.array(source), **columns)


def shifted_world(
    seed: int,
    *,
    share: list[float],
    shift: Shift = no_shift,
    n: int = 1200,
    n_target: int = 300,
    labelled: bool = False,
    sources: int = 2,
) -> tuple[Pool, Target, Floats]:
    """Return (pool with the shares 0.6, 0.3, 0.1; target; the target's own shares)."""
    rng = np.random.default_rng(seed)
    label_n, x_nd = draw_images(rng, n, [0.6, 0.3, 0.1])
    pool = make_pool(x_nd, [f"source {i % sources}" for i in range(n)], label_n)
    label_m, x_md = draw_images(rng, n_target, share, shift)
    sample = make_pool(x_md, ["t"] * n_target, label_m if labelled else None)
    return pool, Target.sample(sample), np.bincount(label_m, minlength=3) / n_target


def class_mass(pool: Pool, weight_n: Floats) -> Floats:
    """(3,) the weight of each class."""
    label = pool.frame["label"].to_numpy()
    return np.array([weight_n[label == name].sum() for name in ANIMALS])
