"""Sixty images with weights, splits and predictions that are all right."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evaluation.judging import N


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"a/{at:02d}.jpg" for at in range(N)],
            "source": ["a", "b"] * (N // 2),
            "path": [f"photos/{at:02d}.jpg" for at in range(N)],
            "label": rng.choice(["cat", "dog"], N),
            "group": None,
            "split": (["train", "test", "validation"] * N)[:N],
            "weight": 1 / N,
            "sample_weight": rng.exponential(1, N),
        }
    )


@pytest.fixture
def predictions(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"id": table["id"], "prediction": table["label"]})
