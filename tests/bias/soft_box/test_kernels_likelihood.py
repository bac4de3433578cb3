"""The likelihood of soft boxes, compiled and plain: the formula, its gradient and information."""

from __future__ import annotations

import numpy as np
import pytest

from soft_boxes import example_boxes, plain_log_likelihood
from unskew.bias.soft_box import kernels_likelihood, plain_likelihood
from unskew.bias.soft_box.fit import log_soft_boxes, soft_box_jacobian
from unskew.bias.soft_box.kernels_boxes import SMALL_PRODUCT, add_log
from unskew.bias.soft_box.kernels_likelihood import list_edges
from unskew.bias.soft_box.likelihood import (
    edge_slots,
    evaluate_boxes,
    inform_boxes,
    pose_problem,
    rim_curvature,
)
from unskew.bias.soft_box.plain_likelihood import sum_information
from unskew.bias.soft_box.search import make_room
from unskew.engine import compilation
from unskew.records import Floats


@pytest.mark.parametrize("plain_numbers", [0, compilation.PLAIN_NUMBERS])
def test_the_sum_is_the_formula_and_its_gradient_the_finite_difference(
    monkeypatch, plain_numbers: int
) -> None:
    monkeypatch.setattr(compilation, "PLAIN_NUMBERS", plain_numbers)
    rng = np.random.default_rng(0)
    feature, source, cell = (
        rng.normal(size=(200, 2)),
        rng.integers(3, size=200),
        rng.integers(2, size=200),
    )
    offset = rng.normal(size=(200, 3))
    problem = pose_problem(feature, source, 3, offset, cell, None)
    boxes = example_boxes(rng, 2)
    now = evaluate_boxes(problem, boxes)
    plain, mass = plain_log_likelihood(feature, source, cell, offset, boxes)
    assert now.log_likelihood == pytest.approx(plain, rel=1e-12)
    own = np.exp(log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width))[
        np.arange(200), source
    ]
    assert now.value == pytest.approx(
        plain + 0.25 * 200**0.5 * (np.log(mass).sum() - (1 / own).mean()), rel=1e-12
    )

    slot, _ = edge_slots(boxes.lower, boxes.upper)

    def value(change: Floats) -> float:
        edges = np.concatenate([change[:-1], [0.0]])
        moved = boxes._replace(
            lower=boxes.lower + edges[slot[..., 0]],
            upper=boxes.upper + edges[slot[..., 1]],
            width=boxes.width * np.exp(change[-1]),
        )
        return evaluate_boxes(problem, moved).value

    step = 1e-6  # no image lies within a step of an edge
    numeric = [(value(step * e) - value(-step * e)) / (2 * step) for e in np.eye(now.gradient.size)]
    np.testing.assert_allclose(now.gradient, numeric, rtol=1e-5, atol=1e-5)
    for c, k in np.ndindex(2, 3):
        up, down = (
            evaluate_boxes(
                problem,
                boxes._replace(u=boxes.u + sign * step * (np.arange(6) == 3 * c + k).reshape(2, 3)),
            )
            for sign in (1, -1)
        )
        assert now.gradient_u[c, k] == pytest.approx((up.value - down.value) / (2 * step), abs=1e-5)


def test_edges_are_listed_lower_ones_first_and_only_finite_ones() -> None:
    lower, upper = np.array([[-np.inf, 1.0], [2.0, -np.inf]]), np.array([[3.0, np.inf], [4.0, 5.0]])
    source, feature, sign, at = list_edges(lower, upper)
    assert source.tolist() == [0, 1, 0, 1, 1]
    assert feature.tolist() == [1, 0, 0, 0, 1]
    assert sign.tolist() == [-1.0, -1.0, 1.0, 1.0, 1.0]
    assert at.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("loops", [kernels_likelihood, plain_likelihood])
def test_many_tiles_are_the_sum_of_their_images(loops) -> None:
    """Images repeated until they fill several tiles: without prior everything is as many times."""
    rng = np.random.default_rng(3)
    feature, source, boxes = rng.normal(size=(50, 2)), rng.integers(3, size=50), example_boxes(rng)
    times = 3 * compilation.TILE_ROWS // 50 + 1

    def evaluated(n: int) -> tuple[float, float, Floats, Floats]:
        images = np.tile(feature, (n, 1)), np.tile(source, n), np.empty((50 * n, 0))
        bound, fixed = np.array([0, 50 * n]), np.zeros(3, dtype=np.bool_)
        return loops.evaluate_soft_boxes(*images, bound, fixed, 0.0, *boxes, True)

    for one, many in zip(evaluated(1), evaluated(times), strict=True):
        np.testing.assert_allclose(many, times * np.asarray(one), rtol=1e-9, atol=1e-9)


