"""Two sources p and q whose images differ in x, with labels a, b and c."""

from __future__ import annotations

import numpy as np
import pandas as pd


def two_sources(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """n images, half of each source; x is larger by 0.5 in q, z and label are alike in both."""
    rng = np.random.default_rng(seed)
    source = np.repeat(["p", "q"], n // 2)
    x = rng.normal(size=n) + np.where(source == "q", 0.5, 0.0)
    return pd.DataFrame(
        {
            "source": source,
            "label": rng.choice(["a", "b", "c"], size=n),
            "x": x,
            "z": rng.normal(size=n),
        }
    )
