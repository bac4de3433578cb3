"""Small pools for the tests of baselines."""

from __future__ import annotations

import numpy as np
import pandas as pd

from unskew import Pool

# Images by source and class; "night" has no truck.
COUNTS = {
    ("day", "car"): 6,
    ("day", "bus"): 3,
    ("day", "truck"): 1,
    ("night", "car"): 2,
    ("night", "bus"): 4,
}
TARGET = {"car": 0.5, "bus": 0.2, "truck": 0.3}


def small_pool(counts=COUNTS, **columns) -> Pool:
    source = [name for (name, _), size in counts.items() for _ in range(size)]
    label = [name for (_, name), size in counts.items() for _ in range(size)]
    n = len(label)
    return Pool.from_arrays(
        source,
        label,
        id=[f"image{row}" for row in range(n)],
        **{k: v(n) for k, v in columns.items()},
    )


def class_shares(pool: Pool, weight_n, by="label") -> dict[str, float]:
    return pd.Series(weight_n).groupby(pool.frame[by].astype(str)).sum().to_dict()


def two_gaussians(n0: int, n1: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n0, n1])
    return rng.normal(size=(n0 + n1, 2)) + 1.5 * y[:, None], y
