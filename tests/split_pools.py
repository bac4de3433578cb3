"""Two sources with splits, and the bias models that weigh them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from unskew import Pool, Target
from unskew.bias import Box, Known, Product, Strata, Tilt

LABELS = np.array(["cat", "dog", "owl"])


def labelled_frame(n, seed=0, sources=("a", "b"), groups=False):
    """Sources that differ in their labels and in a feature x that depends on the label."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sources), n)
    lean = np.linspace(0.2, 0.6, len(sources))[source]
    label = np.where(rng.uniform(size=n) < lean, 0, rng.integers(1, 3, n))
    frame = pd.DataFrame(
        {"id": np.arange(n), "source": np.array(sources)[source], "label": LABELS[label]}
    )
    frame["x"] = rng.normal(0.5 * source + 0.3 * label, 1.0)
    if groups:
        frame["group"] = frame["source"] + frame["label"] + (np.arange(n) // 7).astype(str)
    return frame


def twice(frame):
    """Train and a split that is equal to it, its rows in another order."""
    copy = frame.sample(frac=1, random_state=1).assign(id=lambda f: f["id"] + 10**6)
    if "group" in frame:
        copy["group"] = copy["group"] + " again"
    return pd.concat([frame.assign(split="train"), copy.assign(split="copy")], ignore_index=True)


MARGINS = {"cat": 0.5, "dog": 0.3, "owl": 0.2}


SAMPLE = Pool.from_arrays(
    ["t"] * 150,
    x=np.random.default_rng(9).normal(0.4, 1.0, 150),
    label=np.random.default_rng(8).choice(LABELS, 150),
)


def known_a(frame):
    return np.exp(0.3 * frame["x"])


CASES = {
    "strata": (Strata("label"), Target.margins({"label": MARGINS})),
    "strata by group": (Strata("label"), Target.margins({"label": MARGINS}, unit="group")),
    "strata of a sample": (Strata("label"), Target.sample(SAMPLE)),
    "tilt to a sample": (Tilt(["x"]), Target.sample(SAMPLE)),
    "tilt to a source": (Tilt(["x"]), Target.source("b")),
    "strata and tilt": (
        Product(Strata("label"), Tilt(["x"], reference="a")),
        Target.margins({"label": MARGINS}),
    ),
    "strata and tilt by group": (
        Product(Strata("label"), Tilt(["x"], reference="a")),
        Target.margins({"label": MARGINS}, unit="group"),
    ),
    "strata and tilt to a sample": (Product(Strata("label"), Tilt(["x"])), Target.sample(SAMPLE)),
    "box": (Box(["x"]), None),
    "quantile box": (Box(["x"], quantile=0.05), None),
    "known": (Known({"a": known_a, "b": 1.0}), None),
}
