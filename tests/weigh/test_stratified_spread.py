"""A stratum with a few images takes part of its spread from all images; others have their own."""

import math

import numpy as np
import pytest

from simulation_measures import measure_coverage
from simulations import DataSet, make_pool
from unskew import Target
from unskew.bias import Strata
from worlds_variance import THIN, lone_product

RNG = np.random.default_rng(12)


def estimate(value, label, mass, **columns):
    pool = make_pool(np.arange(value.size) % 2, label=np.array(label, dtype=object), **columns)
    target = Target.margins({"label": mass})
    return DataSet(pool, Strata("label"), target, value, 0.0).debias().mean(value)


def overall(value, label, mass):
    """Σ π (h − μ)²/(1 − Σ π²)."""
    weight = np.array([mass[level] / label.count(level) for level in label])
    mean = weight @ value
    return weight @ (value - mean) ** 2 / (1 - weight @ weight)


def test_a_stratum_with_one_image_has_the_spread_of_all_images():
    label = list("aaaaaabbbbbbc")
    value = np.array([0.0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20])
    mass = {"a": 0.3, "b": 0.3, "c": 0.4}
    seen = 2 * 0.3**2 * 3.5 / 6
    found = estimate(value, label, mass)
    assert found.stderr == pytest.approx(
        math.sqrt(seen + 0.4**2 * overall(value, label, mass)), rel=1e-12
    )


def test_a_stratum_with_a_few_images_has_part_of_it():
    label = list("aaaaaabb")
    value = np.array([0.0, 1, 2, 3, 4, 5, 9, 9])
    mass = {"a": 0.5, "b": 0.5}
    # Two images of the same value show no spread: two thirds of that of all images.
    hidden = 0.5**2 / 2 * overall(value, label, mass) * 2 / 3
    assert estimate(value, label, mass).stderr == pytest.approx(
        math.sqrt(0.5**2 * 3.5 / 6 + hidden), rel=1e-12
    )
    # A stratum that varies more than all images together keeps its own.
    wide = np.array([0.0, 0.1, 0.2, 0.1, 0.0, 0.2, -9, 9])
    own = 0.5**2 * np.var(wide[:6], ddof=1) / 6 + 0.5**2 * 162 / 2
    assert overall(wide, label, mass) < 162
    assert estimate(wide, label, mass).stderr == pytest.approx(math.sqrt(own), rel=1e-12)


def test_values_that_vary_in_no_stratum_have_no_error():
    label = list("aaaabbbbbbbc")
    value = np.array([{"a": -1.0, "b": 0.1, "c": 1.9}[level] for level in label])
    found = estimate(value, label, {"a": 0.6, "b": 0.1, "c": 0.3})
    assert found.stderr < 1e-12


def test_copies_within_groups_change_nothing():
    label, value = list("aaaaaaabbc"), RNG.normal(size=10)
    mass = {"a": 0.4, "b": 0.3, "c": 0.3}
    twice = estimate(
        np.repeat(value, 2), list(np.repeat(label, 2)), mass, group=np.repeat(np.arange(10), 2)
    )
    once = estimate(value, label, mass, group=np.arange(10))
    assert twice.stderr == pytest.approx(once.stderr, rel=1e-12)
    assert once.stderr == pytest.approx(estimate(value, label, mass).stderr, rel=1e-12)


def test_a_lone_image_counts_in_a_product_too():
    data = lone_product(np.random.default_rng(0))
    weights = data.debias()
    at = np.flatnonzero((data.pool.frame["label"] == "c").to_numpy())
    assert weights.weight[at] == pytest.approx([0.2])
    spread = np.sqrt(weights.weight @ (data.value - weights.weight @ data.value) ** 2)
    assert weights.mean(data.value).stderr > 0.2 * spread


@pytest.mark.slow
@pytest.mark.parametrize("recipe", THIN)
def test_intervals_hold_where_strata_are_thin(recipe):
    assert measure_coverage(recipe, 400, 5).share >= 0.93
