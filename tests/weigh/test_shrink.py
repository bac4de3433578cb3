"""The factor is the minimum of the error it claims to minimise, its variances are those of repeated
draws, and the means move as told.
"""

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given
from hypothesis import strategies as st

import unskew
from raising import refused
from shrunk_tilts import THETA, tilted
from unskew.bias import Box, Known, Product, SoftBox, Strata, Tilt
from unskew.errors import ConfigError, ConvergenceError, CoverageError, DataError
from unskew.records import Pool, Target
from unskew.weigh.pool_comparison import MeanNoise
from unskew.weigh.shrink import limit_loss, nearest_weights, shrink_factors, shrink_weights


def noise_of(weighted, pooled, shared):
    """Independent directions."""
    own, other, both = (np.asarray(each, dtype=float) for each in (weighted, pooled, shared))
    return MeanNoise(own, other, both, np.diag(own), np.diag(own + other - 2 * both))


@given(st.floats(-5, 5), st.floats(0.01, 4), st.floats(0.01, 4), st.floats(-0.95, 0.95))
def test_the_factor_minimises_the_estimated_error(distance, weighted, pooled, correlation):
    shared = correlation * np.sqrt(weighted * pooled)
    noise = noise_of([weighted], [pooled], [shared])
    (kept,) = shrink_factors(np.array([distance]), noise)
    variance = weighted + pooled - 2 * shared
    bias = max(distance**2 - variance, 0.0)

    def error(f):
        return pooled + 2 * f * (shared - pooled) + f**2 * variance + (1 - f) ** 2 * bias

    assert error(kept) <= error(np.linspace(0, 1, 201)).min() + 1e-12


def test_the_risk_of_the_rule():
    """For δ ~ N(b, 1) and C = 0: the root mean squared error of f δ, by quadrature;
    docs/few-images.md has these figures.
    """
    delta = np.linspace(-15, 20, 350_001)
    one, none, unused = np.ones_like(delta), np.zeros_like(delta), np.empty((0, 0))
    kept = shrink_factors(delta, MeanNoise(one, none, none, unused, unused))
    bias = np.array([0.0, 1.0, 1.2, 2.4, 4.0, 6.0])
    density = np.exp(-0.5 * (delta - bias[:, None]) ** 2) / np.sqrt(2 * np.pi)
    risk = np.sqrt(
        scipy.integrate.trapezoid((kept * delta - bias[:, None]) ** 2 * density, delta, axis=1)
    )
    assert risk.round(2).tolist() == [0.58, 0.93, 1.01, 1.22, 1.11, 1.04]


def test_without_noise_everything_is_kept_and_without_bias_the_pool():
    nothing = np.zeros(1)
    assert shrink_factors(np.array([0.3]), noise_of(nothing, nothing, nothing)) == 1
    assert shrink_factors(nothing, noise_of(nothing, nothing, nothing)) == 1
    assert shrink_factors(nothing, noise_of([1.0], [0.1], [0.1])) == 0


def correlated(seed, size):
    """(J, J) a covariance with any variances and correlations."""
    root = np.random.default_rng(seed).normal(size=(size, size + 3))
    return root @ root.T


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_no_linear_combination_is_moved_by_more_than_its_standard_errors(seed, size):
    rng = np.random.default_rng(seed)
    noise = MeanNoise(
        rng.uniform(0.1, 2, size),
        rng.uniform(0.1, 2, size),
        np.zeros(size),
        correlated(seed, size),
        correlated(seed + 1, size),
    )
    distance = 3 * rng.normal(size=size)
    factor = shrink_factors(distance, noise)
    kept = limit_loss(distance, factor, noise)
    given_up = (1 - kept) * distance
    # max_c (cᵀd)²/(cᵀWc) = dᵀ W⁻¹ d.
    moved = given_up @ np.linalg.solve(noise.weighted_jj, given_up)
    assert moved <= 1.25**2 * (1 + 1e-6)
    # All directions give way in the same proportion.
    assert np.ptp((1 - kept)[factor < 1] / (1 - factor)[factor < 1]) < 1e-9 if size > 1 else True
    assert (kept >= factor - 1e-12).all()


