"""Adjusted p-values: Holm's by hand, monotone, and right under the worst dependence."""

import math

import numpy as np
import pytest

from unskew.records.holm import holm


def test_a_case_by_hand():
    # 4 × 0.01, 3 × 0.02 = 0.06, 2 × 0.03 = 0.06, 0.2
    p = holm([("a", 0.03), ("b", 0.01), ("c", 0.2), ("d", 0.02)])
    assert p == pytest.approx({"b": 0.04, "d": 0.06, "a": 0.06, "c": 0.2})


def test_one_test_is_not_adjusted_and_tests_that_were_not_made_do_not_count():
    assert holm([("a", 0.03), ("b", math.nan)]) == {"a": 0.03}
    assert holm([]) == {}


def test_p_values_stay_at_most_one_and_in_order():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=9)
    adjusted = holm((str(at), value) for at, value in enumerate(p))
    in_order = [adjusted[str(at)] for at in np.argsort(p)]
    assert in_order == sorted(in_order)
    assert max(in_order) <= 1.0
    assert all(adjusted[str(at)] >= value for at, value in enumerate(p))


def test_the_chance_of_any_objection_is_at_most_the_level():
    # Disjoint rejections are the worst case: the bound is attained.
    u = (np.arange(10_000) + 0.5) / 10_000
    rejected = [min(holm([("a", one), ("b", 1 - one)]).values()) < 0.05 for one in u]
    assert np.mean(rejected) == pytest.approx(0.05, abs=1e-3)
