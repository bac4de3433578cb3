"""balance's weighting methods: the pool as the sample, the target sample (or a frame with the
target's shares) as the target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from balance.weighting_methods.cbps import cbps
from balance.weighting_methods.ipw import ipw
from balance.weighting_methods.poststratify import poststratify
from balance.weighting_methods.rake import rake

logging.disable(logging.CRITICAL)
PACKAGES = ("balance", "pandas", "scikit-learn", "numpy", "scipy")
Compute = Callable[[], np.ndarray]
MARGIN_ROWS = 10_000  # a frame in which every level has its target share


def _frame(features: np.ndarray, label: np.ndarray | None) -> pd.DataFrame:
    frame = pd.DataFrame(features, columns=[f"x{j}" for j in range(features.shape[1])])
    return (
        frame
        if label is None
        else frame.assign(label=pd.Series(label).map(lambda level: f"c{level}"))
    )


def _ones(frame: pd.DataFrame) -> pd.Series:
    return pd.Series(np.ones(len(frame)), index=frame.index)


def _to_sample(
    method: Callable[..., dict[str, Any]], **options: Any
) -> Callable[[dict[str, np.ndarray]], Compute]:
    def prepare(data: dict[str, np.ndarray]) -> Compute:
        sample_label = data.get("sample_label")
        pool = _frame(data["features"], None if sample_label is None else data["label"])
        target = _frame(data["sample"], sample_label)
        return lambda: method(pool, _ones(pool), target, _ones(target), **options)[
            "weight"
        ].to_numpy()

    return prepare


def _to_margin(method: Callable[..., dict[str, Any]]) -> Callable[[dict[str, np.ndarray]], Compute]:
    """On the label alone, whose target shares are known."""

    def prepare(data: dict[str, np.ndarray]) -> Compute:
        pool = _frame(data["features"], data["label"])[["label"]]
        count = np.round(data["margin"] * MARGIN_ROWS).astype(int)
        target = pd.DataFrame(
            {"label": np.repeat([f"c{level}" for level in range(count.size)], count)}
        )
        return lambda: method(
            pool, _ones(pool), target, _ones(target), variables=["label"], transformations=None
        )["weight"].to_numpy()

    return prepare


METHODS = {
    "balance_ipw": _to_sample(ipw, num_lambdas=25),
    "balance_ipw_raw": _to_sample(ipw, transformations=None, num_lambdas=25),
    "balance_rake": _to_sample(rake),
    "balance_cbps": _to_sample(cbps, transformations=None),
    "balance_rake_margin": _to_margin(rake),
    "balance_poststratify": _to_margin(poststratify),
}
