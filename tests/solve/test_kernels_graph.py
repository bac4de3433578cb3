"""Loops over the graph of sources, compiled and plain, against NumPy and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.solve import kernels_graph, plain_graph

TWINS = pytest.mark.parametrize("loops", [kernels_graph, plain_graph])


def random_band(seed: int, n_sources: int, band: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric weights and an antisymmetric flow, zero beyond the band."""
    rng = np.random.default_rng(seed)
    near = np.triu(np.abs(np.subtract.outer(range(n_sources), range(n_sources))) <= band, 1)
    weight = near * rng.uniform(0.1, 1.0, near.shape)
    flow = near * rng.normal(size=near.shape)
    return weight + weight.T, flow - flow.T


@TWINS
@pytest.mark.parametrize(("n_sources", "band"), [(2, 2), (6, 6), (40, 3), (40, 40)])
def test_elimination_solves_the_laplacian_system(loops, n_sources: int, band: int) -> None:
    weight, flow = random_band(n_sources, n_sources, band)
    step, pivot = np.zeros(n_sources), np.ones(n_sources)
    order = np.zeros(n_sources, dtype=np.int64)
    assert loops.eliminate(weight.copy(), flow.copy(), band, order, pivot, step)
    np.testing.assert_allclose(
        (np.diag(weight.sum(axis=1)) - weight) @ step, flow.sum(axis=1), atol=1e-12
    )
    assert step.mean() == pytest.approx(0.0, abs=1e-13)
    assert sorted(order) == list(range(n_sources))


@TWINS
def test_a_source_without_links_has_no_pivot(loops) -> None:
    weight = np.zeros((3, 3))
    weight[0, 1] = weight[1, 0] = 1.0
    order, pivot, step = np.zeros(3, dtype=np.int64), np.ones(3), np.zeros(3)
    assert not loops.eliminate(weight, np.zeros((3, 3)), 3, order, pivot, step)


def imbalance(log_flow: np.ndarray, shift: np.ndarray) -> np.ndarray:
    flow = np.exp(log_flow + shift[:, None] - shift)
    return np.log(flow.sum(axis=1) / flow.sum(axis=0))


@TWINS
def test_both_iterations_balance_the_flows_and_agree(loops) -> None:
    log_flow = np.random.default_rng(0).normal(scale=2.0, size=(5, 5))
    np.fill_diagonal(log_flow, -np.inf)
    osborne, newton = np.zeros(5), np.zeros(5)
    loops.balance(
        log_flow.ravel(),
        log_flow.T.ravel().copy(),
        np.tile(np.arange(5), 5),
        np.arange(0, 26, 5),
        osborne,
        500,
        1e-14,
    )
    plain_graph.balance_groups(log_flow, newton, 100, 1e-10)
    np.testing.assert_allclose(imbalance(log_flow, osborne), 0.0, atol=1e-12)
    np.testing.assert_allclose(imbalance(log_flow, newton), 0.0, atol=1e-9)
    np.testing.assert_allclose(osborne - osborne.mean(), newton - newton.mean(), atol=1e-9)


@TWINS
def test_a_source_that_nothing_flows_into_is_left_where_it_is(loops) -> None:
    log_flow = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    shift = np.array([0.3, -0.2])
    loops.balance(
        log_flow.ravel(),
        log_flow.T.ravel().copy(),
        np.tile([0, 1], 2),
        np.array([0, 2, 4]),
        shift,
        9,
        0.0,
    )
    np.testing.assert_array_equal(shift, [0.3, -0.2])


@pytest.mark.parametrize(("n_sources", "band"), [(7, 7), (20, 3)])
def test_sums_over_pairs_are_those_of_numpy(n_sources: int, band: int) -> None:
    rng = np.random.default_rng(band)
    weight, _ = random_band(band, n_sources, band)
    flow = (weight > 0) * rng.uniform(size=weight.shape)
    step = rng.normal(size=n_sources)
    apart = step[:, None] - step
    np.testing.assert_allclose(plain_graph.antisymmetric(flow, band), flow - flow.T, atol=1e-15)
    np.testing.assert_allclose(
        plain_graph.divergence(flow, band), flow.sum(axis=0) - flow.sum(axis=1), atol=1e-13
    )
    assert plain_graph.slope(flow, step, band) == pytest.approx(
        0.5 * np.sum((flow.T - flow) * apart), rel=1e-12
    )
    assert plain_graph.longest_local_step(weight, step, band) == pytest.approx(
        np.abs(apart)[weight > 0].max(), rel=1e-15
    )


def test_a_band_is_expanded_to_its_places() -> None:
    n_sources, band = 8, 2
    near = np.abs(np.subtract.outer(range(n_sources), range(n_sources))) <= band
    full = near * np.random.default_rng(0).uniform(size=near.shape)
    stride, shift = 2 * band, band
    flat = np.zeros(n_sources * (2 * band + 1))
    for k, j in np.argwhere(near):
        flat[k * stride + shift + j] = full[k, j]
    np.testing.assert_array_equal(plain_graph.expand_band(flat, n_sources, band), full)


@pytest.mark.parametrize("band", [2, 6])
def test_columns_are_scaled_and_the_lower_triangle_mirrored_within_the_band(band: int) -> None:
    rng = np.random.default_rng(band)
    near = np.abs(np.subtract.outer(range(6), range(6))) <= band
    a, flow = rng.uniform(1, 2, 6), near * rng.uniform(size=(6, 6))
    scaled = flow.copy()
    plain_graph.scale_band(scaled, a, band)
    np.testing.assert_allclose(scaled, flow * a, rtol=1e-15)
    plain_graph.mirror(flow, band)
    np.testing.assert_array_equal(flow, flow.T)
