"""Pools for the tests of choosing a bias model."""

from __future__ import annotations

import numpy as np

import unskew


def tilted_pool(
    seed: int = 0, sizes: tuple[int, ...] = (400, 400), **columns: object
) -> unskew.Pool:
    """Source 0 is N(0, 1), source 1 is N(1, 1)."""
    drawn = unskew.scenarios.tilts(sizes, theta=[[0.0], [1.0]], rng=seed)
    return unskew.Pool.from_arrays(drawn.source.astype(str), x=drawn.features[:, 0], **columns)


def labelled_pool(seed: int = 0, n: int = 300) -> unskew.Pool:
    """Labels a, b, c: source 0 shows mostly a, source 1 mostly c; x depends on the label alone."""
    rng = np.random.default_rng(seed)
    label = np.concatenate(
        [rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.choice(3, n, p=[0.1, 0.3, 0.6])]
    )
    return unskew.Pool.from_arrays(
        np.repeat(["0", "1"], n),
        label=np.array(["a", "b", "c"])[label],
        x=label + rng.normal(size=2 * n),
    )
