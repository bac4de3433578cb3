"""Soft boxes for the tests: examples, and the likelihood written as the formula stands."""

from __future__ import annotations

import numpy as np

from unskew.bias.soft_box.fit import log_soft_boxes
from unskew.bias.soft_box.likelihood import (
    Boxes,
)
from unskew.records import Floats, Ints


def example_boxes(rng: np.random.Generator, n_cells: int = 1) -> Boxes:
    """Three sources, two features, one edge infinite; wide enough that every image is inside."""
    lower = np.array([[-0.3, -np.inf], [0.1, -0.5], [-1.0, -0.2]])
    upper = np.array([[0.4, 0.2], [np.inf, 0.6], [0.0, 0.3]])
    return Boxes(lower, upper, 8.0, rng.normal(size=(n_cells, 3)))


def plain_log_likelihood(
    feature: Floats, source: Ints, cell: Ints, offset: Floats, boxes: Boxes
) -> tuple[float, Floats]:
    """Σ_i log q_{i,s_i} and the masses, written as the formula stands."""
    log_omega = log_soft_boxes(feature, boxes.lower, boxes.upper, boxes.width)
    share = np.exp(boxes.u[cell] + offset + log_omega)
    own = np.arange(source.size)
    return float(np.log(share[own, source] / share.sum(axis=1)).sum()), np.exp(log_omega).mean(
        axis=0
    )


def two_sides(n: int, seed: int = 0) -> tuple[Floats, Ints]:
    """Two sources of a Gaussian population, each falling off towards the other's end."""
    rng = np.random.default_rng(seed)
    z_n = rng.normal(size=2 * n)
    chance_2n = [np.clip(1.0 - np.maximum(sign * z_n - 0.3, 0.0), 0.0, 1.0) for sign in (1.0, -1.0)]
    drawn = [rng.choice(z_n, n, p=chance_n / chance_n.sum()) for chance_n in chance_2n]
    return np.concatenate(drawn), np.repeat([0, 1], n)
