"""Which columns are shown."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

import unskew
from summary_pools import summary_of


def numbers(value: Any) -> list[float]:
    if is_dataclass(value):
        return [each for one in fields(value) for each in numbers(getattr(value, one.name))]
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in numbers(value[key])]
    if isinstance(value, tuple):
        return [each for one in value for each in numbers(one)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_the_many_numbers_of_one_representation_are_named_and_not_drawn() -> None:
    """Pixels or an embedding: none of its numbers says much by itself, unless the bias model reads
    it.
    """
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({f"embedding_{d}": rng.normal(size=200) for d in range(30)}).assign(
        hue_0=0.5, hue_1=rng.normal(size=200)
    )
    pool = unskew.Pool.from_frame(
        numbers.assign(source=["a", "b"] * 100, label=rng.integers(0, 2, 200))
    )
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    )
    shown = [panel.column for panel in found.distributions]
    assert sorted(shown) == ["hue_0", "hue_1", "label"]
    assert "embedding_0 … embedding_29: 30 numbers of one representation" in " ".join(
        found.not_corrected.not_shown
    )
    model = unskew.bias.Tilt(["embedding_3"], reference="a")
    read = summary_of(pool, unskew.debias(pool, model))
    assert "embedding_3" in [panel.column for panel in read.distributions]
