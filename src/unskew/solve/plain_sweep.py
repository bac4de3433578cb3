"""The loop over the rows of ω in plain NumPy: the twin of ``kernels_sweep.sweep_few``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records import Codes, Floats
from unskew.solve.plain_inspect import source_indicator

# Entries of a tile: half a megabyte stays in the second-level cache.
_TILE_ENTRIES = 1 << 16


def sweep_loops(is_large: bool) -> Any:
    """Return the module whose loop to take."""
    if is_large:
        from unskew.solve import kernels_sweep

        return kernels_sweep
    from unskew.solve import plain_sweep

    return plain_sweep


def sweep_few(
    omega_nk: npt.NDArray[np.floating],
    source_n: Codes,
    count_n: Floats,
    a_k: Floats,
    flow_lk: Floats,
    cross_kk: Floats,
    inverse_k: Floats,
    with_cross: bool,
    by_source: bool,
    start: int,
    stop: int,
) -> tuple[float, float, float]:
    """Compute objective, flow and cross products by matrix products, of any number of sources.

    See `kernels_sweep.sweep_few`.
    """
    n_sources = a_k.size
    value, low, high = 0.0, np.inf, 0.0
    tile = max(64, _TILE_ENTRIES // n_sources)
    for first in range(start, stop, tile):
        rows = slice(first, min(first + tile, stop))
        tile_nk = omega_nk[rows].astype(np.float64, copy=False)
        sum_n = tile_nk @ a_k
        low, high = min(low, float(sum_n.min())), max(high, float(sum_n.max()))
        per_sum_n = 1.0 / sum_n
        counted_n = per_sum_n * count_n[rows] if count_n.size else per_sum_n
        log_n = np.log(sum_n)
        value += float(count_n[rows] @ log_n if count_n.size else log_n.sum())
        if inverse_k.size:
            inverse_k += np.append((per_sum_n * per_sum_n) @ tile_nk, per_sum_n.sum())
        if by_source:
            flow_lk += source_indicator(source_n[rows], n_sources, counted_n).T @ tile_nk
        else:
            flow_lk[0] += counted_n @ tile_nk
        if with_cross:
            q_nk = tile_nk * np.sqrt(counted_n * per_sum_n)[:, None]
            cross_kk += np.tril(q_nk.T @ q_nk, -1)
    return value, low, high
