"""Distances, ω and gains of soft boxes against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from soft_boxes import example_boxes
from unskew.bias.soft_box import kernels_boxes, plain_boxes
from unskew.bias.soft_box.likelihood import pose_problem
from unskew.bias.soft_box.search import _Edge, _Held, make_room
from unskew.records import Floats

TWINS = pytest.mark.parametrize("loops", [kernels_boxes, plain_boxes])


def test_at_the_innermost_place_of_an_edge_all_images_of_its_source_are_inside() -> None:
    rng = np.random.default_rng(3)
    feature, source = rng.normal(size=(400, 2)), rng.integers(3, size=400)
    problem = pose_problem(feature, source, 3, None, None, None)
    held = _Held(problem, make_room(problem, example_boxes(rng)._replace(width=3.0)), 1)
    boxes = held.boxes
    innermost = plain_boxes.innermost_places(feature, source, boxes.lower, boxes.upper, boxes.width)
    for k, d, side in np.ndindex(3, 2, 2):
        edge, place = (
            _Edge(k, d, side, float((boxes.lower, boxes.upper)[side][k, d])),
            float(innermost[side][k, d]),
        )
        outwards = 1e-9 * edge.sign
        assert held.gain(edge, place + outwards) > -np.inf
        assert held.gain(edge, place - outwards) == -np.inf
        chosen = held.best_place(
            edge._replace(at=edge.away), np.linspace(-2, 2, 20), place + outwards
        )
        assert chosen is None or held.gain(edge, chosen) > -np.inf


def plain_distance(feature: Floats, lower: Floats, upper: Floats) -> Floats:
    """(n, K) ℓ1 distance of each image to each box."""
    z = feature[:, None]
    return (np.maximum(lower - z, 0) + np.maximum(z - upper, 0)).sum(axis=2)


def test_omega_and_the_farthest_image_are_those_of_the_distances() -> None:
    rng = np.random.default_rng(5)
    feature, source, boxes = rng.normal(size=(80, 2)), rng.integers(2, size=80), example_boxes(rng)
    distance = plain_distance(feature, boxes.lower, boxes.upper)
    omega = plain_boxes.omega_of_boxes(feature, boxes.lower, boxes.upper, 1.5)
    np.testing.assert_allclose(omega, np.maximum(1 - distance / 1.5, 0), atol=1e-15)
    assert (omega == 0).any()
    row, farthest = plain_boxes.farthest_images(feature, source, boxes.lower, boxes.upper)
    for k in range(2):
        assert farthest[k] == pytest.approx(distance[source == k, k].max())
        assert (source[row[k]], distance[row[k], k]) == (k, pytest.approx(farthest[k]))
    assert (row[2], farthest[2]) == (0, -1.0)  # a source without images


@TWINS
def test_masses_and_how_the_likelihood_climbs_with_u(loops) -> None:
    rng = np.random.default_rng(6)
    feature, source, cell = (
        rng.normal(size=(90, 2)),
        rng.integers(3, size=90),
        rng.integers(2, size=90),
    )
    boxes = example_boxes(rng, 2)._replace(width=3.0)
    distance = plain_distance(feature, boxes.lower, boxes.upper)
    for offset in (rng.normal(size=(90, 3)), np.empty((90, 0))):
        factor, found, mass, slope, curvature = loops.soft_box_masses(
            feature, source, offset, cell, boxes.lower, boxes.upper, boxes.width, boxes.u
        )
        plain = np.exp(boxes.u[cell] + (offset if offset.size else 0.0))
        np.testing.assert_allclose(found, distance, atol=1e-14)
        np.testing.assert_allclose(factor / factor[:, :1], plain / plain[:, :1])
        np.testing.assert_allclose(mass, factor * np.maximum(1 - distance / 3.0, 0), atol=1e-14)
        q = mass / mass.sum(axis=1, keepdims=True)
        for c in range(2):
            at = cell == c
            np.testing.assert_allclose(slope[c], (np.eye(3)[source] - q)[at].sum(axis=0))
            np.testing.assert_allclose(curvature[c], (q * (1 - q))[at].sum(axis=0))


@TWINS
def test_gains_of_an_edge_and_their_spread_are_sums_over_images(loops) -> None:
    """u_k makes one Newton step in each cell, here and there."""
    rng = np.random.default_rng(7)
    feature, source, cell = (
        rng.normal(size=(120, 2)),
        rng.integers(3, size=120),
        rng.integers(2, size=120),
    )
    boxes, k, d, places = example_boxes(rng, 2), 0, 0, np.array([0.1, 0.9, np.inf])
    at = float(boxes.upper[k, d])
    masses = loops.soft_box_masses(
        feature, source, np.empty((120, 0)), cell, boxes.lower, boxes.upper, boxes.width, boxes.u
    )

    def shares(place: float) -> tuple[Floats, float]:
        """log q of each image's own source, and what the Newton step of u_k adds."""
        upper = boxes.upper.copy()
        upper[k, d] = place
        distance = plain_distance(feature, boxes.lower, upper)
        q = np.exp(boxes.u[cell]) * np.maximum(1 - distance / boxes.width, 0)
        q /= q.sum(axis=1, keepdims=True)
        step = 0.0
        for c in range(2):
            own, p = source[cell == c] == k, q[cell == c, k]
            step += (own - p).sum() ** 2 / (2 * (p * (1 - p)).sum())
        return np.log(q[np.arange(120), source]), step

    found = loops.gains_of_edge(feature, source, cell, *masses, k, d, 1.0, at, places, boxes.width)
    (now, step_now) = shares(at)
    for place, gain in zip(places, found, strict=True):
        then, step = shares(place)
        assert gain == pytest.approx((then - now).sum() + step - step_now, rel=1e-9)
        spread = plain_boxes.spread_of_gain(
            feature, source, *masses[:3], k, d, 1.0, at, place, boxes.width
        )
        assert spread == pytest.approx(np.sqrt(120) * np.std(then - now), rel=1e-9)
