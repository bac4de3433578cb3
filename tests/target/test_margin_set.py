"""A margin known up to a set: what a target with one refuses, and how it is written."""

from __future__ import annotations

import pandas as pd
import pytest

from raising import refused
from unskew import ConfigError, Target
from unskew.target.settings import read_target, written_target

MARGINS = {"label": {"fox": 0.6, "hare": 0.4}}


def test_distances_and_bounds_are_the_same_set() -> None:
    target = Target.margins(MARGINS, within=0.05)
    assert target.within["fox"] == pytest.approx((0.55, 0.65))
    bounds = {"fox": (0.55, 0.65), "hare": (0.35, 0.45)}
    assert Target.margins(MARGINS, within=bounds).within == bounds
    assert read_target(written_target(target), ".").within == target.within
    joint = pd.DataFrame({"sex": ["f", "m"], "label": ["fox", "hare"], "mass": [0.5, 0.5]})
    assert Target.table(joint, within={"f × fox": 0.1, "m × hare": 0.1}).within["f × fox"] == (
        pytest.approx((0.4, 0.6))
    )


def test_sets_around_nothing_are_refused() -> None:
    with refused(ConfigError, option="within"):
        Target.uniform("label", within=0.1)
    with refused(ConfigError, option="target"):
        Target.margins(MARGINS | {"sex": {"f": 0.5, "m": 0.5}}, within=0.1)
    with refused(ConfigError, option="within"):
        Target.margins(MARGINS, within=-0.1)
