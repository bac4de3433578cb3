"""The compiled Fisher information of soft boxes against its definition."""

from __future__ import annotations

import numpy as np

from soft_boxes import example_boxes
from unskew.bias.soft_box.fit import log_soft_boxes, soft_box_jacobian
from unskew.bias.soft_box.kernels_information import sum_information
from unskew.bias.soft_box.likelihood import (
    inform_boxes,
    pose_problem,
)


def test_the_information_is_the_expected_outer_product_of_the_scores() -> None:
    rng = np.random.default_rng(1)
    feature, source = rng.normal(size=(100, 2)), rng.integers(3, size=100)
    boxes = example_boxes(rng)
    information = inform_boxes(
        pose_problem(feature, source, 3, None, None, None).informing(100), boxes
    )
    jacobian = soft_box_jacobian(feature, boxes.lower, boxes.upper, boxes.width)
    q = np.exp(boxes.u + log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width))
    q /= q.sum(axis=1, keepdims=True)
    score = np.concatenate([jacobian, np.broadcast_to(np.eye(3), (100, 3, 3))], axis=2)
    mean = np.einsum("nk,nkp->np", q, score)
    expected = np.einsum("nk,nkp,nkr->pr", q, score, score) - mean.T @ mean
    p = len(information.theta)
    np.testing.assert_allclose(information.theta, expected[:p, :p], atol=1e-10)
    np.testing.assert_allclose(information.cross[0], expected[:p, p:], atol=1e-10)
    np.testing.assert_allclose(information.u[0], expected[p:, p:], atol=1e-10)


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
