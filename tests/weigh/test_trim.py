"""The cap holds exactly, mass and order are kept, and what moved is accounted for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import unskew
from raising import refused
from simulation_measures import draw_sets
from unskew.errors import ConfigError, ConvergenceError, DataError
from unskew.weigh.trim import cap_weights, trim_weights
from worlds_variance import HEAVY

weight_arrays = arrays(float, st.integers(1, 40), elements=st.floats(1e-8, 1e4))


def tilted():
    rng = np.random.default_rng(0)
    theta_k = np.array([-1.0, 0.0, 1.0])
    source_n = np.repeat(np.arange(3), 60)
    z_n = theta_k[source_n] + rng.standard_normal(180)
    return z_n, unskew.debias_weights(
        np.exp(np.outer(z_n, theta_k)), source_n, names=["west", "middle", "east"]
    )


@given(weight_arrays, st.floats(1.0, 20.0))
def test_cap_sum_and_order(weight_n, at):
    result = trim_weights(weight_n, at=at)
    share_n = weight_n / weight_n.sum()
    assert result.weight.max() <= result.cap
    assert result.weight.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(result.weight[np.argsort(share_n, kind="stable")]) >= 0).all()
    # Kish's size is Schur-concave in the weights, and a cap evens them out.
    assert result.ess_after >= result.ess_before * (1 - 1e-12)
    # Images below the cap gain by one common factor.
    below_n = result.weight < result.cap * (1 - 1e-12)
    ratio = result.weight[below_n] / share_n[below_n]
    assert ratio.size == 0 or np.ptp(ratio) <= 1e-12 * ratio.max()
    assert ratio.size == 0 or ratio.min() >= 1 - 1e-12
    assert result.moved == pytest.approx(np.abs(result.weight - share_n).sum() / 2, abs=1e-12)


@given(weight_arrays, st.floats(1.0, 20.0))
def test_trimming_twice_is_trimming_once(weight_n, at):
    once = trim_weights(weight_n, at=at)
    again = trim_weights(once.weight, at=at * (1 + 1e-12))
    np.testing.assert_allclose(again.weight, once.weight, rtol=1e-10)


@given(weight_arrays)
def test_cap_at_the_mean_gives_equal_weights(weight_n):
    np.testing.assert_allclose(trim_weights(weight_n, at=1).weight, 1 / weight_n.size, rtol=1e-10)


@given(weight_arrays)
def test_nothing_to_trim_changes_nothing(weight_n):
    share_n = weight_n / weight_n.sum()
    for result in (
        trim_weights(weight_n, at=weight_n.size),
        trim_weights(weight_n, quantile=1.0),
        trim_weights(weight_n, at=math.inf),
    ):
        np.testing.assert_array_equal(result.weight, share_n)
        assert (result.n_trimmed, result.moved) == (0, 0.0)


def test_redistribution_is_iterated():
    # Capping 6 hands its excess on and lifts 3 above the cap: it is capped too.
    result = trim_weights([1, 1, 3, 6], at=1.3)
    np.testing.assert_allclose(result.sample_weight, [0.7, 0.7, 1.3, 1.3], rtol=1e-14)
    assert result.n_trimmed == 2


def test_quantile():
    weight_n = np.arange(1.0, 101.0)
    result = trim_weights(weight_n, quantile=0.9)
    assert result.cap == pytest.approx(np.quantile(weight_n / weight_n.sum(), 0.9), rel=1e-15)
    assert result.n_trimmed >= 10


def test_account_by_source_and_mean():
    z_n, weights = tilted()
    result = trim_weights(weights, at=1.2, means={"z": z_n, "share": (z_n > 0, 0.5)})
    assert result.trimmed_by_source == {
        name: int(np.count_nonzero(result.weight[weights.source == k] == result.cap))
        for k, name in enumerate(weights.names)
    }
    assert sum(result.trimmed_by_source.values()) == result.n_trimmed > 0
    shift = result.means["z"]
    assert shift.before == pytest.approx(weights.mean(z_n).value, abs=1e-14)
    assert shift.after == pytest.approx(result.weight @ z_n, abs=1e-14)
    assert shift.difference == pytest.approx(shift.after - shift.before)
    assert shift.difference_in_stderr == pytest.approx(shift.difference / weights.mean(z_n).stderr)
    assert (shift.known, result.means["share"].known) == (None, 0.5)
    assert result.at == pytest.approx(1.2)
    assert result.ess_before == pytest.approx(weights.ess)


def test_plain_numbers_have_no_sources_and_no_errors():
    result = trim_weights([1, 2, 9], at=1.5, means={"x": [1, 2, 3]})
    assert result.trimmed_by_source is None
    assert (result.means["x"].stderr, result.means["x"].difference_in_stderr) == (None, None)
    assert result.means["x"].before == pytest.approx(32 / 12)


def test_a_constant_does_not_move():
    _, weights = tilted()
    shift = trim_weights(weights, at=1.5, means={"one": np.ones(180)}).means["one"]
    assert shift.difference == pytest.approx(0, abs=1e-14)
    assert abs(shift.after - 1) < 1e-14


def test_zero_weights_stay_zero():
    result = trim_weights([0, 1, 1, 4], at=4 / 3)
    np.testing.assert_allclose(result.weight, [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-14)
    with refused(ConfigError, option="at", count=3):
        trim_weights([0, 1, 1, 4], at=1.2)


def test_smallest_mean_squared_error():
    rng = np.random.default_rng(1)
    # Two heavy images whose values balance: they add variance and no bias, so trimming is due.
    weight_n = np.append(np.ones(400), [80.0, 60.0])
    value_n = np.append(rng.standard_normal(400), [1.5, -2.0])
    value_n[:400] -= value_n[:400].mean()
    best = trim_weights(weight_n, at="mse", means={"x": value_n})
    assert best.n_trimmed >= 2
    assert best.ess_after > 3 * best.ess_before
    # Equal weights have nothing to trim, and a weight that follows the value is worth its variance.
    assert trim_weights(np.ones(50), at="mse", means={"x": rng.standard_normal(50)}).n_trimmed == 0
    group_n = np.repeat([0.0, 1.0], [5000, 500])
    assert (
        trim_weights(np.where(group_n == 1, 10.0, 1.0), at="mse", means={"x": group_n}).n_trimmed
        == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "at_most"), list(zip(HEAVY, [0.97, 0.97, 1.0, 1.05, 1.05], strict=True))
)
def test_the_best_cap_lowers_the_error_or_raises_it_little(recipe, at_most):
    square = np.zeros(2)
    for data in draw_sets(recipe, 300, 6):
        weights = data.debias()
        trimmed = trim_weights(weights.weight, at="mse", means={"value": data.value})
        square += [
            (weight_n @ data.value - data.truth) ** 2
            for weight_n in (trimmed.weight, weights.weight)
        ]
    assert np.sqrt(square[0] / square[1]) < at_most


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"at": 0.5}, {"option": "at", "value": 0.5}),
        ({"at": math.nan}, {"option": "at"}),
        ({"at": "median"}, {"option": "at", "value": "median"}),
        ({"quantile": 0.01}, {"option": "at", "limit": 1 / 4, "count": 4}),
        ({"quantile": 1.5}, {"option": "quantile", "value": 1.5}),
        ({}, {"option": "at"}),
        ({"at": 2.0, "quantile": 0.9}, {"option": "at"}),
        ({"at": "mse"}, {"option": "means"}),
    ],
)
def test_bad_caps(options, facts):
    with refused(ConfigError, **facts):
        trim_weights([1, 2, 3, 4], **options)


def test_bad_means():
    with refused(DataError, count=2, value=[3]):
        trim_weights([1, 2], at=1.5, means={"x": [1, 2, 3]})
    with refused(DataError, option="means", value=math.inf):
        trim_weights([1, 2], at=1.5, means={"x": ([1, 2], math.inf)})
    with refused(DataError, row=0):
        trim_weights([math.nan, 2], at=1.5)


def test_cap_weights_reports_who_is_at_the_cap():
    after_n, trimmed_n = cap_weights(np.array([0.1, 0.6, 0.3]), 0.5)
    np.testing.assert_allclose(after_n, [0.125, 0.5, 0.375])
    assert trimmed_n.tolist() == [False, True, False]


def test_no_trimming_without_a_solution():
    failed = unskew.debias_weights(np.eye(2)[[0, 0, 1, 1]], [0, 0, 1, 1], throw=False)
    with refused(ConvergenceError, value="DISCONNECTED"):
        trim_weights(failed, at=2.0)
