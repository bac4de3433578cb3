"""What a baseline does with its weights: fitting estimators, joining by id."""

from __future__ import annotations

from dataclasses import replace

import pytest

from baseline_pools import small_pool
from raising import refused
from unskew import DataError
from unskew.learn import make_baseline


def test_weights_are_joined_by_id() -> None:
    found = make_baseline("class_balanced", small_pool())
    assert found.align(["image9", "image0"]) == pytest.approx(found.weight[[9, 0]])
    with refused(DataError, ids=["image99"]):
        found.align(["image0", "image99"])


def test_a_baseline_cannot_be_changed() -> None:
    found = make_baseline("naive", small_pool())
    with pytest.raises(AttributeError):
        found.name = "other"  # type: ignore[misc]
    assert replace(found, name="other").name == "other"
