"""What varies independently: units, strata, their spread, and values that do not fit the images."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import unskew
from problems import random_problem
from raising import refused
from unskew.errors import DataError
from unskew.weigh.sampling_units import (
    centre_within_sources,
    check_order,
    check_values,
    degrees_of_freedom,
    design_effect,
    find_units,
)
from weighed_tilts import draw, weigh


def test_units_and_strata():
    omega = np.ones((8, 3))
    source = [0, 0, 0, 1, 1, 2, 2, 2]
    nested = find_units(weigh(omega, source, group=[5, 5, 6, 1, 2, 7, 7, 8]))
    assert sorted(nested.size_s.tolist()) == [2, 2, 2]
    spanning = find_units(weigh(omega, source, group=[5, 5, 6, 6, 2, 7, 7, 8]))
    assert sorted(spanning.size_s.tolist()) == [2, 3]
    assert find_units(weigh(omega, source)).size_s.tolist() == [3, 2, 3]


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        (np.zeros(3), {"count": 270, "value": [3]}),
        (np.zeros((270, 2)), {"count": 270, "value": [270, 2]}),
        (np.full(270, np.nan), {"row": 0}),
        (np.append(np.zeros(269), np.inf), {"row": 269, "value": np.inf}),
        (["a"] * 270, {"value": "<U1"}),
    ],
)
def test_bad_values(values, facts):
    _, omega, source, _ = draw()
    weights = weigh(omega, source)
    with refused(DataError, **facts):
        weights.mean(values)
    with refused(DataError, **facts):
        weights.bootstrap(2, values=values)


def test_values_are_not_joined_by_position_against_their_index() -> None:
    problem = random_problem(2, 120, 2, zeros=0.0)
    weights = unskew.debias_weights(problem.omega, problem.source, id=[f"i{i}" for i in range(120)])
    values = pd.Series(np.arange(120.0), index=weights.id)
    assert weights.mean(values) == weights.mean(values.to_numpy())
    assert weights.mean(values.reset_index(drop=True)).value == weights.mean(values).value
    with refused(unskew.DataError, option="values"):
        weights.mean(values.iloc[::-1])
    with refused(unskew.DataError, option="values"):
        weights.bootstrap(2, values=values.iloc[::-1])


def rows(source, weight=None, group=None):
    source = np.asarray(source)
    n = source.size
    return SimpleNamespace(
        names=tuple(str(k) for k in range(int(source.max()) + 1)),
        source=source,
        weight=np.full(n, 1 / n) if weight is None else np.asarray(weight, dtype=float),
        unit=None if group is None else np.asarray(group),
        design_weight=None,
    )


@pytest.mark.parametrize(
    ("source", "group", "expected"),
    [
        ([0, 0, 1], None, False),
        ([0], None, True),
        ([0, 0, 1, 1], [5, 5, 6, 6], True),  # one group in every stratum
        ([0, 0, 1, 1], [5, 5, 6, 7], False),
        ([0, 1], [5, 6], False),  # groups of one image are images
        ([0, 0, 1, 1], [5, 5, 5, 5], True),
    ],
)
def test_what_cannot_vary(source, group, expected):
    assert find_units(rows(source, group=group)).cannot_vary is expected


def test_equal_weights_of_one_source_spread_as_the_textbook_says():
    """Σ spread² of the influences h − h̄ is s²/n."""
    value_n = np.random.default_rng(0).normal(size=40)
    given = rows(np.zeros(40, dtype=int))
    spread_m = centre_within_sources(given, find_units(given), value_n)
    assert spread_m @ spread_m == pytest.approx(np.var(value_n, ddof=1) / 40, rel=1e-12)


def test_groups_of_copies_spread_as_their_images_would_alone():
    value_n = np.random.default_rng(0).normal(size=30)
    alone = rows(np.zeros(30, dtype=int))
    copied = rows(np.zeros(90, dtype=int), group=np.repeat(np.arange(30), 3))
    one_m = centre_within_sources(alone, find_units(alone), value_n)
    three_m = centre_within_sources(copied, find_units(copied), np.repeat(value_n, 3))
    np.testing.assert_allclose(three_m, one_m, rtol=1e-12)


def test_copies_within_groups_multiply_the_design_effect_by_their_number():
    value_n = np.random.default_rng(0).normal(size=30)
    source = np.repeat([0, 1], 15)
    alone = rows(source)
    assert design_effect(alone, find_units(alone), value_n) == 1.0
    single = rows(source, group=np.arange(30))
    assert design_effect(single, find_units(single), value_n) == pytest.approx(1.0, rel=1e-12)
    copied = rows(np.repeat(source, 4), group=np.repeat(np.arange(30), 4))
    assert design_effect(copied, find_units(copied), np.repeat(value_n, 4)) == pytest.approx(
        4.0, rel=1e-12
    )


def test_where_nothing_varies_the_images_of_a_group_count_as_copies():
    """Σ_j m_j²/n, for groups of 3, 2 and 1."""
    given = rows(np.zeros(6, dtype=int), group=[0, 0, 0, 1, 1, 2])
    assert design_effect(given, find_units(given), np.ones(6)) == pytest.approx(14 / 6, rel=1e-12)


def test_degrees_of_freedom_are_those_of_welch_and_satterthwaite():
    assert degrees_of_freedom(np.array([2.0]), np.array([11])) == pytest.approx(10.0)
    assert degrees_of_freedom(np.array([3.0, 3.0]), np.array([8, 8])) == pytest.approx(14.0)
    assert degrees_of_freedom(np.array([1.0, 4.0]), np.array([6, 11])) == pytest.approx(
        25 / (1 / 5 + 16 / 10)
    )
    # Of any size; without a spread, those of all strata.
    tiny = degrees_of_freedom(np.array([1e-300, 4e-300]), np.array([6, 11]))
    assert tiny == pytest.approx(25 / (1 / 5 + 16 / 10))
    for variance in (0.0, np.inf):
        assert degrees_of_freedom(np.array([0.0, variance]), np.array([6, 11])) == 15.0


def test_only_the_ids_in_another_order_are_taken_for_a_mistake():
    weights = SimpleNamespace(id=np.array(["a", "b", "c"]), weight=np.ones(3) / 3)
    for index in (["a", "b", "c"], [0, 1, 2], ["a", "b", "x"]):
        check_order(pd.Series([1, 2, 3], index=index), weights)
    check_order([1, 2, 3], weights)
    with refused(DataError, option="values"):
        check_order(pd.Series([1, 2, 3], index=["b", "a", "c"]), weights)


def test_values_become_floats():
    assert check_values([True, False], 2).tolist() == [1.0, 0.0]
    assert check_values(np.arange(3), 3).dtype == np.float64
