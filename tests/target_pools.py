"""Pools for tests of targets, and the masses of their strata by level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from unskew import Pool

ANIMALS = {"cat": 0.5, "dog": 0.3, "fox": 0.2}
LIGHT = {"day": 0.4, "night": 0.6}
WITH_OKAPI = {"cat": 0.4, "dog": 0.3, "fox": 0.2, "okapi": 0.1}


def animal_pool(seed: int = 0, n: int = 600) -> Pool:
    """Two attributes that depend on one another, a numeric one, and groups within a label."""
    rng = np.random.default_rng(seed)
    label_n = rng.choice(list(ANIMALS), n, p=[0.2, 0.3, 0.5])
    light_n = np.where(rng.random(n) < 0.3 + 0.4 * (label_n == "cat"), "day", "night")
    return Pool.from_arrays(
        rng.choice(["north", "south"], n),
        label_n,
        light=light_n,
        age=rng.uniform(0, 100, n),
        group=[f"{x}{rng.integers(20)}" for x in label_n],
    )


def small_pool() -> Pool:
    return Pool.from_arrays(
        ["a", "a", "b", "b", "b", "b"],
        ["cat", "dog", "fox", "fox", "cat", "dog"],
        light=["day", "night"] * 3,
    )


def with_empty(n_empty: int = 150) -> pd.DataFrame:
    """`animal_pool` and images of a level that no target names."""
    frame = animal_pool().frame[["source", "label", "group"]].copy()
    empty = pd.DataFrame(
        {
            "source": "north",
            "label": ["empty"] * n_empty,
            "group": [f"e{i // 3}" for i in range(n_empty)],
        }
    )
    return pd.concat([frame, empty], ignore_index=True)


def with_gaps() -> pd.DataFrame:
    return pd.DataFrame(
        {"source": "a", "label": ["x", "x", "y", None], "sex": ["f", None, "m", "m"]}
    )


def mass_of(strata: Any) -> dict[Any, float]:
    """{level or levels: target mass}."""
    return {
        cell[0] if len(cell) == 1 else cell: mass
        for cell, mass in zip(strata.strata, strata.mass.tolist(), strict=True)
    }


def margin_of(strata: Any, attribute: str) -> dict[Any, float]:
    at = strata.by.index(attribute)
    return pd.Series(strata.mass).groupby([cell[at] for cell in strata.strata]).sum().to_dict()


def counts(frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    return frame.groupby(list(by)).size().reset_index(name="count")
