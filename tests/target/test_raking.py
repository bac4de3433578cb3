"""Raking a table to margins: the limit of proportional fitting, and what cannot be reached."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from raising import refused
from unskew import CoverageError, Pool, Target
from unskew.target.raking import MarginOfCells, rake_table, sweep_margins


def test_margins_that_need_empty_combinations_cannot_be_raked():
    data = Pool.from_arrays(
        ["a"] * 4, ["cat", "cat", "dog", "dog"], light=["day", "day", "night", "night"]
    )
    with refused(CoverageError, columns=["label", "light"]) as caught:
        Target.margins({"label": {"cat": 1, "dog": 1}, "light": {"day": 1, "night": 3}}).stratify(
            data
        )
    caught.match(r"the pool's own table.*Target\.table")
    caught.match("light = day: 0.5 instead of 0.25|label = cat: 0.25 instead of 0.5")


def test_a_level_all_of_whose_cells_have_no_mass_is_named():
    margins = {"label": {"cat": 1, "dog": 1}, "light": {"day": 1, "night": 0}}
    data = Pool.from_arrays(["a"] * 3, ["cat", "cat", "dog"], light=["day", "night", "night"])
    with refused(CoverageError, column="label", levels=["dog"]):
        Target.margins(margins).stratify(data)


@given(st.integers(0, 10**6))
def test_raking_is_the_limit_of_proportional_fitting(seed):
    rng = np.random.default_rng(seed)
    weight_c, code_ca = rng.dirichlet(np.ones(12)), [np.arange(12) // 4, np.arange(12) % 4]
    masses = [rng.dirichlet(np.full(3, 5.0)), rng.dirichlet(np.full(4, 5.0))]
    margins = [
        MarginOfCells(name, tuple(map(str, range(mass_l.size))), mass_l, code_c)
        for name, mass_l, code_c in zip("ab", masses, code_ca, strict=True)
    ]
    raked_c = rake_table(weight_c, margins)
    swept_c = weight_c
    for _ in range(60):
        swept_c = sweep_margins(swept_c, code_ca, masses)
    np.testing.assert_allclose(raked_c, swept_c, atol=1e-9)
    for mass_l, code_c in zip(masses, code_ca, strict=True):
        np.testing.assert_allclose(np.bincount(code_c, raked_c), mass_l, atol=1e-12)
