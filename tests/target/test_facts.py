"""Margins and joint tables: counts, probabilities, bins and survey errors."""

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from raising import refused
from target_pools import ANIMALS, animal_pool, mass_of, small_pool
from unskew import ConfigError, DataError, Target
from unskew.target.facts import binned_levels


@given(st.lists(st.integers(0, 1000), min_size=3, max_size=3), st.integers(1, 1000))
def test_a_multiple_of_all_counts_changes_nothing(number, factor):
    assume(sum(number) > 0)
    once = Target.margins({"label": dict(zip(ANIMALS, number, strict=True))})
    often = Target.margins(
        {"label": dict(zip(ANIMALS, [factor * each for each in number], strict=True))}
    )
    assert once.facts[0].mass == pytest.approx(often.facts[0].mass, abs=1e-15)
    assert sum(once.facts[0].mass) == pytest.approx(1, abs=1e-15)


def test_finer_levels_are_added_up_within_bins():
    data = animal_pool()
    bins = {"age": [0, 40, 60, 100]}
    by_year = {year: year + 1 for year in range(100)}
    coarse = {
        "[0, 40)": sum(range(1, 41)),
        "[40, 60)": sum(range(41, 61)),
        "[60, 100]": sum(range(61, 101)),
    }
    expected = mass_of(Target.margins({"age": coarse}, bins=bins).stratify(data))
    assert mass_of(Target.margins({"age": by_year}, bins=bins).stratify(data)) == pytest.approx(
        expected
    )
    table = pd.DataFrame({"age": list(by_year), "count": list(by_year.values())})
    assert mass_of(Target.table(table, bins=bins).stratify(data)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("masses", "message", "facts"),
    [
        ({"cat": 0.5, "dog": 0.3}, "'label'.* 0.8, 0.2 too little", {"value": 0.8}),
        ({"cat": 0.5, "dog": 0.6}, "1.1, 0.1 too much", {"value": 1.1}),
        ({"cat": 0.333, "dog": 0.333, "fox": 0.333}, "0.999, 0.001 too little", {}),
        ({"cat": 40.5, "dog": 59.5}, "99 too much. .*percentages", {"value": 100.0}),
        ({"cat": 1.5, "dog": -0.5}, "'label'", {"value": -0.5, "level": "label = dog"}),
        ({"cat": 10, "dog": -1}, "'label'", {"value": -1.0, "level": "label = dog"}),
        ({"cat": float("nan"), "dog": 1}, "nan", {"level": "label = cat"}),
        (
            {"cat": float("inf"), "dog": 1},
            "'label'",
            {"value": float("inf"), "level": "label = cat"},
        ),
        ({"cat": 0, "dog": 0}, "'label' has no mass", {}),
        ({}, "'label' has no mass", {}),
        ({"cat": "many"}, "'label'", {"value": "many"}),
        ({1: 0.5, "1": 0.5}, "'label'.* twice", {"column": "label", "levels": ["1", "1"]}),
    ],
)
def test_numbers_that_are_no_distribution_are_refused(masses, message, facts):
    with refused(DataError, **facts) as caught:
        Target.margins({"label": masses})
    caught.match(message)


def test_ten_digits_are_enough():
    third = 0.3333333333
    assert sum(
        Target.margins({"label": dict.fromkeys(ANIMALS, third)}).facts[0].mass
    ) == pytest.approx(1, abs=1e-15)


def test_margins_that_do_not_fit_the_bins_are_refused():
    with refused(DataError, column="age", count=3, limit=2):
        Target.margins({"age": [1, 2, 3]}, bins={"age": [0, 40, 80]})
    with refused(DataError, option="bins", column="age", levels=["> 80"]):
        Target.margins({"age": {20: 5, 99: 5}}, bins={"age": [0, 40, 80]})
    with refused(DataError, column="age", value=-5.0):
        Target.margins({"age": {20: -5, 21: 10}}, bins={"age": [0, 40, 80]})
    with refused(DataError, column="label", levels=["cat", "dog", "fox"]):
        Target.uniform("label", bins={"label": [0, 1]}).stratify(small_pool())


def test_impossible_survey_errors_are_refused():
    with refused(ConfigError, option="n"):
        Target.margins({"label": {"mass": ANIMALS, "n": 4, "stderr": ANIMALS}})
    for n in (0, -3, float("nan"), "many"):
        with refused(ConfigError, option="n", value=n):
            Target.margins({"label": {"mass": ANIMALS, "n": n}})
    with refused(ConfigError, column="label", value=["size"], allowed=["mass", "n", "stderr"]):
        Target.margins({"label": {"mass": ANIMALS, "size": 3}})
    with refused(DataError, column="label", levels=["fox"]):
        Target.margins({"label": {"mass": ANIMALS, "stderr": {"cat": 0.1, "dog": 0.1}}})
    with refused(DataError, column="label", levels=["dog"]):
        Target.margins(
            {"label": {"mass": ANIMALS, "stderr": {"cat": 0.1, "dog": -0.1, "fox": 0.1}}}
        )
    with refused(DataError, columns=["label"], value=0.1, limit=pytest.approx(0.02)):
        Target.margins(
            {"label": {"mass": ANIMALS, "stderr": {"cat": 0.1, "dog": 0.01, "fox": 0.01}}}
        )


def test_impossible_tables_are_refused():
    with refused(DataError, columns=["label", "number"]):
        Target.table(pd.DataFrame({"label": ["cat"], "number": [1]}))
    with refused(DataError, columns=["label", "count", "share"]):
        Target.table(pd.DataFrame({"label": ["cat"], "count": [1], "share": [1.0]}))
    with refused(DataError, column="sex", columns=["label", "count"]):
        Target.table(pd.DataFrame({"label": ["cat"], "count": [1]}), by=["sex"])
    with pytest.raises(DataError, match="no rows"):
        Target.table(pd.DataFrame({"label": [], "count": []}))
    with refused(DataError, value=-1.0, level="label = dog"):
        Target.table(pd.DataFrame({"label": ["cat", "dog"], "count": [1, -1]}))
    with pytest.raises(DataError, match=r"label: .* 0.25 too little"):
        Target.table(pd.DataFrame({"label": ["cat", "dog"], "share": [0.5, 0.25]}))


def test_numbers_beyond_those_of_a_computer_are_named():
    for masses in ({"cat": 1e308, "dog": 1e308}, {"cat": 10**400, "dog": 1}):
        with pytest.raises(DataError, match="label"):
            Target.margins({"label": masses})


def test_a_whole_number_beyond_a_float_is_in_no_bin():
    with refused(DataError, column="z"):
        binned_levels(pd.Series(["9" * 400]), "z", [0.0, 1.0])
