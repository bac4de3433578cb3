"""Several targets at once: the weights of each alone, the worst case, and what hangs on it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import unskew
from raising import refused
from unskew import CoverageError, DataError, Pool, Target
from unskew.bias import Product, Strata, Tilt

CITY = Target.margins({"label": {"cat": 0.8, "dog": 0.2}})
FARM = Target.margins({"label": {"cat": 0.4, "dog": 0.6}})
SURVEYED = Target.margins({"label": {"mass": {"cat": 0.7, "dog": 0.3}, "n": 50}})
EVEN = Target.uniform("label")
WITHOUT_FOX = {"label": {"cat": 0.5, "dog": 0.3, "fox": 0.2}}


@pytest.fixture(scope="module")
def pool() -> Pool:
    rng = np.random.default_rng(0)
    source = np.repeat(["a", "b"], 400)
    cat = rng.random(800) < np.where(source == "a", 0.3, 0.7)
    z = rng.normal(cat - 0.3 * (source == "a"), 1.0)
    return Pool.from_arrays(source, label=np.where(cat, "cat", "dog"), z=z)


def draw_sample(shift: float, size: int = 200) -> Target:
    z = np.random.default_rng(int(10 * shift)).normal(shift, 1.0, size)
    return Target.sample(Pool.from_arrays(["t"] * size, z=z))


@pytest.mark.parametrize(
    ("bias", "targets"),
    [
        (Strata("label"), {"city": CITY, "farm": FARM, "even": EVEN, "surveyed": SURVEYED}),
        (Product(Strata("label"), Tilt(["z"], reference="a")), {"city": CITY, "farm": FARM}),
        (Tilt(["z"]), {"low": draw_sample(0.0), "high": draw_sample(0.4)}),
        (Tilt(["z"]), {"a": Target.source("a"), "low": draw_sample(0.0)}),
    ],
)
def test_each_target_has_the_weights_and_means_of_that_target_alone_in_any_order(
    pool: Pool, bias: unskew.bias.Bias, targets: dict[str, Target]
) -> None:
    z = pool.frame["z"].to_numpy()
    both = unskew.debias_targets(pool, bias, targets, check_sample=False)
    backwards = unskew.debias_targets(
        pool, bias, dict(reversed(targets.items())), check_sample=False
    )
    assert both.names == tuple(targets) == backwards.names[::-1]
    for name, target in targets.items():
        alone = unskew.debias(pool, bias, target, check_sample=False)
        # The same computation, not one that comes close.
        np.testing.assert_array_equal(both.weights[name].weight, alone.weight)
        np.testing.assert_array_equal(backwards.weights[name].weight, alone.weight)
        assert both.mean(z).estimates[name] == alone.mean(z)
    one, other = both.mean(z), backwards.mean(z)
    assert (one.lowest, one.highest) == (other.lowest, other.highest)
    assert one.difference == other.difference


def test_the_range_and_the_distance_follow_from_the_weights(pool: Pool) -> None:
    both = unskew.debias_targets(pool, Strata("label"), {"city": CITY, "farm": FARM})
    z, cat = pool.frame["z"].to_numpy(), (pool.frame["label"] == "cat").to_numpy()
    means = both.mean(z)
    by_hand = {p: p * z[cat].mean() + (1 - p) * z[~cat].mean() for p in (0.4, 0.8)}
    # Rounding of sums of 800 numbers.
    assert means.range == pytest.approx((by_hand[0.4], by_hand[0.8]), abs=1e-12)
    assert (means.lowest, means.highest) == ("farm", "city")
    assert means.interval[0] == means.estimates["farm"].interval[0]
    assert both.distance("city", "farm") == pytest.approx(0.4, abs=1e-12)
    assert both.distance("farm", "farm") == 0.0
    with refused(unskew.ConfigError, allowed=["city", "farm"]):
        both.distance("city", "frm")
    frame = both.to_frame()
    np.testing.assert_array_equal(frame["farm"], both.weights["farm"].weight)


def test_all_targets_that_are_not_identifiable_are_named(pool: Pool) -> None:
    owls = Target.margins({"label": {"cat": 1, "dog": 1, "owl": 1}})
    targets = {"fox": Target.margins(WITHOUT_FOX), "city": CITY, "owls": owls}
    with refused(CoverageError, targets=["fox", "owls"]) as caught:
        unskew.debias_targets(pool, Strata("label"), targets)
    assert "'fox'" in str(caught.value)
    assert "'owls'" in str(caught.value)


def test_an_error_of_the_data_names_its_target(pool: Pool) -> None:
    lacking = Target.margins({"label": {"cat": 1.0}})
    with refused(DataError, column="label", levels=["dog"]) as caught:
        unskew.debias_targets(pool, Strata("label"), {"city": CITY, "cats": lacking})
    assert "'cats'" in str(caught.value)


@pytest.mark.parametrize("targets", [{}, {"": CITY}, {"a": "uniform"}, CITY, [CITY], {3: CITY}])
def test_targets_are_given_by_name(pool: Pool, targets: object) -> None:
    with refused(unskew.ConfigError, option="targets"):
        unskew.debias_targets(pool, Strata("label"), targets)


def test_one_target_is_compared_with_itself(pool: Pool) -> None:
    only = unskew.debias_targets(pool, Strata("label"), {"city": CITY})
    means = only.mean(pool.frame["z"].to_numpy())
    assert means.lowest == means.highest == "city"
    assert not means.hangs_on_target


def test_distances_obey_the_triangle_inequality(pool: Pool) -> None:
    three = unskew.debias_targets(pool, Strata("label"), {"a": CITY, "b": FARM, "c": EVEN})
    for one, middle, other in itertools.permutations("abc"):
        direct = three.distance(one, other)
        # Rounding of sums of 800 numbers.
        assert direct <= three.distance(one, middle) + three.distance(middle, other) + 1e-12


def test_sources_are_compared_where_a_stratum_has_no_mass() -> None:
    """A stratum of mass 0 counts as if its images were not there, wherever it is in the order."""
    rng = np.random.default_rng(0)
    label = np.repeat(["cat", "dog", "fox"], 60)
    source = np.tile(["a", "b"], 90)
    z = rng.normal(size=180)
    kept = label != "dog"
    target = Target.margins({"label": {"cat": 0.5, "dog": 0.0, "fox": 0.5}})
    without = Target.margins({"label": {"cat": 0.5, "fox": 0.5}})
    estimates = [
        unskew.debias(Pool.from_arrays(source[rows], label=label[rows]), Strata("label"), own).mean(
            z[rows]
        )
        for rows, own in ((np.full(180, True), target), (kept, without))
    ]
    for name in ("a", "b"):
        one, other = (estimate.by_source[name] for estimate in estimates)
        # Rounding of sums of 180 numbers.
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.stderr == pytest.approx(other.stderr, rel=1e-9)
