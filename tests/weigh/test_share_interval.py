"""Intervals of shares: Wilson's where ones are few, the normal one where they are many."""

import numpy as np
import pytest

import unskew
from unskew.bias import Known, Strata
from unskew.records import Estimate, Pool, Target
from unskew.weigh.share_interval import bound_share
from unskew.weigh.uncertainty import weighted_mean


def _bounded(hits: int, n: int, unit_n: np.ndarray | None = None) -> Estimate:
    value_n = (np.arange(n) < hits).astype(float)
    share = hits / n
    stderr = np.sqrt(share * (1 - share) / n)
    reach = 1.959964 * stderr
    normal = Estimate(share, stderr, (share - reach, share + reach))
    return bound_share(normal, np.full(n, 1 / n), value_n, unit_n)


@pytest.mark.parametrize("hits", [0, 1, 7, 95, 100])
def test_few_images_of_a_kind_have_the_interval_of_wilson(hits: int) -> None:
    n, z = 100, 1.959964
    share = hits / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert _bounded(hits, n).interval == pytest.approx((centre - reach, centre + reach), abs=1e-7)


def test_many_images_of_both_kinds_keep_the_normal_interval() -> None:
    low, high = _bounded(200, 500).interval
    assert (low + high) / 2 == pytest.approx(0.4, rel=1e-12)


def test_other_values_are_left_alone() -> None:
    normal = Estimate(0.01, 0.01, (-0.0096, 0.0296))
    values = np.array([0.0, 0.5, 1.0])
    assert bound_share(normal, np.full(3, 1 / 3), values, None) is normal


def test_copies_of_an_image_do_not_make_a_zero_more_certain() -> None:
    alone = _bounded(0, 20).interval
    assert _bounded(0, 100, np.arange(100) // 5).interval == pytest.approx(alone)


def test_what_strata_determine_is_known() -> None:
    label = np.repeat(["a", "b"], [3, 97])
    pool = Pool.from_arrays(np.tile(["p", "q"], 50), label=label)
    target = Target.margins({"label": {"a": 0.02, "b": 0.98}})
    estimate = unskew.debias(pool, Strata("label"), target).mean((label == "a") * 1.0)
    assert estimate.interval == pytest.approx((0.02, 0.02))


def test_a_large_stratum_without_a_single_one_is_not_certain() -> None:
    """Rare ones in a stratum that is most of the target and little of the pool: the normal interval
    held the truth in 62% of 500 data sets.
    """
    target = Target.margins({"c": {"a": 0.8, "b": 0.2}})
    held = 0
    for rng in np.random.default_rng(5).spawn(60):
        cell = np.repeat(["a", "b"], [35, 265])
        value = (rng.random(300) < 0.03).astype(float)
        pool = Pool.from_arrays(np.tile(["p", "q", "r"], 100), c=cell)
        low, high = weighted_mean(unskew.debias(pool, Strata("c"), target), value).interval
        held += low <= 0.03 <= high
    # Of 60 that hold in 95%, fewer than 51 do in 3 of 1,000.
    assert held >= 51


def test_a_source_that_never_says_yes_has_an_interval() -> None:
    pool = Pool.from_arrays(["s"] * 100, x=np.arange(100.0))
    weights = unskew.debias(pool, Known(np.ones((100, 1))))
    assert weights.mean(np.zeros(100)).interval == pytest.approx((0.0, 0.037), abs=1e-3)
    assert weights.mean(np.full(100, 2.0)).interval == pytest.approx((2.0, 2.0))
