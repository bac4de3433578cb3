"""The compiled loop behind log-linear biasing functions, on part of the rows, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from unskew.solve.kernels_logistic import sweep_logistic


@pytest.mark.parametrize("n_cells", [1, 3])
@pytest.mark.parametrize("has_offset", [False, True])
@pytest.mark.parametrize("has_pairs", [False, True])
def test_a_sweep_adds_the_sums_of_its_rows(n_cells, has_offset, has_pairs) -> None:
    rng = np.random.default_rng(n_cells)
    n, n_sources, n_features = 700, 3, 2  # two full tiles and a part
    phi, offset = rng.normal(size=(n, n_features)), rng.normal(size=(n, n_sources))
    source, cell = rng.integers(0, n_sources, n), rng.integers(0, n_cells, n)
    u, theta = rng.normal(size=(n_cells, n_sources)), rng.normal(size=(n_sources, n_features))
    start, stop = 30, 690
    gradient = np.ones((n_cells, n_sources, 3))
    pairs = np.ones((n_cells, 6 if has_pairs else 0, 6))
    value = sweep_logistic(
        phi,
        offset if has_offset else np.empty((0, n_sources)),
        source,
        cell,
        u,
        theta,
        start,
        stop,
        gradient,
        pairs,
    )
    log_q = log_softmax(u[cell] + phi @ theta.T + (offset if has_offset else 0.0), axis=1)
    q, wide, own = np.exp(log_q), np.column_stack([np.ones(n), phi]), np.eye(n_sources)[source]
    at = np.arange(start, stop)
    assert value == pytest.approx(-log_q[at, source[at]].sum(), rel=1e-12)
    for c in range(n_cells):
        i = at[cell[at] == c]
        np.testing.assert_allclose(gradient[c] - 1, (q - own)[i].T @ wide[i], atol=1e-10)
        if has_pairs:
            covariance = np.einsum("ik,kl->ikl", q, np.eye(n_sources)) - q[:, :, None] * q[:, None]
            full = np.einsum("ikl,ia,ib->klab", covariance[i], wide[i], wide[i], optimize=True)
            upper = full[np.triu_indices(n_sources)][:, *np.triu_indices(3)]
            np.testing.assert_allclose(pairs[c] - 1, upper, atol=1e-10)


def test_logits_of_any_size_neither_overflow_nor_vanish() -> None:
    """Two images, q = 1 for the one source and e^−2000 for the other."""
    gradient, pairs = np.zeros((1, 2, 2)), np.empty((1, 0, 3))
    value = sweep_logistic(
        np.array([[1000.0], [1000.0]]),
        np.empty((0, 2)),
        np.array([0, 1]),
        np.zeros(2, dtype=np.int64),
        np.zeros((1, 2)),
        np.array([[1.0], [-1.0]]),
        0,
        2,
        gradient,
        pairs,
    )
    assert value == 2000.0
    np.testing.assert_array_equal(gradient[0], [[1.0, 1000.0], [-1.0, -1000.0]])
