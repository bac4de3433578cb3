"""Compute what the authors' published code computes, rebuilt from a description of it.

No line of that code is here: RobinVogel/Sampling-Weights-for-Visual-Recognition-with-Biased-
Training-Datasets on GitHub, snapshot 6d9feb6 of 2021-09-06. That the article's tables were made by
this version is an inference. docs/article.md lists all known differences from the text; two are
rebuilt here.

- the descent is plain full-batch gradient descent from a random start, 500 steps by default:
  minibatches are drawn and not used;
- for section 4.3, ω̂ is evaluated on the images of the last source only, and the weights found for
  them go to the first images of the pool, which are the first source's.

The description does not give the step length. It says that shrinking the slowest mode by 1e-6 at γ
= 0.001 takes about 5·10⁵ steps: the slowest eigenvalue of the Hessian is there 2.8e-4, so that the
step is 0.1 (the text's learning rate over 1 − momentum as well).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paper.article_procedure import weights_at
from unskew.errors import DataError
from unskew.records import Floats

STEPS = 500
STEP_LENGTH = 0.1


def published_weights(
    omega: npt.ArrayLike, source: npt.ArrayLike, *, seed: int, steps: int = STEPS
) -> Floats:
    """Return the (n,) weights after ``steps`` steps of full-batch descent on D̂; Σ = 1.

    Section 4.2 as published, from a random start.
    """
    omega_nk, source_n = np.asarray(omega, dtype=np.float64), np.asarray(source)
    share_k = np.bincount(source_n, minlength=omega_nk.shape[1]) / source_n.size
    return weights_at(omega_nk, _descend(omega_nk, share_k, seed, steps))


def last_source_weights(
    omega: npt.ArrayLike, source: npt.ArrayLike, *, seed: int, steps: int = STEPS
) -> Floats:
    """Return the (n,) weights of section 4.3 as published.

    The weights of the last source's n_K images go to the first n_K images of the pool.

    All others have weight 0: training sees n_K/n of the pool, an eighth in the balanced case and
    3.7% in the imbalanced one.

    Parameters
    ----------
    omega : (n, K) ω̂.
    source : (n,) codes 0 … K−1, in order (all images of source 0 first).
    """
    omega_nk, source_n = np.asarray(omega, dtype=np.float64), np.asarray(source)
    if np.any(np.diff(source_n) < 0):
        raise DataError(
            "the published code joins the sources one after the other, so source must be in order."
        )
    share_k = np.bincount(source_n, minlength=omega_nk.shape[1]) / source_n.size
    last_nk = omega_nk[source_n == omega_nk.shape[1] - 1]
    weight_n = np.zeros(source_n.size)
    weight_n[: len(last_nk)] = weights_at(last_nk, _descend(last_nk, share_k, seed, steps))
    return weight_n


def _descend(omega_nk: Floats, share_k: Floats, seed: int, steps: int) -> Floats:
    """Iterate u ← u − 0.1 (mean_i q_ik − λ_k), identical rows counted once."""
    omega_rk, count_r = np.unique(omega_nk, axis=0, return_counts=True)
    u_k = np.random.default_rng(seed).normal(size=share_k.size)
    for _ in range(steps):
        a_k = np.exp(u_k - u_k.max())
        mean_k = a_k * ((count_r / (omega_rk @ a_k)) @ omega_rk) / count_r.sum()
        u_k = u_k - STEP_LENGTH * (mean_k - share_k)
    return np.asarray(u_k)
