"""The noise of weighted means beside that of the pool: repeated draws, textbook formulas."""

from types import SimpleNamespace

import numpy as np
import pytest

import unskew
from shrunk_tilts import tilted, tilted_pool
from simulations import BOXES, PRINCIPAL, VARIANTS
from unskew.bias import Box, Propensity, SoftBox, Strata, Tilt
from unskew.records import Pool, Target
from unskew.weigh.estimated_omega import estimated_mean
from unskew.weigh.pool_comparison import (
    MeanNoise,
    equal_weights,
    noise_beside_pool,
    replicated_noise,
)
from unskew.weigh.shrink import shrink_weights


@pytest.mark.slow
def test_known_noise_is_that_of_repeated_draws():
    means, noises = [], []
    for seed in range(1500):
        z_n, _, weights = tilted(seed, sizes=(60, 30, 20))
        means.append([weights.weight @ z_n, z_n.mean()])
        found = noise_beside_pool(weights, z_n[:, None])
        noises.append([found.weighted[0], found.pooled[0], found.shared[0]])
    covariance = np.cov(np.array(means).T)
    # Each entry of a covariance from 1500 draws has a relative error of about √(2/1500) = 4 %; our
    # estimates have their own at n = 110.
    assert np.mean(noises, axis=0) == pytest.approx(
        [covariance[0, 0], covariance[1, 1], covariance[0, 1]], rel=0.15
    )


@pytest.mark.slow  # with known noise a quick test has the same steps
@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_estimated_noise_is_that_of_repeated_draws():
    means, noises = [], []
    for seed in range(250):
        pool, target = tilted_pool(seed)
        z_n = pool.frame["z"].to_numpy()
        weights = unskew.debias(pool, Tilt(["z"]), target, check_sample=False)
        means.append([weights.weight @ z_n, z_n.mean()])
        found = noise_beside_pool(weights, z_n[:, None])
        noises.append([found.weighted[0], found.pooled[0], found.shared[0]])
    covariance = np.cov(np.array(means).T)
    found = np.mean(noises, axis=0)
    # 250 draws: √(2/250) = 9 % of each variance, and as much of √(both variances) for the
    # covariance.
    assert found[:2] == pytest.approx([covariance[0, 0], covariance[1, 1]], rel=0.25)
    assert found[2] == pytest.approx(
        covariance[0, 1], abs=0.25 * np.sqrt(covariance[0, 0] * covariance[1, 1])
    )


@pytest.mark.parametrize(
    "recipe", [*PRINCIPAL, *VARIANTS, *BOXES], ids=lambda recipe: recipe.__name__
)
def test_the_noise_of_the_weights_is_their_standard_error(recipe):
    data = recipe(np.random.default_rng(5))
    weights = data.debias()
    noise = noise_beside_pool(weights, data.value[:, None])
    if any(isinstance(part, Propensity) for part in data.bias.parts):
        # The bias of its penalty is no noise.
        value_r = weights.estimation.values_of_rows(data.value)
        stderr = estimated_mean(weights.estimation.rows, value_r, 0.95).stderr
    else:
        stderr = weights.mean(data.value).stderr
    assert noise.weighted[0] == pytest.approx(stderr**2, rel=1e-9)
    assert noise.shared[0] ** 2 <= noise.weighted[0] * noise.pooled[0] * (1 + 1e-9)
    assert 0 <= shrink_weights(weights, {"value": data.value}).means["value"].kept <= 1


@pytest.mark.parametrize(
    ("model", "within"), [(Tilt(["z"]), 0.1), (SoftBox(["z"]), 0.4)], ids=["tilt", "soft_box"]
)
def test_of_many_images_some_tell_the_noise(model, within, monkeypatch):
    if isinstance(model, Tilt):
        pool, target = tilted_pool(sizes=(9000, 6000, 5000), n_sample=4000)
    else:
        # Each falls off linearly towards the other's end of a uniform target.
        rng = np.random.default_rng(0)
        z_n = np.concatenate([rng.triangular(0, 1, 1, 9000), rng.triangular(0, 0, 1, 8000)])
        pool, target = Pool.from_arrays(np.repeat(["high", "low"], [9000, 8000]), z=z_n), None
    z_n = pool.frame["z"].to_numpy()
    weights = unskew.debias(pool, model, target, check_sample=False)
    value_nj = np.column_stack([z_n, z_n > 0.5])
    every = noise_beside_pool(weights, value_nj)
    monkeypatch.setattr("unskew.weigh.pool_comparison._ENOUGH", 6000)
    some = noise_beside_pool(weights, value_nj)
    assert not np.array_equal(some.weighted, every.weighted)
    np.testing.assert_allclose(some.of_difference, every.of_difference, rtol=within)
    np.testing.assert_allclose(some.pooled, every.pooled, rtol=0.1)
    # A source of which too few would be left is told by all images.
    monkeypatch.setattr("unskew.weigh.pool_comparison._ENOUGH_OF_SOURCE", 6000)
    np.testing.assert_array_equal(noise_beside_pool(weights, value_nj).weighted, every.weighted)


