"""unskew itself, in the environment that runs the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import unskew

PACKAGES = ("unskew", "numpy", "scipy", "numba", "pandas", "scikit-learn")
Compute = Callable[[], np.ndarray]


def _pool(features: np.ndarray, source: np.ndarray, label: np.ndarray | None = None) -> unskew.Pool:
    return unskew.Pool.from_arrays(source, label=label, **{f"x{j}": column for j, column in enumerate(features.T)})


def _names(data: dict[str, np.ndarray]) -> list[str]:
    return [f"x{j}" for j in range(data["features"].shape[1])]


def _known(data: dict[str, np.ndarray]) -> Compute:
    return lambda: np.asarray(unskew.debias_weights(data["log_omega"], data["source"], log=True).weight)


METHODS: dict[str, Callable[[dict[str, Any]], Compute]] = {
    "known": _known,
}