def test_the_information_is_the_expected_outer_product_of_the_scores() -> None:
    rng = np.random.default_rng(1)
    feature, source = rng.normal(size=(100, 2)), rng.integers(3, size=100)
    boxes = example_boxes(rng)
    problem = pose_problem(feature, source, 3, None, None, None)
    images = problem.informing(100, boxes)
    information = inform_boxes(images, boxes)
    jacobian = soft_box_jacobian(feature, boxes.lower, boxes.upper, boxes.width)
    q = np.exp(boxes.u + log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width))
    q /= q.sum(axis=1, keepdims=True)
    score = np.concatenate([jacobian, np.broadcast_to(np.eye(3), (100, 3, 3))], axis=2)
    mean = np.einsum("nk,nkp->np", q, score)
    expected = np.einsum("nk,nkp,nkr->pr", q, score, score) - mean.T @ mean
    p = len(information.theta)
    rim = np.where(
        log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width) < np.log(0.5), q, 0
    )
    expected_theta = expected[:p, :p] + rim_curvature(images, boxes)
    expected_theta -= np.einsum("nk,nkp,nkr->pr", rim, jacobian, jacobian)
    np.testing.assert_allclose(information.theta, expected_theta, atol=1e-10)
    np.testing.assert_allclose(information.cross[0], expected[:p, p:], atol=1e-10)
    np.testing.assert_allclose(information.u[0], expected[p:, p:], atol=1e-10)


def test_the_rims_bend_by_the_images_whose_own_omega_is_below_a_half() -> None:
    rng = np.random.default_rng(4)
    feature, source = rng.normal(size=(200, 2)), rng.integers(3, size=200)
    problem = pose_problem(feature, source, 3, None, None, None)
    boxes = make_room(problem, example_boxes(rng)._replace(width=2.0))
    own = (np.arange(200), source)
    edges = (boxes.lower, boxes.upper, boxes.width)
    omega, jacobian = (
        np.exp(log_soft_boxes(feature, *edges))[own],
        soft_box_jacobian(feature, *edges),
    )
    is_rim = omega < 0.5
    slope = (omega[:, None] * jacobian[own])[is_rim]
    bend = 1 / omega[is_rim] ** 2 + 2 * problem.prior / 200 / omega[is_rim] ** 3
    assert 10 < is_rim.sum() < 190
    images = problem.informing(200, boxes)
    np.testing.assert_allclose(rim_curvature(images, boxes), (slope.T * bend) @ slope, rtol=1e-9)


def test_cells_have_information_of_their_own_and_share_that_of_the_edges() -> None:
    """Two cells of an offset each: θ sums over them, u and the cross part stay apart."""
    rng = np.random.default_rng(2)
    feature, offset, boxes = (
        rng.normal(size=(70, 2)),
        rng.normal(size=(70, 3)),
        example_boxes(rng, 2),
    )
    edges = (boxes.lower, boxes.upper, boxes.width)
    theta, u, cross = sum_information(feature, offset, np.array([0, 30, 70]), *edges, boxes.u)
    parts = [
        sum_information(feature[rows], offset[rows], np.array([0, size]), *edges, boxes.u[[c]])
        for c, (rows, size) in enumerate(((slice(0, 30), 30), (slice(30, 70), 40)))
    ]
    np.testing.assert_allclose(theta, parts[0][0] + parts[1][0], atol=1e-10)
    np.testing.assert_allclose(u, np.concatenate([part[1] for part in parts]), atol=1e-10)
    np.testing.assert_allclose(cross, np.concatenate([part[2] for part in parts]), atol=1e-10)
    np.testing.assert_allclose(theta, theta.T)
    assert np.linalg.eigvalsh(theta).min() > -1e-10
    np.testing.assert_allclose(u.sum(axis=2), 0.0, atol=1e-10)  # a constant in u changes nothing


@pytest.mark.parametrize("seed", range(4))
def test_the_plain_loop_and_the_compiled_one_are_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_cells = 300 * (seed + 1), 1 + seed % 3
    feature, cell = rng.normal(size=(n, 2)), np.sort(rng.integers(n_cells, size=n))
    offset = rng.normal(size=(n, 3)) if seed % 2 else np.empty((n, 0))
    boxes = example_boxes(rng, n_cells)
    given = (
        *(feature, rng.integers(3, size=n), offset, np.searchsorted(cell, range(n_cells + 1))),
        *(np.array([True, False, False]), 2.0, *boxes, True),
    )
    one, other = (
        loops.evaluate_soft_boxes(*given) for loops in (kernels_likelihood, plain_likelihood)
    )
    for compiled, plain in zip(one, other, strict=True):
        np.testing.assert_allclose(plain, compiled, rtol=1e-12, atol=1e-12 * n)


def test_a_sum_of_logarithms_is_that_of_the_factors_however_small() -> None:
    factor = np.array([1.0, 1e-200, 0.5, 1e-100, 1e-100, 1e-3, 1e-320])
    total, product = 0.0, 1.0
    for each in factor:
        total, product = add_log(total, product, each)
        assert product >= SMALL_PRODUCT
    assert total + np.log(product) == pytest.approx(np.log(factor).sum(), rel=1e-12)
