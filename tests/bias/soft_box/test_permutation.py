"""The permutation test against constant ω: its level, its bound, groups."""

from __future__ import annotations

import numpy as np

from unskew.bias.soft_box.likelihood import (
    pose_problem,
)
from unskew.bias.soft_box.permutation import (
    PLACES,
    _tail_statistic,
    permutation_bound,
    permutation_p_value,
)
from unskew.bias.soft_box.search import constant_membership


def test_of_many_images_some_are_enough_to_reject_and_all_are_asked_before_it_is_not_rejected() -> (
    None
):
    rng = np.random.default_rng(0)
    source = rng.integers(2, size=80_000)
    for shift, is_seen in ((1.0, True), (0.0, False)):
        feature = rng.normal(size=(source.size, 1)) + shift * source[:, None]
        problem = pose_problem(feature, source, 2, None, None, None)
        p_value, made = permutation_p_value(problem, constant_membership(problem)[0], None, rng)
        assert (p_value < 1e-4 and made == 0) == is_seen


def test_permuted_labels_give_a_uniform_p_value() -> None:
    """Level of the test: of 100 permuted data sets about 5% have p ≤ 0.05 (binomial: at most 12
    with probability 0.998).
    """
    rng = np.random.default_rng(3)
    feature = rng.gamma(2.0, size=(300, 2))
    source = np.repeat([0, 1, 2], [200, 80, 20])
    p_values = []
    for _ in range(100):
        problem = pose_problem(feature, rng.permutation(source), 3, None, None, None)
        p_values.append(permutation_p_value(problem, constant_membership(problem)[0], None, rng)[0])
    assert np.sum(np.array(p_values) <= 0.05) <= 12
    assert np.sum(np.array(p_values) <= 0.2) >= 9  # probability 0.999
    assert 0.4 < np.mean(p_values) < 0.6


def test_the_bound_is_one_on_all_permutations() -> None:
    """No t is exceeded by a larger share of 2,000 permutations than Hoeffding's inequality allows
    (binomial error aside).
    """
    rng = np.random.default_rng(8)
    feature = np.column_stack([rng.gamma(2.0, size=120), rng.integers(0, 3, 120)])  # ties, too
    source = np.repeat([0, 1, 2], [70, 40, 10])
    problem = pose_problem(feature, source, 3, None, None, None)
    bin_nd = np.stack(
        [np.searchsorted(np.quantile(column, PLACES), column) for column in feature.T], axis=1
    )
    statistic = _tail_statistic(problem, bin_nd, None)
    value_m = np.sort([statistic(rng.permutation(source)) for _ in range(2000)])
    bounds = [permutation_bound(problem, bin_nd, float(value)) for value in value_m]
    assert np.all(np.diff(bounds) <= 0)
    assert np.all(np.array(bounds) >= 1.0 - np.arange(2000) / 2000 - 0.02)
    assert permutation_bound(problem, bin_nd, 1e6) < 1e-100


def test_no_permutation_is_made_where_the_bound_says_enough() -> None:
    rng = np.random.default_rng(9)
    feature = np.concatenate(
        [rng.uniform(0.0, 0.6, size=(500, 1)), rng.uniform(0.4, 1.0, size=(500, 1))]
    )
    problem = pose_problem(feature, np.repeat([0, 1], 500), 2, None, None, None)
    p_value, made = permutation_p_value(problem, constant_membership(problem)[0], None, rng)
    assert made == 0
    assert p_value < 1e-4
    # Images of one group are not independent: the bound says nothing of them.
    grouped, made = permutation_p_value(
        problem, constant_membership(problem)[0], np.arange(1000) // 2, rng
    )
    assert (grouped, made) == (1 / 200, 199)


def test_groups_are_permuted_whole() -> None:
    """Sixty bursts of twenty near-identical images, sources alike: image by image the test is
    fooled, by group it keeps its level.
    """
    rng = np.random.default_rng(4)
    rejected = {"images": 0, "groups": 0}
    for _ in range(10):
        group = np.repeat(np.arange(60), 20)
        feature = rng.normal(size=(60, 2))[group] + 0.01 * rng.normal(size=(1200, 2))
        source = group % 3
        problem = pose_problem(feature, source, 3, None, None, None)
        constant = constant_membership(problem)[0]
        rejected["images"] += permutation_p_value(problem, constant, None, rng)[0] <= 0.05
        rejected["groups"] += permutation_p_value(problem, constant, group, rng)[0] <= 0.05
    assert rejected["images"] == 10
    assert rejected["groups"] <= 3  # binomial(10, 0.05): more than 3 with probability 0.001


def test_the_test_keeps_its_level_with_offset_and_cells() -> None:
    rng = np.random.default_rng(5)
    rejections = 0
    for _ in range(40):
        feature = rng.normal(size=(400, 1))
        cell = (feature[:, 0] + rng.normal(size=400) > 0).astype(np.int64)
        offset = np.stack([np.zeros(400), 1.5 * feature[:, 0]], axis=1)
        chance = 1 / (1 + np.exp(-(offset[:, 1] + np.where(cell == 1, 0.5, -0.5))))
        source = (rng.uniform(size=400) < chance).astype(np.int64)
        problem = pose_problem(feature, source, 2, offset, cell, None)
        rejections += (
            permutation_p_value(problem, constant_membership(problem)[0], None, rng)[0] <= 0.05
        )
    assert rejections <= 7  # binomial(40, 0.05): more than 7 with probability 0.001
