"""Means augmented by predictions: closed forms, invariances, and both robustness properties."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from simulations import make_pool, make_sample
from unskew import Target
from unskew.bias import Box, Known, Propensity, Strata, Tilt
from unskew.errors import ConfigError, DataError
from unskew.records import Estimate, RobustEstimate
from unskew.weigh.doubly_robust import DOUBT, PREMIUM, _begin_of_ramp, _cost
from worlds_robust import PROMISED, measure_robustness


def plain_weights(n: int, **columns):
    pool = make_pool(np.zeros(n, dtype=np.int64), **columns)
    return unskew.debias(pool, Known(np.ones((n, 1))))


def tilted(rng, n=300, m=200, **options):
    """Two tilted sources, a sample of the target, y = x² + w + noise."""
    source = np.repeat([0, 1], n // 2)
    x, w = rng.normal(np.array([0.8, -0.2])[source]), rng.normal(size=n)
    sample_x, sample_w = rng.normal(size=(2, m))
    weights = unskew.debias(
        make_pool(source, x=x), Tilt(["x"]), make_sample(m, x=sample_x), check_sample=False
    )
    value = x**2 + w + 0.7 * rng.normal(size=n)
    return weights, value, x**2 + w, sample_x**2 + sample_w


def same(one: Estimate, other: Estimate, rel: float = 1e-8) -> None:
    assert one.value == pytest.approx(other.value, rel=rel, abs=1e-10)
    assert one.stderr == pytest.approx(other.stderr, rel=rel)
    assert one.interval == pytest.approx(other.interval, rel=rel, abs=1e-10)


def test_equal_weights_give_the_closed_form_of_ppi():
    rng = np.random.default_rng(3)
    n, m = 400, 500
    predicted, target = rng.normal(size=n), rng.normal(size=m)
    value = 0.4 * predicted + rng.normal(size=n)
    result = plain_weights(n).mean(value, predicted, target)
    variance = predicted.var(ddof=1) / n + target.var(ddof=1) / m
    factor = np.cov(value, predicted)[0, 1] / n / variance
    # PPI++ tunes without the factor of James and Stein, which is near 1 here.
    assert 0.95 * factor < result.tuning < factor
    by_hand = value.mean() + result.tuning * (target.mean() - predicted.mean())
    assert result.value == pytest.approx(by_hand, rel=1e-12)
    rest = value - result.tuning * predicted
    stderr = np.sqrt(rest.var(ddof=1) / n + result.tuning**2 * target.var(ddof=1) / m)
    # The squared error of what may be left is bounded by DOUBT on average; here D is small.
    assert result.stderr == pytest.approx(stderr, rel=DOUBT)
    assert isinstance(result, RobustEstimate)
    same(result.weighted, plain_weights(n).mean(value))


def test_predictions_that_equal_the_values_give_the_known_mean():
    rng = np.random.default_rng(4)
    weights, value, _, _ = tilted(rng)
    result = weights.mean(value, value, 1.25)
    assert result.value == pytest.approx(1.25, abs=1e-12)
    assert result.stderr == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("constant", [0.0, 3.7e5])
def test_constant_predictions_change_nothing(constant):
    weights, value, _, _ = tilted(np.random.default_rng(5))
    result = weights.mean(value, np.full(value.size, constant), np.full(200, constant))
    same(result, weights.mean(value))
    assert result.tuning == 0.0


@pytest.mark.parametrize("scale", [-3.0, 1e-6, 1e7])
def test_affine_maps_of_the_predictions_change_nothing(scale):
    weights, value, predicted, target = tilted(np.random.default_rng(6))
    result = weights.mean(value, predicted, target)
    mapped = weights.mean(value, 2.0 + scale * predicted, 2.0 + scale * target)
    same(mapped, result, rel=1e-6)
    assert mapped.tuning * scale == pytest.approx(result.tuning, rel=1e-6)


def test_affine_maps_of_the_values_map_the_estimate():
    weights, value, predicted, target = tilted(np.random.default_rng(6))
    result = weights.mean(value, predicted, target)
    mapped = weights.mean(5.0 - 1e4 * value, predicted, target)
    assert mapped.value == pytest.approx(5.0 - 1e4 * result.value, rel=1e-9)
    assert mapped.stderr == pytest.approx(1e4 * result.stderr, rel=1e-6)


def test_duplicating_images_within_their_groups_changes_nothing():
    rng = np.random.default_rng(7)
    n = 120
    source, group = np.repeat([0, 1], n // 2), np.arange(n)
    x, predicted, target = rng.normal(size=n), rng.normal(size=n), rng.normal(size=90)
    value, omega = predicted + rng.normal(size=n), np.exp(np.outer(x, [0.4, -0.4]))
    once = unskew.debias(make_pool(source, group=group), Known(omega))
    twice = unskew.debias(
        make_pool(np.repeat(source, 2), group=np.repeat(group, 2)),
        Known(np.repeat(omega, 2, axis=0)),
    )
    # A shifted target: the slope, and its error, count.
    for other in (target, target + 2.0):
        same(
            twice.mean(np.repeat(value, 2), np.repeat(predicted, 2), other),
            once.mean(value, predicted, other),
            rel=1e-6,
        )


def test_an_estimate_as_the_targets_mean_is_as_good_as_its_images():
    rng = np.random.default_rng(8)
    weights, value, predicted, _ = tilted(rng)
    images = rng.normal(size=350)
    known = plain_weights(350).mean(images)
    same(weights.mean(value, predicted, known), weights.mean(value, predicted, images), rel=1e-4)


def test_a_source_that_is_the_target_needs_no_target_predictions():
    rng = np.random.default_rng(9)
    source = np.repeat([0, 1], [150, 250])
    x = rng.normal(np.array([0.0, 0.7])[source])
    predicted = x**2
    value = predicted + rng.normal(size=x.size)
    weights = unskew.debias(make_pool(source, x=x), Tilt(["x"]), Target.source("a"))
    result = weights.mean(value, predicted)
    assert result.shift == pytest.approx(
        predicted[:150].mean() - weights.weight @ predicted, rel=1e-12
    )
    # The predictions on the target's images are as good as those of equal, independent ones.
    other = weights.mean(value, predicted, rng.normal(size=150) ** 2)
    assert result.stderr == pytest.approx(other.stderr, rel=0.2)


def test_held_out_images_of_the_sample_count_too():
    rng = np.random.default_rng(10)
    source, x, sample_x = np.repeat([0, 1], 100), rng.normal(0.3, size=200), rng.normal(size=100)
    target = Target.sample(make_sample(100, x=sample_x).reference, holdout=0.4)
    weights = unskew.debias(make_pool(source, x=x), Tilt(["x"]), target, check_sample=False)
    result = weights.mean(x + rng.normal(size=200), np.sin(x), np.sin(sample_x))
    assert result.shift == pytest.approx(
        np.sin(sample_x).mean() - weights.weight @ np.sin(x), rel=1e-12
    )


def test_predictions_by_stratum_change_nothing_where_the_masses_are_given():
    rng = np.random.default_rng(11)
    label = rng.choice(["a", "b", "c"], 300)
    share = {"a": 0.2, "b": 0.3, "c": 0.5}
    pool = make_pool(np.repeat([0, 1], 150), label=label)
    weights = unskew.debias(pool, Strata("label"), Target.margins({"label": share}))
    by_label = {"a": 1.0, "b": 4.0, "c": 2.0}
    predicted = np.array([by_label[name] for name in label])
    value = predicted + rng.normal(size=300)
    known = sum(share[name] * by_label[name] for name in share)
    same(weights.mean(value, predicted, known), weights.mean(value), rel=1e-6)


@pytest.mark.parametrize("bias", [Box(["x"]), Propensity(["x"])])
def test_models_with_a_bootstrap_or_cross_fitting_work_too(bias):
    rng = np.random.default_rng(12)
    source, x, w = np.repeat([0, 1], 60), rng.uniform(size=120), rng.normal(size=120)
    value = w + 0.3 * rng.normal(size=120)
    target = make_sample(200, x=rng.uniform(size=200)) if isinstance(bias, Propensity) else None
    weights = unskew.debias(make_pool(source, x=x), bias, target, check_sample=False)
    result = weights.mean(value, w, rng.normal(size=200))
    assert result.stderr < 0.8 * result.weighted.stderr
    assert 0.3 < result.tuning <= 1.05


def test_wrong_weights_are_found_out_and_the_model_takes_over():
    rng = np.random.default_rng(13)
    n, m = 2000, 500
    hidden = rng.normal(0.6, size=n)
    weights = plain_weights(n)
    value, target = hidden + rng.normal(size=n), rng.normal(size=m)
    result = weights.mean(value, hidden, target)
    assert result.shift_p < 1e-6
    assert result.tuning == pytest.approx(result.slope, rel=1e-9)
    assert result.interval[0] < 0.0 < result.interval[1] < result.weighted.interval[0]


def test_predictions_that_the_weights_balance_anyway_are_not_blown_up():
    """Of two features that the tilt reads: D hardly varies, and says nothing about λ."""
    for seed in range(12):
        rng = np.random.default_rng([14, seed])
        x, sampled = rng.normal(0.4, size=(200, 2)), rng.normal(size=(90, 2))
        weights = unskew.debias(
            make_pool(np.zeros(200, dtype=np.int64), x=x[:, 0], z=x[:, 1]),
            Tilt(["x", "z"]),
            make_sample(90, x=sampled[:, 0], z=sampled[:, 1]),
            check_sample=False,
        )
        value = x @ [1.0, -2.0] + rng.normal(size=200)
        result = weights.mean(value, x @ [-0.5, 1.0], sampled @ [-0.5, 1.0])
        assert 1.05 * result.slope <= result.tuning <= 0.0
        assert abs(result.value - result.weighted.value) < 1.5 * result.weighted.stderr


def test_the_premium_of_robustness_is_what_was_allowed():
    z = np.random.default_rng(0).normal(size=200_000)
    for share in (0.5, 0.05):
        begin = _begin_of_ramp(share)
        assert _cost(begin) == pytest.approx(share, rel=1e-6)
        ramp = np.clip((np.abs(z) / begin - 1) / 0.25, 0, 1)
        assert np.mean(z**2 * ramp**2) == pytest.approx(share, rel=0.05)  # Monte Carlo
    assert PREMIUM < 1.02**2 - 1


def test_what_cannot_be_used_is_refused():
    weights, value, predicted, target = tilted(np.random.default_rng(14))
    n = value.size
    with refused(ConfigError, option="predicted"):
        weights.mean(value, target_predicted=target)
    with refused(ConfigError, option="target_predicted"):
        weights.mean(value, predicted)
    with refused(DataError, count=n):
        weights.mean(value, predicted[:-1], target)
    with refused(DataError, row=3):
        weights.mean(value, np.where(np.arange(n) == 3, np.nan, predicted), target)
    with refused(DataError, option="target_predicted", row=0):
        weights.mean(value, predicted, np.full(9, np.nan))
    with refused(DataError, option="target_predicted", count=1):
        weights.mean(value, predicted, [0.3])
    with refused(DataError, option="target_predicted"):
        weights.mean(value, predicted, ["a", "b"])
    by_class = unskew.debias(
        make_pool(np.zeros(4, dtype=int), label=list("aabb")),
        Strata("label"),
        Target.uniform("label"),
    )
    with refused(ConfigError, option="target_predicted"):
        by_class.mean([1, 2, 3, 4], [1, 2, 3, 5])


@pytest.mark.slow
@pytest.mark.parametrize(("world", "bar"), PROMISED)
def test_intervals_cover_and_predictions_do_not_hurt(world, bar):
    found = measure_robustness(world, 400, seed=7)
    # Three binomial standard errors beyond 93 to 97%.
    assert 0.90 < found.share < 0.995
    if bar is not None:
        assert found.ratio < bar + 2 * found.ratio_error
    else:
        assert found.plain_share < 0.1
        assert found.ratio < 0.5
