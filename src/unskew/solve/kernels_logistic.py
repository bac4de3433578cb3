"""The compiled loop over images behind log-linear biasing functions. Importing this loads Numba."""

from __future__ import annotations

import numpy as np

from unskew.engine.compilation import TILE_ROWS, compiled

# A sum of logarithms is the logarithm of a product, taken where that becomes so large: one
# logarithm for many images.
_LARGE_PRODUCT = 1e150


@compiled
def shares_of_tile(wide_dt, n_tile, offset, source, cell, u, theta, start, q_kt, scratch_t):
    """Fill q_ik ∝ exp(u_k + offset_ik + θ_k·φ_i) of a tile that begins at ``start``.

    Returns Σ_i −log q_{i,s_i}.
    """
    n_sources = theta.shape[0]
    largest_t = scratch_t
    for k in range(n_sources):
        logit_t = q_kt[k]
        if u.shape[0] == 1:
            logit_t[:] = u[0, k]
        else:
            for t in range(n_tile):
                logit_t[t] = u[cell[start + t], k]
        if offset.shape[0] > 0:
            for t in range(n_tile):
                logit_t[t] += offset[start + t, k]
        for d in range(theta.shape[1]):
            slope, phi_t = theta[k, d], wide_dt[d + 1]
            for t in range(n_tile):
                logit_t[t] += slope * phi_t[t]
        for t in range(n_tile):
            largest_t[t] = max(largest_t[t], logit_t[t]) if k > 0 else logit_t[t]
    value = 0.0
    for t in range(n_tile):
        value += largest_t[t] - q_kt[source[start + t], t]
    for k in range(n_sources):
        q_t = q_kt[k]
        for t in range(n_tile):
            q_t[t] = np.exp(q_t[t] - largest_t[t])
    total_t = scratch_t
    total_t[:] = 0.0
    for k in range(n_sources):
        q_t = q_kt[k]
        for t in range(n_tile):
            total_t[t] += q_t[t]
    product = 1.0
    for t in range(n_tile):
        product *= total_t[t]
        if product > _LARGE_PRODUCT:
            value += np.log(product)
            product = 1.0
        total_t[t] = 1.0 / total_t[t]
    for k in range(n_sources):
        q_t = q_kt[k]
        for t in range(n_tile):
            q_t[t] *= total_t[t]
    return value + np.log(product)


@compiled
def add_products(wide_dt, n_tile, q_kt, scratch_t, pairs):
    """Add Σ_i q_k (1{k=l} − q_l) (1, φ)(1, φ)ᵀ of a tile within one stratum."""
    n_wide = wide_dt.shape[0]
    pair = 0
    for k in range(q_kt.shape[0]):
        for other in range(k, q_kt.shape[0]):
            q_t, other_t = q_kt[k], q_kt[other]
            for t in range(n_tile):
                scratch_t[t] = q_t[t] * ((1.0 if k == other else 0.0) - other_t[t])
            at = 0
            for a in range(n_wide):
                for b in range(a, n_wide):
                    first_t, second_t = wide_dt[a], wide_dt[b]
                    total = 0.0
                    for t in range(n_tile):
                        total += scratch_t[t] * first_t[t] * second_t[t]
                    pairs[pair, at] += total
                    at += 1
            pair += 1


@compiled
def add_products_by_stratum(wide_dt, n_tile, q_kt, cell, start, pairs):
    """Add the products image by image, each to its own stratum."""
    n_wide, n_sources = wide_dt.shape[0], q_kt.shape[0]
    product, q = np.empty(n_wide * (n_wide + 1) // 2), np.empty(n_sources)
    for t in range(n_tile):
        c = cell[start + t]
        at = 0
        for a in range(n_wide):
            for b in range(a, n_wide):
                product[at] = wide_dt[a, t] * wide_dt[b, t]
                at += 1
        for k in range(n_sources):
            q[k] = q_kt[k, t]
        pair = 0
        for k in range(n_sources):
            for other in range(k, n_sources):
                factor = q[k] * ((1.0 if k == other else 0.0) - q[other])
                if factor != 0.0:
                    for at in range(product.size):
                        pairs[c, pair, at] += factor * product[at]
                pair += 1


@compiled
def sweep_logistic(phi, offset, source, cell, u, theta, start, stop, gradient, pairs):
    """Compute Σ_i −log q_{i,s_i} with gradient and pairs.

    Adds Σ_i r_ik (1, φ_i) to ``gradient`` (C, K, W) and Σ_i q_k (1{k=l} − q_l) (1, φ)(1, φ)ᵀ to
    ``pairs``. ``offset`` has no rows where there is none. ``pairs`` (C, K(K+1)/2, W(W+1)/2) holds k
    ≤ l and the upper triangle of the products; with no entries it is left alone.
    """
    n_sources, n_features = theta.shape
    wide_dt, q_kt, scratch_t = (
        np.ones((n_features + 1, TILE_ROWS)),
        np.empty((n_sources, TILE_ROWS)),
        np.empty(TILE_ROWS),
    )
    value = 0.0
    for first in range(start, stop, TILE_ROWS):
        n_tile = min(TILE_ROWS, stop - first)
        for d in range(n_features):
            for t in range(n_tile):
                wide_dt[d + 1, t] = phi[first + t, d]
        value += shares_of_tile(
            wide_dt, n_tile, offset, source, cell, u, theta, first, q_kt, scratch_t
        )
        if pairs.shape[1] > 0:
            if u.shape[0] == 1:
                add_products(wide_dt, n_tile, q_kt, scratch_t, pairs[0])
            else:
                add_products_by_stratum(wide_dt, n_tile, q_kt, cell, first, pairs)
        for t in range(n_tile):
            q_kt[source[first + t], t] -= 1.0
        for k in range(n_sources):
            for d in range(n_features + 1):
                if u.shape[0] == 1:
                    residual_t, phi_t = q_kt[k], wide_dt[d]
                    total = 0.0
                    for t in range(n_tile):
                        total += residual_t[t] * phi_t[t]
                    gradient[0, k, d] += total
                else:
                    for t in range(n_tile):
                        gradient[cell[first + t], k, d] += q_kt[k, t] * wide_dt[d, t]
    return value
