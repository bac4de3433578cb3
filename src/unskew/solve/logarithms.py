"""Sums of what is kept as logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records.arrays import Floats

# Up to so many columns NumPy's maximum along a row is slower than one column after the other.
_NARROW = 32


def row_maxima(values_nk: npt.NDArray[Any]) -> Floats:
    """Compute (n,) max_k x_ik, for a few columns in a tenth of the time of ``max(axis=1)``."""
    if not 0 < values_nk.shape[1] <= _NARROW:
        return np.asarray(values_nk.max(axis=1), dtype=np.float64)
    largest_n = values_nk[:, 0].astype(np.float64)
    for k in range(1, values_nk.shape[1]):
        np.maximum(largest_n, values_nk[:, k], out=largest_n)
    return largest_n


def log_sums(log_nk: npt.NDArray[Any]) -> Floats:
    """Compute (n,) log Σ_k e^{x_ik} of each row, −inf where all of it is −inf.

    As ``scipy.special.logsumexp(log_nk, axis=1)``, without what that does for complex and other
    arrays, in a third of its time.
    """
    largest_n = row_maxima(log_nk)
    largest_n[np.isneginf(largest_n)] = 0.0
    part_nk = log_nk - largest_n[:, None]
    sum_n = np.exp(part_nk, out=part_nk) @ np.ones(log_nk.shape[1])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sum_n, out=sum_n) + largest_n, dtype=np.float64)


def log_sum(log_n: npt.NDArray[Any]) -> float:
    """Compute log Σ_i e^{x_i} of a vector."""
    return float(log_sums(log_n[None, :])[0])


def log_sums_by(
    log_n: npt.NDArray[Any], group_n: npt.NDArray[np.integer[Any]], n_groups: int
) -> Floats:
    """Compute (G,) log Σ_{i in g} e^{x_i} of each group, −inf where it has no finite term.

    It does what ``np.logaddexp.at`` does, ten times faster.
    """
    largest_g = np.full(n_groups, -np.inf)
    np.maximum.at(largest_g, group_n, log_n)
    finite_g = np.where(np.isneginf(largest_g), 0.0, largest_g)
    with np.errstate(divide="ignore"):
        total_g = np.log(
            np.bincount(group_n, weights=np.exp(log_n - finite_g[group_n]), minlength=n_groups)
        )
    return np.asarray(total_g + finite_g, dtype=np.float64)
