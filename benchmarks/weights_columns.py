"""What a method that knows numbers only is given: the features, and the label one-hot where the
target sample is labelled.
"""

from __future__ import annotations

import numpy as np


def columns(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(n, p) of the pool and (m, p) of the target sample."""
    if "sample_label" not in data:
        return data["features"], data["sample"]
    levels = np.unique(np.concatenate([data["label"], data["sample_label"]]))
    return (
        np.column_stack([data["features"], data["label"][:, None] == levels]),
        np.column_stack([data["sample"], data["sample_label"][:, None] == levels]),
    )
