"""A source that hides some labels: its draw, its truth and its closed form."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from unskew.scenarios import censored, nested_sets_solution


def test_censored_weights_have_the_closed_form_of_nested_sets() -> None:
    label = np.random.default_rng(0).integers(0, 10, 5000)
    scenario = censored(label, hidden=[3, 5], sizes=[4500, 500], rng=0)
    assert not np.isin(scenario.label[scenario.source == 0], [3, 5]).any()
    assert scenario.normalizer[0] == pytest.approx(np.mean(~np.isin(label, [3, 5])))
    weights = unskew.debias_weights(scenario.omega, scenario.source)
    hidden = np.isin(scenario.label, [3, 5])
    np.testing.assert_allclose(weights.weight[hidden], 1 / 500, rtol=1e-9)
    closed = nested_sets_solution(hidden.astype(int), scenario.source)
    np.testing.assert_allclose(weights.weight, closed.weight, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (
            lambda: censored([0, 1], hidden=[2], sizes=[1, 1], rng=0),
            {"option": "hidden", "levels": ["2"]},
        ),
        (lambda: censored([0, 1], hidden=[0, 1], sizes=[1, 1], rng=0), {"option": "hidden"}),
        (
            lambda: censored([0, 1], np.ones((3, 1)), hidden=[0], sizes=[1, 1], rng=0),
            {"option": "features", "value": [3, 1]},
        ),
    ],
)
def test_impossible_calls_are_refused(call, facts: dict[str, object]) -> None:
    with refused(unskew.ConfigError, **facts):
        call()


def test_omega_is_0_for_hidden_labels_of_source_0_and_1_else() -> None:
    label = np.repeat(["cat", "dog", "ship"], [50, 30, 20])
    scenario = censored(label, np.arange(100.0)[:, None], hidden=["dog"], sizes=[400, 300], rng=1)
    names = np.array(["cat", "dog", "ship"])[scenario.label]
    np.testing.assert_array_equal(scenario.omega[:, 0], names != "dog")
    np.testing.assert_array_equal(scenario.omega[:, 1], np.ones(700))
    assert scenario.normalizer.tolist() == pytest.approx([0.7, 1.0])
    np.testing.assert_array_equal(scenario.source, np.repeat([0, 1], [400, 300]))
    # Rows stay whole: the feature is the image's place in the population.
    np.testing.assert_array_equal(label[scenario.features[:, 0].astype(int)], names)


def test_draws_repeat_by_seed_and_the_order_of_hidden_does_not_matter() -> None:
    label = np.arange(60) % 4
    one, same, other = (
        censored(label, hidden=hidden, sizes=[30, 20], rng=seed)
        for hidden, seed in (([1, 2], 0), ([2, 1], 0), ([1, 2], 1))
    )
    np.testing.assert_array_equal(one.label, same.label)
    assert not np.array_equal(one.label, other.label)
