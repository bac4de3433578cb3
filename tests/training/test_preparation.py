"""What `unskew train` says of classes, weights and options before it trains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from unskew.training.preparation import Preparation


def _prepared(label: list[int], weight: list[float], n_train: int) -> Preparation:
    """Classes cat, dog, fox; the first images are train."""
    training = SimpleNamespace(
        splits=SimpleNamespace(train="train"),
        label=np.array(label),
        classes=("cat", "dog", "fox"),
        rows=lambda split: np.arange(n_train),
    )
    nothing = cast(Any, None)
    arm = SimpleNamespace(name="debiased", weight=np.array(weight))
    return Preparation(nothing, cast(Any, training), nothing, cast(Any, (arm,)), nothing, {})


def test_classes_that_train_cannot_teach_are_said_with_the_reason() -> None:
    end = "such a class cannot be learned, and predictions of it mean nothing."
    assert _prepared([0, 1, 2], [1, 1, 1], 3).unlearned() == []
    assert _prepared([0, 1, 0, 2], [1, 1, 1, 1], 3).unlearned() == [
        f"train has no image of fox: {end}"
    ]
    assert _prepared([0, 1, 2, 2], [1, 1, 0, 0], 4).unlearned() == [
        f"All images of fox (2) in train have weight 0 (debiased): {end}"
    ]
