"""A table of weighted images whose attributes depend on one another, and known margins for it."""

import numpy as np


def table(seed=0, n=400):
    """Weights, two attributes that depend on one another, and a numeric one."""
    rng = np.random.default_rng(seed)
    label_n = rng.choice(["cat", "dog", "fox"], n, p=[0.2, 0.3, 0.5])
    camera_n = np.where(rng.random(n) < 0.6, (label_n == "cat").astype(int), rng.integers(0, 3, n))
    age_n = rng.normal(40, 10, n) + 3 * camera_n
    return rng.exponential(size=n), label_n, camera_n, age_n


LABELS = {"cat": 0.5, "dog": 0.3, "fox": 0.2}


CAMERAS = {0: 0.25, 1: 0.35, 2: 0.4}
