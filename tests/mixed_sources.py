"""Sources whose images differ in label, x and y, margins of the label, and a product for both."""

from __future__ import annotations

import numpy as np

from unskew import Pool, Target
from unskew.bias import Product, Strata, Tilt

MASS = {"cat": 0.6, "dog": 0.4}
MARGIN = Target.margins({"label": MASS})


def mixed_pool(seed=0, n=400, **columns):
    rng = np.random.default_rng(seed)
    source = rng.choice(["a", "b", "c"], n)
    label = np.where(rng.random(n) < 0.3 + 0.4 * (source == "a"), "cat", "dog")
    x = rng.normal(size=n) + 0.6 * (source == "a") + 0.5 * (label == "cat")
    y = rng.normal(size=n) - 0.5 * (source == "b") + 0.3 * x
    return Pool.from_arrays(source, label, x=x, y=y, **columns)


HALVES = Target.margins({"label": {"a": 0.5, "b": 0.5}})
TILTED = Product(Strata("label"), Tilt(["x"], reference="p"))


def simple_pool(n=300, seed=0, **columns):
    rng = np.random.default_rng(seed)
    source = np.where(np.arange(n) % 2, "a", "b")
    return Pool.from_arrays(
        source,
        rng.choice(["cat", "dog"], n),
        x=rng.normal(size=n) + 0.4 * (source == "b"),
        **columns,
    )
