"""Errors of soft boxes count the choice of edges: which edges are opened, what the second fit is,
and when there is none.
"""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unskew
from simulations import DataSet, soft_box, soft_box_blurred, text
from unskew.bias import Product, SoftBox, Strata
from unskew.bias.fitting import fit_rival
from unskew.bias.soft_box.fit import TOLD_APART, SoftBoxFit
from unskew.records import Estimate, Floats, Pool, Target, Weights
from unskew.weigh.estimated_omega import beside_rival, estimated_mean

NUMBERS = st.floats(-10, 10)
POSITIVE = st.floats(1e-3, 10)


def interval_of(value: float, stderr: float, quantile: float) -> Estimate:
    return Estimate(value, stderr, (value - quantile * stderr, value + quantile * stderr))


@given(NUMBERS, NUMBERS, POSITIVE, POSITIVE, st.floats(1.9, 13))
def test_the_interval_contains_those_of_both_models(
    value: float, other: float, stderr: float, wide: float, quantile: float
) -> None:
    estimate, rival = interval_of(value, stderr, 1.96), interval_of(other, wide, quantile)
    found = beside_rival(estimate, rival)
    assert found.value == value
    for each in (estimate, rival):
        assert found.interval[0] <= each.interval[0] + 1e-9
        assert found.interval[1] >= each.interval[1] - 1e-9
    assert sum(found.interval) / 2 == pytest.approx(value, abs=1e-9)
    assert found.stderr**2 == pytest.approx(max(stderr, wide) ** 2 + (value - other) ** 2)


def test_a_rival_that_says_the_same_changes_nothing_and_one_without_an_error_everything() -> None:
    estimate = interval_of(1.0, 0.1, 2.0)
    same = beside_rival(estimate, estimate)
    assert same.stderr == pytest.approx(0.1)
    assert same.interval == pytest.approx(estimate.interval)
    assert beside_rival(Estimate(1.0, 0.0, (1.0, 1.0)), Estimate(1.0, 0.0, (1.0, 1.0))) == Estimate(
        1.0, 0.0, (1.0, 1.0)
    )
    unknown = beside_rival(estimate, Estimate(1.0, math.inf, (-math.inf, math.inf)))
    assert unknown.stderr == math.inf
    assert unknown.interval == (-math.inf, math.inf)


def without_rival(weights: Weights, value: Floats) -> Estimate:
    assert weights.estimation is not None
    return estimated_mean(weights.estimation.rows, value, 0.95)


def blurred(seed: int) -> DataSet:
    return soft_box_blurred(np.random.default_rng(seed))


def test_the_error_is_that_of_the_wider_fit_and_of_the_distance_to_it() -> None:
    seen = 0
    for seed in range(8):
        data = blurred(seed)
        weights = data.debias()
        estimation = weights.estimation
        assert estimation is not None
        rival = fit_rival(estimation.fitted)
        own, found = without_rival(weights, data.value), weights.mean(data.value)
        assert found.value == own.value
        if rival is None:
            assert found == own
            continue
        seen += 1
        # The mean under the other ω by the solver alone: an independent way to the same weights.
        other = (
            unskew.debias_weights(
                rival.profile.log_omega, data.pool.source, log=True, names=data.pool.names
            ).weight
            @ data.value
        )
        reach = (found.interval[1] - found.interval[0]) / 2
        assert found.stderr >= math.hypot(own.stderr, found.value - other) * (1 - 1e-6)
        assert reach >= (own.interval[1] - own.interval[0]) / 2 + abs(found.value - other) * (
            1 - 1e-6
        )
        fit, wide = (each.factors[0].fit for each in (estimation.fitted, rival))
        assert wide.log_likelihood >= fit.log_likelihood - TOLD_APART
    assert seen >= 5


def test_boxes_that_leave_no_choice_have_errors_of_their_own_alone() -> None:
    data = soft_box(np.random.default_rng(0))
    weights = data.debias()
    assert weights.mean(data.value) == without_rival(weights, data.value)


def rejected_constant() -> tuple[DataSet, Weights, SoftBoxFit]:
    """The first data set whose boxes are found not to be worth their parameters, though the test
    sees that there are some.
    """
    for seed in range(100):
        data = blurred(seed)
        weights = data.debias()
        assert weights.estimation is not None
        fit = weights.estimation.fitted.factors[0].fit
        if fit.rejected is not None:
            return data, weights, fit
    raise AssertionError


def test_boxes_that_were_rejected_count_in_the_errors_of_the_constant() -> None:
    data, weights, fit = rejected_constant()
    assert fit.is_constant
    np.testing.assert_allclose(weights.weight, 1 / len(data.pool))
    assert weights.estimation is not None
    assert not weights.estimation.omega_is_known
    found = weights.mean(data.value)
    assert found.value == pytest.approx(data.value.mean())
    assert found.stderr > 1.1 * data.value.std() / math.sqrt(data.value.size)
    # The bootstrap that fits anew and the covariance go on as for a model without parameters.
    assert np.isfinite(weights.bootstrap(5, 0, data.value).estimate().stderr)
    np.testing.assert_allclose(weights.covariance(), 0.0, atol=1e-12)


def test_weights_whose_rival_was_fitted_can_be_pickled() -> None:
    data = blurred(0)
    weights = data.debias()
    found = weights.mean(data.value)
    again = pickle.loads(pickle.dumps(weights))
    assert again.mean(data.value) == found


def test_in_a_product_the_other_factors_are_held() -> None:
    rng = np.random.default_rng(5)
    data = blurred(0)
    label = text(rng.integers(2, size=len(data.pool)))
    target = Target.margins({"label": {"a": 0.3, "b": 0.7}})
    pool = Pool(data.pool.frame.assign(label=label))
    product = DataSet(pool, Product(Strata("label"), SoftBox(["x", "z"])), target, data.value, 1.0)
    weights = product.debias()
    assert weights.estimation is not None
    rival = fit_rival(weights.estimation.fitted)
    assert rival is not None
    assert rival.strata is not None
    own, found = without_rival(weights, data.value), weights.mean(data.value)
    assert found.stderr > own.stderr
    # The target's shares hold under the rival, too: the mean of the label has no error.
    share = weights.mean((label == "b").astype(float))
    assert share.value == pytest.approx(0.7)
    assert share.stderr == pytest.approx(0.0, abs=1e-9)