def test_strata_vary_within_strata_only():
    rng = np.random.default_rng(0)
    label_n = np.repeat(["x", "y"], [150, 50])
    value_n = np.where(label_n == "x", 0.0, 1.0) + rng.standard_normal(200)
    pool = Pool.from_arrays(np.tile(["a", "b"], 100), label=label_n, v=value_n)
    weights = unskew.debias(pool, Strata("label"), Target.margins({"label": {"x": 0.5, "y": 0.5}}))
    noise = noise_beside_pool(weights, value_n[:, None])
    square_n = (value_n - np.where(label_n == "x", value_n[:150].mean(), value_n[150:].mean())) ** 2
    assert noise.weighted[0] == pytest.approx(weights.mean(value_n).stderr ** 2, rel=1e-12)
    assert noise.pooled[0] == pytest.approx(square_n.sum() / 200**2, rel=1e-12)
    assert noise.shared[0] == pytest.approx((square_n * weights.weight).sum() / 200, rel=1e-12)
    # The shares of the strata are given: no noise, all of them kept; the weights do not move.
    found = shrink_weights(weights, {"x": label_n == "x"})
    assert found.means["x"].kept == 1
    np.testing.assert_allclose(found.weight, weights.weight, rtol=1e-9)


def test_a_model_without_derivatives_is_bootstrapped():
    rng = np.random.default_rng(3)
    z_n = np.concatenate([rng.uniform(0, 0.7, 80), rng.uniform(0.3, 1, 80)])
    pool = Pool.from_arrays(np.repeat(["low", "high"], 80), z=z_n)
    weights = unskew.debias(pool, Box(["z"]))
    noise = noise_beside_pool(weights, z_n[:, None])
    assert noise.weighted[0] == pytest.approx(weights.mean(z_n).stderr ** 2, rel=1e-9)
    # Two uniform sources of length 0.7, 80 images each: the variance of the pooled mean is known.
    assert noise.pooled[0] == pytest.approx(0.7**2 / 12 / 160, rel=0.4)
    found = shrink_weights(weights).means["z"]
    assert found.apart == pytest.approx(
        abs(found.before - found.pool) / np.sqrt(noise.of_difference[0]), rel=1e-9
    )


def test_equal_weights_leave_images_without_weight_out():
    np.testing.assert_array_equal(
        equal_weights(SimpleNamespace(weight=np.array([0.7, 0.0, 0.2, 0.1]), design_weight=None)),
        [1 / 3, 0.0, 1 / 3, 1 / 3],
    )


def test_replicates_have_the_covariances_of_numpy():
    rng = np.random.default_rng(0)
    weighted_bj, pooled_bj = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    noise = replicated_noise(weighted_bj, weighted_bj + pooled_bj)
    for j in range(2):
        covariance = np.cov(weighted_bj[:, j], weighted_bj[:, j] + pooled_bj[:, j])
        found = [noise.weighted[j], noise.pooled[j], noise.shared[j]]
        np.testing.assert_allclose(found, covariance[[0, 1, 0], [0, 1, 1]], rtol=1e-12)
    # weighted − (weighted + pooled) = −pooled
    np.testing.assert_allclose(noise.of_difference, pooled_bj.var(axis=0, ddof=1), rtol=1e-12)


def test_one_replicate_tells_nothing():
    noise = replicated_noise(np.ones((1, 3)), np.ones((1, 3)))
    assert np.isinf(noise.weighted).tolist() == np.isinf(noise.pooled).tolist() == [True] * 3
    assert noise.shared.tolist() == [0.0] * 3


def test_a_variance_of_a_difference_is_never_negative():
    one = np.ones(1)
    assert MeanNoise(one, one, one * (1 + 1e-12), np.eye(1), np.eye(1)).of_difference.tolist() == [
        0.0
    ]


def test_weights_that_equal_the_pool_differ_from_it_without_noise():
    rng = np.random.default_rng(0)
    value_n = rng.normal(size=(60, 1))
    weights = unskew.debias_weights(np.ones((60, 1)), np.zeros(60, dtype=int))
    noise = noise_beside_pool(weights, value_n)
    np.testing.assert_allclose(noise.pooled, value_n.var(ddof=1) / 60, rtol=1e-12)
    np.testing.assert_allclose(noise.weighted, noise.pooled, rtol=1e-9)
    np.testing.assert_allclose(noise.of_difference, 0.0, atol=1e-12)


def test_one_group_alone_has_unknown_noise():
    weights = unskew.debias_weights(
        np.ones((6, 1)), np.zeros(6, dtype=int), group=np.zeros(6, dtype=int)
    )
    noise = noise_beside_pool(weights, np.arange(6.0)[:, None])
    assert (noise.weighted[0], noise.pooled[0], noise.shared[0]) == (np.inf, np.inf, 0.0)
