"""Value, gradient and Hessian of log-linear biasing functions against plain NumPy, both ways that
they are summed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from unskew.solve import log_linear
from unskew.solve.log_linear import sum_log_linear


def random_images(seed: int, n: int, n_sources: int, n_features: int, n_cells: int):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, n_features)),
        rng.normal(size=(n, n_sources)),
        rng.integers(0, n_sources, n),
        rng.integers(0, n_cells, n),
        rng.normal(size=(n_cells, n_sources)),
        rng.normal(size=(n_sources, n_features)),
    )


def textbook(phi, offset, source, cell, u, theta):
    """Value, gradient and Hessian image by image."""
    (n_cells, n_sources), width = u.shape, theta.shape[1] + 1
    value = 0.0
    gradient = np.zeros((n_cells, n_sources, width))
    hessian = np.zeros((n_cells, n_sources, width, n_sources, width))
    for i, c in enumerate(cell):
        logit = u[c] + theta @ phi[i] + (0.0 if offset is None else offset[i])
        q, wide = np.exp(logit - logsumexp(logit)), np.append(1.0, phi[i])
        value -= np.log(q[source[i]])
        gradient[c] += np.outer(q - np.eye(n_sources)[source[i]], wide)
        hessian[c] += np.einsum(
            "kl,a,b->kalb", np.diag(q) - np.outer(q, q), wide, wide, optimize=True
        )
    return value, gradient, hessian


@pytest.mark.parametrize("way", ["compiled", "products"])
@pytest.mark.parametrize("n_cells", [1, 3])
@pytest.mark.parametrize("has_offset", [False, True])
def test_sums_equal_the_textbook(way, n_cells, has_offset, monkeypatch) -> None:
    phi, offset, source, cell, u, theta = random_images(n_cells, 300, 3, 2, n_cells)
    given = (phi, offset if has_offset else None, source, cell, u, theta)
    monkeypatch.setattr(log_linear, "_FEW_COLUMNS", 96 if way == "compiled" else 0)
    found = sum_log_linear(*given)
    value, gradient, hessian = textbook(*given)
    assert found.value == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-11)
    np.testing.assert_allclose(found.hessian, hessian, atol=1e-11)
    without = sum_log_linear(*given, hessian=False)
    assert without.hessian is None
    assert without.value == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(without.gradient, gradient, atol=1e-11)


def test_the_gradient_is_the_slope_of_the_value() -> None:
    phi, offset, source, cell, u, theta = random_images(0, 100, 3, 2, 2)
    found = sum_log_linear(phi, offset, source, cell, u, theta)
    direction = np.random.default_rng(1).normal(size=(2, 3, 1))
    slopes = np.random.default_rng(2).normal(size=(3, 2))
    h = 1e-5
    up, down = (
        sum_log_linear(
            phi, offset, source, cell, u + sign * h * direction[:, :, 0], theta + sign * h * slopes
        ).value
        for sign in (1, -1)
    )
    along = np.sum(found.gradient[:, :, :1] * direction)
    along += np.sum(found.gradient[:, :, 1:].sum(axis=0) * slopes)
    assert (up - down) / (2 * h) == pytest.approx(along, rel=1e-7)
