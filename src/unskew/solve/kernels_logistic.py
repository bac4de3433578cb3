"""The compiled loop over images behind log-linear biasing functions. Importing this loads Numba."""

from __future__ import annotations

import numpy as np

from unskew.solve.kernels_compiler import compiled


@compiled
def sweep_logistic(phi, offset, source, cell, u, theta, start, stop, gradient, pairs):
    """Σ_i −log q_{i,s_i}; adds Σ_i r_ik (1, φ_i) to ``gradient`` (C, K, W) and Σ_i q_k (1{k=l} − q_l) (1, φ)(1, φ)ᵀ to ``pairs``.

    ``offset`` has no rows where there is none. ``pairs`` (C, K(K+1)/2, W(W+1)/2) holds k ≤ l and the upper triangle of the products; with
    no entries it is left alone.
    """
    n_sources, n_features = theta.shape
    has_offset, has_pairs = offset.shape[0] > 0, pairs.shape[1] > 0
    q = np.empty(n_sources)
    wide = np.empty(n_features + 1)
    product = np.empty((n_features + 1) * (n_features + 2) // 2)
    value = 0.0
    for i in range(start, stop):
        c, own = cell[i], source[i]
        largest = -np.inf
        for k in range(n_sources):
            logit = u[c, k]
            if has_offset:
                logit += offset[i, k]
            for d in range(n_features):
                logit += theta[k, d] * phi[i, d]
            q[k] = logit
            largest = max(largest, logit)
        own_logit = q[own]
        total = 0.0
        for k in range(n_sources):
            q[k] = np.exp(q[k] - largest)
            total += q[k]
        value += largest + np.log(total) - own_logit
        wide[0] = 1.0
        for d in range(n_features):
            wide[d + 1] = phi[i, d]
        for k in range(n_sources):
            q[k] /= total
            residual = q[k] - (1.0 if k == own else 0.0)
            for d in range(n_features + 1):
                gradient[c, k, d] += residual * wide[d]
        if has_pairs:
            at = 0
            for a in range(n_features + 1):
                for b in range(a, n_features + 1):
                    product[at] = wide[a] * wide[b]
                    at += 1
            pair = 0
            for k in range(n_sources):
                for other in range(k, n_sources):
                    factor = -q[k] * q[other]
                    if k == other:
                        factor += q[k]
                    if factor != 0.0:
                        for at in range(product.size):
                            pairs[c, pair, at] += factor * product[at]
                    pair += 1
    return value
