"""The error of masses that follow the pool's counts: binomial shares, groups, coverage."""

import numpy as np
import pandas as pd
import pytest

import worlds_targets as worlds
from simulation_measures import measure_coverage
from unskew import Pool, Target
from unskew.weigh.count_covariance import counted_error

KEEP = {"label": {"c": "keep"}}


def labelled(seed=0, sizes=(50, 80), shares=((0.3, 0.3, 0.4), (0.5, 0.4, 0.1))):
    rng = np.random.default_rng(seed)
    label = np.concatenate(
        [rng.choice(list("abc"), n, p=p) for n, p in zip(sizes, shares, strict=True)]
    )
    return Pool.from_arrays(np.repeat(["p", "q"], sizes), label)


def test_a_kept_share_is_binomial_within_sources():
    pool = labelled()
    strata = Target.margins({"label": {"a": 0.4, "b": 0.6}}, outside=KEEP).stratify(pool)
    is_kept = (pool.frame["label"] == "c").to_numpy()
    variance = (
        sum(
            n**2 / (n - 1) * share * (1 - share)
            for n, share in zip(
                pool.sizes, [is_kept[pool.source == k].mean() for k in (0, 1)], strict=True
            )
        )
        / len(pool) ** 2
    )
    error = counted_error(strata.counted)
    # Mass moves between c and the others in their proportions.
    move = np.array([{"a": -0.4, "b": -0.6, "c": 1.0}[cell[0]] for cell in strata.strata])
    np.testing.assert_allclose(error.covariance_cc, variance * np.outer(move, move), rtol=1e-12)
    assert error.freedom == len(pool) - 2


def test_groups_that_repeat_their_images_change_no_error():
    pool = labelled()
    frame = pool.frame.assign(group=np.arange(len(pool)))
    twice = pd.concat([frame, frame.assign(id=frame["id"] + 1000)], ignore_index=True)
    target = Target.margins({"label": {"a": 0.4, "b": 0.6}}, outside=KEEP)
    once, both, apart = (
        counted_error(target.stratify(Pool(table)).counted).covariance_cc
        for table in (frame, twice, twice.drop(columns="group"))
    )
    np.testing.assert_allclose(both, once, rtol=1e-12)
    assert apart[2, 2] == pytest.approx(once[2, 2] / 2, rel=0.02)


def test_dropped_images_stay_in_the_sizes_of_the_sources():
    """The share among those that are left is a ratio: both of its parts vary."""
    rng = np.random.default_rng(1)
    target = Target.margins({"label": {"a": 1.0}}, outside={"label": {"c": "keep", "d": "drop"}})
    shares = []
    for _ in range(200):
        label = rng.choice(list("acd"), 200, p=[0.5, 0.2, 0.3])
        strata = target.stratify(Pool.from_arrays(["p"] * 200, label))
        at = strata.strata.index(("c",))
        shares.append((strata.mass[at], counted_error(strata.counted).covariance_cc[at, at]))
    mass, variance = np.array(shares).T
    # 200 draws: the standard deviation to 5%.
    assert np.sqrt(variance.mean()) == pytest.approx(mass.std(), rel=0.15)


@pytest.mark.parametrize(
    "recipe", [worlds.kept_two_survey, worlds.kept_uniform], ids=lambda recipe: recipe.__name__
)
def test_the_bootstrap_counts_the_same(recipe):
    data = recipe(np.random.default_rng(3))
    weights = data.debias()
    drawn = weights.bootstrap(60, 0, data.value)
    # 60 replicates: the standard deviation to 9%.
    assert drawn.mean.std() == pytest.approx(weights.mean(data.value).stderr, rel=0.3)


def test_sources_that_select_by_one_attribute_at_a_time_are_no_trap():
    data = worlds.margins_two(np.random.default_rng(4))
    within = data.debias().mean(data.value)
    pooled = worlds.pooled_interactions(data).debias().mean(data.value)
    assert abs(within.value - data.truth) < 3 * within.stderr
    assert abs(pooled.value - data.truth) > 6 * pooled.stderr


@pytest.mark.slow
@pytest.mark.parametrize("recipe", worlds.TARGETS, ids=lambda recipe: recipe.__name__)
def test_intervals_hold_the_truth(recipe):
    # 1,000 data sets: 0.7% standard error around 95%; a survey that misses a level is discrete.
    assert 0.925 <= measure_coverage(recipe, 1000, seed=5).share <= 0.98