def test_one_direction_is_shrunk_as_before():
    for distance in (0.01, 0.9, 1.1, 2.5, 10.0):
        noise = noise_of([1.0], [0.0], [0.0])
        factor = shrink_factors(np.array([distance]), noise)
        assert limit_loss(np.array([distance]), factor, noise) == pytest.approx(factor, rel=1e-9)


def test_what_has_no_noise_is_not_given_up():
    noise = noise_of([1.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    kept = limit_loss(np.array([0.5, 3.0]), np.array([0.0, 1.0]), noise)
    assert kept.tolist() == [0.0, 1.0]
    # A combination without variance must not move.
    alike = MeanNoise(np.ones(2), np.zeros(2), np.zeros(2), np.ones((2, 2)), np.ones((2, 2)))
    kept = limit_loss(np.array([0.5, 1.5]), np.array([0.0, 0.5]), alike)
    assert 0.5 * (1 - kept[0]) == pytest.approx(1.5 * (1 - kept[1]), abs=1e-3)


def shrunken_errors(covariance_jj, bias_j, n_draws):
    """(n_draws, J) errors of the shrunken means in units in which those of the weights have
    covariance I: any unit vector is a linear combination of the means.
    """
    variance, none = np.diag(covariance_jj), np.zeros(bias_j.size)
    noise = MeanNoise(variance, none, none, covariance_jj, covariance_jj)
    root_jj = np.linalg.cholesky(covariance_jj)
    errors = []
    for drawn in np.random.default_rng(7).normal(size=(n_draws, bias_j.size)):
        distance = bias_j + root_jj @ drawn
        kept = limit_loss(distance, shrink_factors(distance, noise), noise)
        errors.append(np.linalg.solve(root_jj, kept * distance - bias_j))
    return np.array(errors)


@pytest.mark.parametrize(("size", "correlation", "bias"), [(3, 0.0, 1.5), (20, 0.2, 1.5)])
def test_many_small_biases_that_point_one_way_cost_little(size, correlation, bias):
    """All directions biased alike by 1.5 standard errors. Without the joint limit the sum of twenty
    has 2.4 times the error.
    """
    covariance_jj = (1 - correlation) * np.eye(size) + correlation
    towards = np.linalg.solve(np.linalg.cholesky(covariance_jj), np.ones(size))
    towards /= np.linalg.norm(towards)
    for bias_j in (np.full(size, bias), np.zeros(size)):
        error = shrunken_errors(covariance_jj, bias_j, 400) @ towards
        # 400 draws: 3.5 % of a root mean square. Measured 1.0 to 1.2, and 0.6 to 0.85.
        assert np.sqrt(np.mean(error**2)) < (1.32 if bias_j.any() else 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_no_linear_combination_loses_more_than_documented(size, correlation):
    """The worst combination has the largest eigenvalue of the errors' second moments."""
    covariance_jj = (1 - correlation) * np.eye(size) + correlation
    root_jj, rng = np.linalg.cholesky(covariance_jj), np.random.default_rng(size)
    biases = [np.full(size, each) for each in (1.0, 1.5, 2.4, 4.0)]
    for length in (1.0, 2.0, 3.0, 5.0, 8.0):
        towards = rng.normal(size=size)
        biases.append(length * root_jj @ towards / np.linalg.norm(towards))
        biases.append(biases[-1] + 20.0 * (np.arange(size) == 0))
    for bias_j in biases:
        error = shrunken_errors(covariance_jj, bias_j, 2000)
        worst = np.sqrt(np.linalg.eigvalsh(error.T @ error / 2000)[-1])
        # Of twenty eigenvalues from 2,000 draws the largest is up to 5 % too large.
        assert worst < 1.3 * (1 + np.sqrt(size / 2000) / 2)


def shifted_features(seed, shift):
    """Ten features, each shifted by a little, with known ω."""
    x_nj = np.random.default_rng([3, seed]).normal(size=(300, 10)) + shift
    omega = np.exp(shift * x_nj.sum(axis=1, keepdims=True)) * np.ones(2)
    weights = unskew.debias_weights(omega, np.repeat([0, 1], 150))
    return x_nj, weights, {f"x{at}": x_n for at, x_n in enumerate(x_nj.T)}


def test_sums_of_features_stay_within_their_standard_errors():
    rng = np.random.default_rng(1)
    for seed in range(4):
        x_nj, weights, values = shifted_features(seed, 0.12)
        found = shrink_weights(weights, values)
        for share_j in [np.ones(10), *rng.normal(size=(4, 10))]:
            apart = (found.weight - weights.weight) @ (x_nj @ share_j)
            # The variance of a mean is the larger of two estimates, that of a sum need not be.
            assert abs(apart) <= 1.3 * weights.mean(x_nj @ share_j).stderr


@pytest.mark.slow
def test_a_sum_of_features_biased_alike_loses_no_more_than_documented():
    square = np.zeros(2)
    for seed in range(300):
        x_nj, weights, values = shifted_features(seed, 0.12)
        found, total_n = shrink_weights(weights, values), x_nj.sum(axis=1)
        square += [(weight_n @ total_n) ** 2 for weight_n in (found.weight, weights.weight)]
    assert np.sqrt(square[0] / square[1]) < 1.3


def test_the_means_move_as_told():
    z_n, _, weights = tilted(sizes=(120, 40, 20))
    values = {"z": z_n, "square": z_n**2}
    found = shrink_weights(weights, values)
    first = found.means["z"]
    assert first.pool == pytest.approx(z_n.mean(), rel=1e-12)
    assert first.before == pytest.approx(weights.weight @ z_n, rel=1e-12)
    assert first.after == pytest.approx(
        first.pool + first.kept * (first.before - first.pool), abs=1e-12
    )
    assert found.weight @ z_n == pytest.approx(first.after, abs=1e-12)
    # The second in what the first does not explain: its residual under the pool.
    slope, at_zero = np.polyfit(z_n, z_n**2, 1)
    rest_n = z_n**2 - at_zero - slope * z_n
    kept = found.means["square"].kept
    assert found.weight @ rest_n == pytest.approx(kept * (weights.weight @ rest_n), abs=1e-10)
    assert found.weight.sum() == pytest.approx(1, abs=1e-12)
    assert found.sample_weight.mean() == pytest.approx(1, abs=1e-12)
    assert found.moved == pytest.approx(np.abs(found.weight - weights.weight).sum() / 2, abs=1e-12)
    assert (found.ess_before, found.ess_after) == (
        pytest.approx(weights.ess),
        pytest.approx(1 / np.square(found.weight).sum()),
    )
    # Nearest in Kullback–Leibler divergence: the change of log weights is linear in the values.
    change_n = np.log(found.weight / weights.weight)
    design = np.column_stack([np.ones_like(z_n), z_n, z_n**2])
    np.testing.assert_allclose(
        change_n - design @ np.linalg.lstsq(design, change_n, rcond=None)[0], 0, atol=1e-9
    )


def test_units_of_measurement_order_of_rows_and_repeated_values_change_nothing():
    z_n, source_n, weights = tilted(sizes=(70, 60, 50))
    plain = shrink_weights(weights, {"z": z_n, "square": z_n**2})
    other = shrink_weights(
        weights,
        {
            "z": 5e6 - 3e5 * z_n,
            "square": z_n**2 + 2 * z_n,
            "again": 2 * z_n,
            "one": np.ones(z_n.size),
        },
    )
    np.testing.assert_allclose(other.weight, plain.weight, rtol=1e-7)
    assert other.means["again"].kept is None
    assert other.means["one"].kept is None
    assert set(other.kept) == {"z", "square"}
    order = np.random.default_rng(1).permutation(z_n.size)
    mixed = unskew.debias_weights(np.exp(np.outer(z_n, THETA))[order], source_n[order])
    np.testing.assert_allclose(
        shrink_weights(mixed, {"z": z_n[order], "square": z_n[order] ** 2}).weight,
        plain.weight[order],
        rtol=1e-6,
    )


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_values_of_any_size(scale):
    z_n, _, weights = tilted(sizes=(70, 60, 50))
    plain, scaled = shrink_weights(weights, {"z": z_n}), shrink_weights(weights, {"z": scale * z_n})
    np.testing.assert_allclose(scaled.weight, plain.weight, rtol=1e-9)


def test_nothing_varies():
    _, _, weights = tilted()
    found = shrink_weights(weights, {"one": np.ones(180), "zero": np.zeros(180)})
    np.testing.assert_array_equal(found.weight, weights.weight)
    assert found.kept == {}


def test_a_constant_of_many_images_is_constant():
    # The mean of 0.1 over 50,000 images is not 0.1 to the last digit.
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 25_000), x=rng.standard_normal(50_000) + np.repeat([0, 0.1], 25_000)
    )
    weights = unskew.debias(pool, Tilt(["x"], reference="a"))
    found = shrink_weights(weights, {"x": pool.frame["x"], "tenth": np.full(50_000, 0.1)})
    assert set(found.kept) == {"x"}


def test_values_of_images_without_weight_have_no_say():
    rng = np.random.default_rng(0)
    label_n, source_n = np.tile(["x", "y", "z"], 60), np.repeat(["a", "b"], 90)
    value_n = rng.standard_normal(180) + (label_n == "y")
    pool = Pool.from_arrays(source_n, label=label_n, v=value_n)
    weights = unskew.debias(
        pool, Strata("label"), Target.margins({"label": {"x": 0.5, "y": 0.5, "z": 0.0}})
    )
    plain = shrink_weights(weights, {"v": value_n})
    odd = shrink_weights(weights, {"v": np.where(label_n == "z", 1e16, value_n)})
    assert plain.means["v"].kept is not None
    np.testing.assert_allclose(odd.weight, plain.weight, rtol=1e-12)


def test_copies_within_groups_change_nothing():
    z_n, source_n, _ = tilted(sizes=(40, 30, 30))
    omega_nk = np.exp(np.outer(z_n, THETA))
    once = unskew.debias_weights(omega_nk, source_n, group=np.arange(100))
    twice = unskew.debias_weights(
        np.repeat(omega_nk, 2, axis=0), np.repeat(source_n, 2), group=np.repeat(np.arange(100), 2)
    )
    expected = shrink_weights(once, {"z": z_n})
    found = shrink_weights(twice, {"z": np.repeat(z_n, 2)})
    assert found.means["z"].kept == pytest.approx(expected.means["z"].kept, rel=1e-9)
    np.testing.assert_allclose(found.weight[::2], expected.weight / 2, rtol=1e-9)


def test_weights_that_equal_the_pool_stay():
    z_n, source_n, _ = tilted()
    weights = unskew.debias_weights(np.ones((180, 3)), source_n)
    found = shrink_weights(weights, {"z": z_n})
    np.testing.assert_allclose(found.weight, 1 / 180, rtol=1e-12)
    assert found.means["z"].apart == 0.0


def overlapping(seed, n_low, n_high):
    """Uniform on [0, 0.6] and [0.4, 1], target uniform on [0, 1]: only a third of each source links
    it to the other.
    """
    rng = np.random.default_rng(seed)
    z_n = np.concatenate([rng.uniform(0, 0.6, n_low), rng.uniform(0.4, 1, n_high)])
    return z_n, unskew.debias_weights(
        np.column_stack([z_n < 0.6, z_n > 0.4]).astype(float), np.repeat([0, 1], [n_low, n_high])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "at_most"), [((200, 200), 0.75), ((260, 140), 1.3), ((320, 80), 1.15)]
)
def test_the_error_falls_where_the_pool_is_right_and_rises_little_where_it_is_wrong(sizes, at_most):
    # Measured over twice 400 draws: 0.61–0.64, 1.11–1.15 (the pool is wrong by two standard errors,
    # the worst case) and 1.02–1.04.
    square = np.zeros(2)
    for seed in range(400):
        z_n, weights = overlapping(seed, *sizes)
        square += [
            (weight_n @ z_n - 0.5) ** 2
            for weight_n in (shrink_weights(weights, {"z": z_n}).weight, weights.weight)
        ]
    assert np.sqrt(square[0] / square[1]) < at_most


