"""Facts of nested_sets, and its closed form against brute-force minimisation of the objective."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from raising import refused
from unskew.errors import ConfigError, OverlapError
from unskew.scenarios import nested_sets, nested_sets_solution

_EDGES = (0.1, 0.4, 0.7, 1.0)


def test_every_source_is_uniform_on_its_own_set() -> None:
    """Kolmogorov-Smirnov at 1e-4, four fixed draws."""
    scenario = nested_sets(8000, edges=_EDGES, rng=0)
    for k, edge in enumerate(_EDGES):
        assert (
            stats.kstest(
                scenario.features[scenario.source == k, 0], "uniform", args=(0.0, edge)
            ).pvalue
            > 1e-4
        )


def test_omega_is_the_indicator_of_the_set() -> None:
    scenario = nested_sets(3000, edges=_EDGES, rng=1)
    np.testing.assert_array_equal(
        scenario.omega, (scenario.features < np.array(_EDGES)).astype(float)
    )
    np.testing.assert_array_equal(scenario.omega, scenario.label[:, None] <= np.arange(4))


def test_truths_under_the_target() -> None:
    """Ω_k = edge_k, and the moments of a uniform variable, by numerical integration over a fine
    grid of the target.
    """
    scenario = nested_sets(40, edges=_EDGES, rng=2)
    grid = (np.arange(1_000_000) + 0.5) / 1_000_000
    np.testing.assert_allclose(
        [np.mean(grid < edge) for edge in _EDGES], scenario.normalizer, atol=1e-6
    )
    np.testing.assert_allclose(scenario.target_mean["features"], grid.mean(), atol=1e-9)
    np.testing.assert_allclose(
        scenario.target_mean["features_squared"], np.mean(grid**2), atol=1e-9
    )
    np.testing.assert_allclose(
        scenario.target_mean["label_share"], np.diff(_EDGES, prepend=0.0), rtol=1e-15
    )


def _minimise_objective(
    omega_nk: np.ndarray, source_n: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and normalizers from D(u) = mean_i log Σ_k e^{u_k} ω_ik − Σ_k λ_k u_k with u_K = 0,
    knowing nothing of nesting.
    """
    share_k = np.bincount(source_n) / source_n.size

    def value_and_gradient(free: np.ndarray) -> tuple[float, np.ndarray]:
        tilted_nk = np.exp(np.append(free, 0.0)) * omega_nk
        total_n = tilted_nk.sum(axis=1)
        gradient_k = (tilted_nk / total_n[:, None]).mean(axis=0) - share_k
        return float(np.log(total_n).mean() - share_k[:-1] @ free), gradient_k[:-1]

    found = optimize.minimize(
        value_and_gradient,
        np.zeros(share_k.size - 1),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-12},
    )
    # BFGS may report lost precision at a gradient of 1e-12; the gradient itself is what counts.
    assert np.max(np.abs(found.jac)) < 1e-8
    weight_n = 1.0 / (omega_nk @ np.exp(np.append(found.x, 0.0)))
    weight_n /= weight_n.sum()
    return weight_n, weight_n @ omega_nk


@pytest.mark.parametrize("sizes", [[30, 30, 30, 30], [5, 200, 10, 50], [300, 20, 20, 20]])
@pytest.mark.parametrize("seed", range(3))
def test_closed_form_minimises_the_objective(sizes: list[int], seed: int) -> None:
    """Tolerance 1e-5: a gradient below 1e-8 over the curvature of these problems (about 1e-2)
    leaves about 1e-6.
    """
    scenario = nested_sets(sizes, edges=_EDGES, rng=seed)
    closed = nested_sets_solution(scenario.label, scenario.source)
    weight_n, normalizer_k = _minimise_objective(scenario.omega, scenario.source)
    np.testing.assert_allclose(closed.weight, weight_n, rtol=1e-5)
    np.testing.assert_allclose(closed.normalizer, normalizer_k, rtol=1e-5)


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60, deadline=None)
def test_closed_form_satisfies_the_equations_of_a_solution(sizes: list[int], seed: int) -> None:
    """Σ π = 1, πᵀω = Ω and n π_i Σ_k λ_k ω_ik/Ω_k = 1 in every row; or no solution because the
    overlap graph is not connected.
    """
    scenario = nested_sets(sizes, edges=np.arange(1, len(sizes) + 1) / len(sizes), rng=seed)
    connected = all(np.any(scenario.label[scenario.source > k] <= k) for k in range(len(sizes) - 1))
    if not connected:
        with pytest.raises(OverlapError) as caught:
            nested_sets_solution(scenario.label, scenario.source)
        assert caught.value.facts["source"] in range(scenario.log_normalizer.size)
        return
    closed = nested_sets_solution(scenario.label, scenario.source)
    assert closed.weight.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(closed.weight @ scenario.omega, closed.normalizer, rtol=1e-12)
    np.testing.assert_allclose(
        closed.weight * (scenario.omega @ (scenario.sizes / closed.normalizer)), 1.0, rtol=1e-10
    )


def test_closed_form_handles_an_empty_stratum() -> None:
    """No image in the middle stratum: its mass is 0, and A_1 and A_2 weigh the same."""
    closed = nested_sets_solution([0, 0, 0, 0, 2], [0, 1, 1, 2, 2])
    np.testing.assert_allclose(closed.normalizer, [0.5, 0.5, 1.0], rtol=1e-15)
    np.testing.assert_allclose(closed.weight, [0.125, 0.125, 0.125, 0.125, 0.5], rtol=1e-15)


def test_one_source_has_equal_weights() -> None:
    closed = nested_sets_solution([0, 0, 0, 0], [0, 0, 0, 0])
    np.testing.assert_array_equal(closed.weight, 0.25)
    np.testing.assert_array_equal(closed.normalizer, [1.0])


def test_estimates_approach_the_truth() -> None:
    """With 400,000 images Ω̂_k is within 5 standard errors of edge_k; the standard error of log
    Ω̂_1 here is below 0.004.
    """
    scenario = nested_sets(400_000, edges=_EDGES, rng=9)
    closed = nested_sets_solution(scenario.label, scenario.source)
    np.testing.assert_allclose(np.log(closed.normalizer), scenario.log_normalizer, atol=0.02)


def test_impossible_settings_are_refused() -> None:
    for edges in ([0.5, 0.4, 1.0], [0.2, 0.9], [0.0, 1.0], []):
        with refused(ConfigError, option="edges", value=list(edges)):
            nested_sets(100, edges=edges, rng=0)
    with refused(ConfigError, option="stratum"):
        nested_sets_solution([1, 0], [0, 1])
