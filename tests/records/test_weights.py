"""Weights as a record: what happens to them outside a computation."""

from __future__ import annotations

import pickle

import pytest

import unskew
from two_sources import two_sources
from unskew import Pool, Target
from unskew.bias import Box, Product, SoftBox, Strata, Tilt


@pytest.mark.parametrize(
    "model",
    [
        SoftBox(["x"]),
        Product(Strata("label"), Tilt(["x"], reference="p")),
        Product(Strata("label"), SoftBox(["x"])),
        Box(["x"]),
    ],
)
def test_weights_survive_pickling(model):
    frame = two_sources()
    value = frame["x"].to_numpy()
    target = Target.uniform("label") if isinstance(model, Product) else None
    weights = unskew.debias(Pool.from_frame(frame), model, target)
    again = pickle.loads(pickle.dumps(weights))
    assert again.mean(value) == weights.mean(value)
