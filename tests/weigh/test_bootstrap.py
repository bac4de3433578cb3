"""Replicates against fresh solves of the drawn images, asymptotic errors and closed forms."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from weighed_tilts import draw, weigh


def test_bootstrap_of_single_images_reproduces_the_solution():
    """With one image in every source all replicates are the data themselves."""
    rng = np.random.default_rng(0)
    weights = weigh(rng.uniform(0.5, 2.0, (3, 3)), [0, 1, 2])
    result = weights.bootstrap(5, values=[1.0, 2.0, 4.0])
    np.testing.assert_allclose(
        result.log_normalizer, np.tile(weights.solution.log_normalizer, (5, 1)), atol=1e-9
    )
    np.testing.assert_allclose(result.mean, weights.weight @ [1.0, 2.0, 4.0], atol=1e-9)
    # Every replicate is the data: that is no evidence of precision.
    assert (result.n_strata, result.n_single) == (3, 3)
    assert result.estimate().stderr == math.inf
    assert np.isinf(result.stderr).all()


@pytest.mark.parametrize("form", ["collapsed", "dense", "csr", "log"])
def test_bootstrap_replicates_solve_the_resampled_data(form):
    """The first replicate equals a fresh solve of the images it drew."""
    rng = np.random.default_rng(6)
    source = np.repeat([0, 1, 2], [40, 50, 60])
    stratum_n = rng.integers(0, 3, source.size)
    omega = rng.uniform(0.3, 2.0, (3, 3))[stratum_n]
    if form != "collapsed":
        omega = omega * rng.uniform(0.5, 2.0, omega.shape)
    given = {"csr": sp.csr_array(omega), "log": np.log(omega)}.get(form, omega)
    weights = weigh(given, source, log=form == "log")
    value_n = rng.standard_normal(source.size)
    result = weights.bootstrap(3, rng=5, values=value_n)
    generator = np.random.default_rng(5)
    for replicate in range(3):
        drawn = np.concatenate(
            [
                np.flatnonzero(source == k)[generator.integers(n_k, size=n_k)]
                for k, n_k in enumerate([40, 50, 60])
            ]
        )
        again = weigh(omega[drawn], source[drawn])
        np.testing.assert_allclose(
            result.log_normalizer[replicate], again.solution.log_normalizer, atol=1e-8
        )
        assert result.mean[replicate] == pytest.approx(again.weight @ value_n[drawn], abs=1e-8)


def test_bootstrap_agrees_with_the_asymptotic_error():
    for group_size in (None, 5):
        z_n, omega, source, group = draw(n_k=(400, 500, 600), group_size=group_size)
        weights = weigh(omega, source, group=group)
        result = weights.bootstrap(400, rng=1, values=z_n)
        assert (result.n_replicates, result.n_disconnected, result.n_failed) == (400, 0, 0)
        # The standard deviation of 400 replicates has a relative error of 1/√800 = 3.5%; four of
        # those.
        assert result.estimate().stderr == pytest.approx(weights.mean(z_n).stderr, rel=0.14)
        used = [0, 2]
        np.testing.assert_allclose(
            result.stderr[used], np.sqrt(np.diag(weights.covariance()))[used], rtol=0.16
        )
        assert result.covariance()[0, 0] == pytest.approx(result.stderr[0] ** 2, rel=1e-12)
        low, high = result.estimate().interval
        assert low < result.value < high


def test_bootstrap_counts_disconnected_replicates():
    """Source 1 reaches source 0 through one image of ten: the replicate lacks it with probability
    0.9¹⁰ = 0.349.
    """
    source = np.repeat([0, 1], 10)
    omega = np.ones((20, 2))
    omega[1:10, 1] = 0
    result = weigh(omega, source).bootstrap(1000, rng=2, values=np.arange(20))
    expected = 0.9**10
    assert result.n_disconnected / 1000 == pytest.approx(
        expected, abs=4 * math.sqrt(expected * (1 - expected) / 1000)
    )
    assert result.log_normalizer.shape == (1000 - result.n_disconnected, 2)
    assert np.isfinite(result.log_normalizer).all()


def test_bootstrap_without_a_usable_replicate():
    source = np.repeat([0, 1], [1, 60])
    omega = np.ones((61, 2))
    omega[1:60, 0] = 0
    # The link 0 → 1 rests on one image of sixty; this seed draws it in none of the two replicates.
    result = weigh(omega, source).bootstrap(2, rng=1, values=np.arange(61))
    assert result.n_disconnected == 2
    assert result.estimate().interval == (-math.inf, math.inf)
    assert result.stderr.tolist() == [math.inf, math.inf]
    assert np.isinf(result.covariance()).all()


def test_bootstrap_by_groups_that_span_sources():
    z_n, omega, source, _ = draw(n_k=(30, 30, 30))
    weights = weigh(omega, source, group=np.arange(90) % 20)
    result = weights.bootstrap(50, rng=0, values=z_n)
    assert result.n_disconnected + result.n_failed + result.mean.size == 50
    assert result.mean.size > 40


def test_bootstrap_is_reproducible():
    z_n, omega, source, _ = draw(n_k=(30, 30, 30))
    weights = weigh(omega, source)
    first, second, other = (weights.bootstrap(4, rng=seed, values=z_n) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.mean, second.mean)
    assert not np.array_equal(first.mean, other.mean)
