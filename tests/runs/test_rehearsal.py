"""A configuration rehearsed: with the way and the ridge of `[learn]`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unskew
from forecast_worlds import class_world
from unskew.config.sections import RepresentSection
from unskew.runs.rehearsal import rehearse_inputs


@pytest.mark.parametrize(
    ("of_settings", "way"), [({}, "half"), ({"way": "logit"}, "logit"), ({"way": "head"}, "half")]
)
def test_the_way_and_the_ridge_are_those_of_learn(of_settings: dict[str, str], way: Any) -> None:
    world = class_world([300, 100], seed=0)
    config = SimpleNamespace(
        represent=RepresentSection(),
        learn=SimpleNamespace(ridge=0.2, preset="fast", **of_settings),
        target=None,
        targets={},
        engine=SimpleNamespace(seed=0),
        solve=SimpleNamespace(settings=dict, max_uncovered=0.2),
    )
    inputs: Any = SimpleNamespace(
        pool=world.pool, bias=world.bias, target=world.target, config=config
    )
    rehearsal = rehearse_inputs(inputs, progress=False)
    own = unskew.rehearse(world.pool, world.bias, world.target, features=["x"], way=way, ridge=0.2)
    np.testing.assert_equal(rehearsal.to_dict(), own.to_dict())