def test_many_images_of_a_biased_pool_keep_their_weights():
    z_n, _, weights = tilted(sizes=(8000, 1000, 1000))
    found = shrink_weights(weights, {"z": z_n})
    assert found.means["z"].kept > 0.99
    assert found.means["z"].apart > 10


def test_the_features_of_the_model_are_the_default():
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 150),
        label=np.tile(["x", "y", "y"], 100),
        z=rng.standard_normal(300) + np.repeat([0, 0.5], 150),
        lens=rng.choice(["wide", "long", "macro"], 300),
    )
    weights = unskew.debias(pool, Tilt(["z", "lens"], reference="a"))
    assert list(shrink_weights(weights).means) == ["z", "lens = macro", "lens = wide"]
    target = Target.margins({"label": {"x": 0.5, "y": 0.5}})
    product = unskew.debias(pool, Product(Strata("label"), Tilt(["z"], reference="a")), target)
    assert list(shrink_weights(product).means) == ["z"]
    soft = unskew.debias(pool, SoftBox(["z"]))
    assert list(shrink_weights(soft).means) == ["z"]
    for model in (Strata("label"), Known(np.ones((300, 2)))):
        with refused(ConfigError, option="means"):
            shrink_weights(
                unskew.debias(pool, model, target if isinstance(model, Strata) else None)
            )


