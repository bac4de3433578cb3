"""The target's mean of predictions: where it comes from, and its error."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import unskew
from raising import refused
from simulations import make_pool
from unskew import Pool, Target
from unskew.bias import Tilt
from unskew.errors import DataError, UnskewWarning
from unskew.records import Estimate
from unskew.weigh.target_predictions import freedom_of, read_target_predictions, scaled


def grouped_sample(rng, groups: int):
    """Weights whose target's sample has groups of four alike images."""
    x = np.repeat(rng.normal(size=groups), 4)
    sample = make_pool(np.zeros(x.size, dtype=int), x=x, group=np.repeat(np.arange(groups), 4))
    pool_x = rng.normal(0.3, size=200)
    pool = make_pool(np.repeat([0, 1], 100), x=pool_x, group=1000 + np.arange(200))
    weights = unskew.debias(pool, Tilt(["x"]), Target.sample(sample), check_sample=False)
    return weights, x


def test_other_images_have_the_error_of_a_mean():
    weights, _ = grouped_sample(np.random.default_rng(0), 40)
    other = np.random.default_rng(1).normal(size=77)
    target = read_target_predictions(weights, np.zeros(200), other)
    assert target.row_r is None
    assert target.freedom == 76
    assert target.other_u @ target.other_u == pytest.approx(other.var(ddof=1) / 77)
    assert scaled(target, 2.0, 4.0).value == pytest.approx((other.mean() - 2) / 4)


def test_groups_of_the_sample_are_units():
    weights, x = grouped_sample(np.random.default_rng(0), 40)
    target = read_target_predictions(weights, np.zeros(200), x)
    assert target.freedom == 39
    assert target.row_r.sum() == pytest.approx(x.mean())
    wide = weights.mean(weights.estimation.pool.frame["x"].to_numpy(), np.ones(200), x)
    assert math.isfinite(wide.stderr)


def test_one_group_shows_no_spread():
    rng = np.random.default_rng(2)
    sample = make_pool(np.zeros(4, dtype=int), x=rng.normal(size=4), group=[7] * 4)
    pool = make_pool(np.repeat([0, 1], 20), x=rng.normal(size=40), group=np.arange(40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnskewWarning)
        weights = unskew.debias(pool, Tilt(["x"]), Target.sample(sample), check_sample=False)
    with refused(DataError, option="target_predicted", count=1):
        read_target_predictions(weights, np.zeros(40), np.arange(4.0))


def test_degrees_of_freedom_are_read_from_an_interval():
    pool = Pool.from_arrays(["a"] * 8)
    estimate = unskew.debias_weights(np.ones((8, 1)), pool.source).mean(np.arange(8.0))
    assert freedom_of(estimate) == pytest.approx(7.0, rel=1e-6)
    assert freedom_of(Estimate(0.0, 1.0, (-1.96, 1.96))) == math.inf
    assert freedom_of(Estimate(0.0, 0.0, (0.0, 0.0))) == math.inf


def test_a_table_is_refused():
    weights, _ = grouped_sample(np.random.default_rng(0), 40)
    with refused(DataError, option="target_predicted"):
        read_target_predictions(weights, np.zeros(200), weights.estimation.pool.frame)
