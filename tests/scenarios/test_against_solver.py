"""The solver finds the closed forms and, within its own error bars, the truth of every scenario."""

import numpy as np
import pytest

import unskew
from unskew.scenarios import (
    class_mixtures,
    nested_sets,
    nested_sets_solution,
    overlapping_classes,
    tilts,
)


@pytest.mark.parametrize(
    "sizes", [[400, 400, 400, 400], [50, 2000, 100, 500], [3000, 200, 200, 200]]
)
def test_nested_sets_have_the_product_limit_weights(sizes: list[int]) -> None:
    """1e-9: the solver's tolerance is 1e-10 in log normalizers, and a weight depends on K = 4 of
    them.
    """
    scenario = nested_sets(sizes, edges=(0.1, 0.4, 0.7, 1.0), rng=0)
    closed = nested_sets_solution(scenario.label, scenario.source)
    weights = unskew.debias_weights(scenario.omega, scenario.source)
    np.testing.assert_allclose(weights.weight, closed.weight, rtol=1e-9)
    np.testing.assert_allclose(weights.normalizer, closed.normalizer, rtol=1e-9)


@pytest.mark.parametrize("overlap", [0.02, 0.2])
def test_estimated_class_omega_has_post_stratified_weights(overlap: float) -> None:
    """π_i ∝ p(y_i)/N_{y_i}: with ω̂_k(y) = n_k^(y)/(M p(y)) the equations hold for u constant."""
    label = np.repeat(np.arange(10), np.arange(30, 130, 10))
    scenario = overlapping_classes(
        label, overlap=overlap, sizes=[6000, 3000, 2000, 1000, 1000], rng=1
    )
    weights = unskew.debias_weights(scenario.omega_estimated, scenario.source)
    count_m = np.bincount(scenario.label, minlength=10)
    np.testing.assert_allclose(
        weights.weight, (scenario.target_mean["label_share"] / count_m)[scenario.label], rtol=1e-9
    )


def test_true_class_omega_finds_the_target_shares_within_error_bars() -> None:
    """Ten shares, each within 4 of its standard errors."""
    scenario = overlapping_classes(overlap=0.2, sizes=[8000, 3000, 2000, 1000, 1000], rng=2)
    weights = unskew.debias_weights(scenario.omega, scenario.source)
    for y, truth in enumerate(scenario.target_mean["label_share"]):
        estimate = weights.mean(scenario.label == y)
        assert abs(estimate.value - truth) < 4 * estimate.stderr


@pytest.mark.parametrize("group_size", [None, 5])
def test_tilts_find_normalizers_and_moments_within_error_bars(group_size: int | None) -> None:
    scenario = tilts(12_000, n_sources=4, dim=2, group_size=group_size, rng=3)
    weights = unskew.debias_weights(
        scenario.log_omega, scenario.source, log=True, group=scenario.group
    )
    stderr_k = np.sqrt(np.diag(weights.covariance()))
    assert np.all(np.abs(weights.solution.log_normalizer - scenario.log_normalizer) < 4 * stderr_k)
    for d in range(2):
        for values, truth in ((scenario.features[:, d], 0.0), (scenario.features[:, d] ** 2, 1.0)):
            estimate = weights.mean(values)
            assert abs(estimate.value - truth) < 4 * estimate.stderr


def test_sources_without_a_common_class_are_refused() -> None:
    scenario = overlapping_classes(overlap=0.0, rng=4)
    with pytest.raises(unskew.OverlapError):
        unskew.debias_weights(scenario.omega, scenario.source)


def test_a_one_way_graph_is_refused() -> None:
    """Source 0 could have taken images of source 1, but not the other way round."""
    one_way = class_mixtures([[0.5, 0.5], [1.0, 0.0]], sizes=100, rng=5)
    assert unskew.check_overlap(one_way.omega, one_way.source).connected
    row = (one_way.source == 1) | (one_way.label == 1)
    overlap = unskew.check_overlap(one_way.omega[row], one_way.source[row])
    assert overlap.verdict == "disconnected"