def test_images_without_weight_stay_without():
    rng = np.random.default_rng(4)
    pool = Pool.from_arrays(
        np.repeat(["a", "b"], 100),
        z=np.concatenate([rng.uniform(0, 0.7, 100), rng.uniform(0.3, 1, 100)]),
    )
    weights = unskew.debias(pool, Box(["z"], quantile=0.05))
    assert (weights.weight == 0).any()
    found = shrink_weights(weights)
    np.testing.assert_array_equal(found.weight == 0, weights.weight == 0)
    assert found.means["z"].pool == pytest.approx(
        pool.frame["z"].to_numpy()[weights.weight > 0].mean(), rel=1e-12
    )


def test_bad_input():
    z_n, source_n, weights = tilted()
    with refused(DataError, option="weights", value="ndarray"):
        shrink_weights(weights.weight, {"z": z_n})
    with refused(ConfigError, option="means"):
        shrink_weights(weights)
    with refused(ConfigError, option="means"):
        shrink_weights(weights, {})
    with refused(DataError, count=z_n.size):
        shrink_weights(weights, {"z": z_n[:-1]})
    with refused(DataError, row=int(np.argmax(z_n > 1))):
        shrink_weights(weights, {"z": np.where(z_n > 1, np.nan, z_n)})
    apart = unskew.debias_weights(
        np.eye(2)[np.repeat([0, 1], 5)], np.repeat([0, 1], 5), throw=False
    )
    with refused(ConvergenceError, value="DISCONNECTED"):
        shrink_weights(apart, {"z": z_n[:10]})
    grouped = unskew.debias_weights(np.exp(np.outer(z_n, THETA)), source_n, group=source_n)
    with refused(DataError, option="weights"):
        shrink_weights(grouped, {"z": z_n})


def test_means_that_no_weights_have():
    weight_n, direction_nj = np.full(4, 0.25), np.array([[-1.0], [-0.5], [0.5], [1.0]])
    with refused(CoverageError, columns=["z"], count=4):
        nearest_weights(weight_n, direction_nj, np.array([1.5]), ["z"])
    np.testing.assert_array_equal(
        nearest_weights(weight_n, np.empty((4, 0)), np.empty(0), ["one"]), weight_n
    )
