"""Levels are compared as text, and bins hold their lower edge."""

import numpy as np
import pandas as pd
import pytest

from raising import refused
from target_pools import mass_of
from unskew import DataError, Pool, Target


def test_levels_are_compared_as_text():
    data = Pool.from_arrays(["a"] * 3, [0, 1, 1])
    as_numbers = Target.margins({"label": {0: 0.25, 1: 0.75}}).stratify(data)
    as_text = Target.margins({"label": {"0": 0.25, "1": 0.75}}).stratify(data)
    assert mass_of(as_numbers) == mass_of(as_text) == {"0": 0.25, "1": 0.75}
    with_gaps = pd.DataFrame(
        {"source": "a", "label": [0.0, 1.0, None]}
    )  # integers that a missing value made floats
    assert Target.margins({"label": {0: 0.25, 1: 0.75}}, missing={"label": "drop"}).stratify(
        with_gaps
    ).code.tolist() == [0, 1, -1]
    booleans = Pool.from_arrays(["a"] * 2, [True, False])
    assert mass_of(Target.margins({"label": {True: 0.25, False: 0.75}}).stratify(booleans)) == {
        "True": 0.25,
        "False": 0.75,
    }


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    data = Pool.from_arrays(["a"] * 5, age=[0, 39.9, 40, 60, 120])
    target = Target.margins({"age": [0.2, 0.3, 0.5]}, bins={"age": [0, 40, 60, 120]})
    strata = target.stratify(data.frame[data.frame.index != 9])
    assert [strata.strata[c][0] for c in strata.code] == [
        "[0, 40)",
        "[0, 40)",
        "[40, 60)",
        "[60, 120]",
        "[60, 120]",
    ]
    assert mass_of(strata) == pytest.approx({"[0, 40)": 0.2, "[40, 60)": 0.3, "[60, 120]": 0.5})


def test_categories_may_have_missing_values_and_leftovers():
    label = pd.Categorical(["y", None, "x"], categories=["x", "leftover", "y"])
    strata = Target.uniform("label", missing={"label": "level"}).stratify(
        pd.DataFrame({"label": label})
    )
    assert mass_of(strata) == pytest.approx({"x": 1 / 3, "y": 1 / 3, "(missing)": 1 / 3})
    assert [strata.strata[c][0] for c in strata.code] == ["y", "(missing)", "x"]


def test_levels_that_are_fractions():
    strata = Target.margins({"stop": {1.4: 1, 2: 3}}).stratify(pd.DataFrame({"stop": [1.4, 2.0]}))
    assert mass_of(strata) == {"1.4": 0.25, "2": 0.75}


def test_values_that_read_the_same_are_refused():
    frame = pd.DataFrame({"label": np.array([3, "3"], dtype=object)})
    with refused(DataError, column="label", level="3"):
        Target.uniform("label").stratify(frame)
