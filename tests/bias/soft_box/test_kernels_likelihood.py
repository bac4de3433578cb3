"""The compiled likelihood of soft boxes: the formula, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from soft_boxes import example_boxes, plain_log_likelihood
from unskew.bias.soft_box.fit import log_soft_boxes
from unskew.bias.soft_box.kernels_likelihood import evaluate_soft_boxes, list_edges
from unskew.bias.soft_box.likelihood import (
    edge_slots,
    evaluate_boxes,
    pose_problem,
)
from unskew.records import Floats
from unskew.solve.kernels_compiler import TILE_ROWS


def test_the_compiled_sum_is_the_formula_and_its_gradient_the_finite_difference() -> None:
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


def test_many_tiles_are_the_sum_of_their_images() -> None:
    """Images repeated until they fill several tiles: without prior everything is as many times."""
    rng = np.random.default_rng(3)
    feature, source, boxes = rng.normal(size=(50, 2)), rng.integers(3, size=50), example_boxes(rng)
    times = 3 * TILE_ROWS // 50 + 1

    def evaluated(n: int) -> tuple[float, float, Floats, Floats]:
        images = np.tile(feature, (n, 1)), np.tile(source, n), np.empty((50 * n, 0))
        bound, fixed = np.array([0, 50 * n]), np.zeros(3, dtype=np.bool_)
        return evaluate_soft_boxes(*images, bound, fixed, 0.0, *boxes, True)

    for one, many in zip(evaluated(1), evaluated(times), strict=True):
        np.testing.assert_allclose(many, times * np.asarray(one), rtol=1e-9, atol=1e-9)
