"""The article's own procedure, as its text says: ω̂, then stochastic gradient descent on D̂.

Section 4.1: 4000 iterations, batches of 100, learning rate 1e-2, momentum 0.9. Unlike
`unskew.solve_normalizers`, which refuses a draw whose sources lack a link, this runs whatever
comes, as the article does: that is what its figures show at small γ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints
from unskew.solve.options import Options
from unskew.solve.prepared_rows import prepare
from unskew.solve.sgd import STEPS, descend


def article_weights(
    omega: npt.ArrayLike, source: npt.ArrayLike, *, seed: int, steps: int = STEPS
) -> Floats:
    """Return the (n,) weights π_i ∝ 1/Σ_k e^{u_k} ω_ik, Σ π = 1, after the article's descent.

    u is the result of ``steps`` steps of descent from a random start.

    On a connected draw these are the weights of ``debias_weights(omega, source, method="sgd",
    seed=seed, max_steps=steps)``.

    Parameters
    ----------
    omega : (n, K) ω̂.
    source : (n,) codes 0 … K−1.
    seed : of the start and of the batches.
    """
    omega_nk, source_n = np.asarray(omega, dtype=np.float64), np.asarray(source)
    rows = prepare(omega_nk, source_n, Options(jobs=1)).rows
    start_k = np.random.default_rng(seed).normal(size=(omega_nk.shape[1],))
    u_k, _ = descend(rows, start_k, steps, seed)
    return weights_at(omega_nk, u_k)


def weights_at(omega_nk: Floats, u_k: Floats) -> Floats:
    """Return the (n,) weights 1/Σ_k e^{u_k} ω_ik, normalised to sum 1."""
    weight_n = 1.0 / (omega_nk @ np.exp(u_k - u_k.max()))
    return np.asarray(weight_n / weight_n.sum())


def class_counts(label: npt.ArrayLike, source: npt.ArrayLike) -> Floats:
    """Return the article's (n, K) ω̂_k(x, y) = n_k^(y) of section 4.2.

    The number of images of source k that have the label of image i.
    """
    label_n, source_n = np.asarray(label), np.asarray(source)
    count_yk = np.zeros((int(label_n.max()) + 1, int(source_n.max()) + 1))
    np.add.at(count_yk, (label_n, source_n), 1.0)
    return np.asarray(count_yk[label_n])


def boxes(features: npt.ArrayLike, source: npt.ArrayLike) -> Floats:
    """Return the article's (n, K) ω̂_k(x) of section 4.3.

    1 where x̄ is within the min–max box of source k's own images, else 0.
    """
    feature_nd, source_n = np.asarray(features, dtype=np.float64), np.asarray(source)
    inside_nk = np.empty((feature_nd.shape[0], int(source_n.max()) + 1))
    for k in range(inside_nk.shape[1]):
        own_nd = feature_nd[source_n == k]
        inside_nk[:, k] = np.all(
            (feature_nd >= own_nd.min(axis=0)) & (feature_nd <= own_nd.max(axis=0)), axis=1
        )
    return inside_nk


def size_factors(
    features: npt.ArrayLike, source: npt.ArrayLike, population: npt.ArrayLike
) -> Floats:
    """Return the (K,) extra factor per source of the imbalanced case of section 4.3.

    n_k relative to the share of its bin in the population.

    By the scale invariance of the equations it changes no exact weight, whatever its form (the text
    does not give it).
    """
    feature_nd, source_n, population_nd = (
        np.asarray(values) for values in (features, source, population)
    )
    median_d = np.median(population_nd, axis=0)
    share_k = np.bincount(bin_index(population_nd, median_d), minlength=2**median_d.size) / len(
        population_nd
    )
    size_k = np.bincount(source_n, minlength=share_k.size) / len(feature_nd)
    return np.asarray(size_k / share_k)


def bin_index(features: npt.ArrayLike, median: npt.ArrayLike) -> Ints:
    """Return the (n,) bin Σ_j 2^{d−1−j} 1{x_j > median_j} of every image.

    Of hue, saturation and value: 4·b_H + 2·b_S + b_V.
    """
    above_nd = np.asarray(features) > np.asarray(median)
    return np.asarray(above_nd @ (2 ** np.arange(above_nd.shape[1] - 1, -1, -1)), dtype=np.int64)
