"""The compiled loop behind areas under ROC curves of many replicates at once. Importing this loads Numba."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints
from unskew.solve.kernels_compiler import compiled


@compiled
def sum_areas(
    count_mb: Floats,
    unit_s: Ints,
    weight_s: Floats,
    positive_s: npt.NDArray[np.bool_],
    tied_s: npt.NDArray[np.bool_],
    start_c: Ints,
    area_cb: Floats,
    positive_cb: Floats,
    negative_cb: Floats,
) -> None:
    """Add Σ_{i positive, j negative} v_i v_j (1[s_i > s_j] + 1[s_i = s_j]/2), Σ_i v_i and Σ_j v_j of every cell; v = count × weight.

    Entries s are sorted by cell, then by score; ``tied_s`` says that the next entry of the same cell has the same score. Cell c has
    the entries start_c … start_{c+1} − 1. The inner loops run over the replicates b, which lie side by side in memory.
    """
    n_replicates = count_mb.shape[1]
    positive_t, negative_t = np.zeros(n_replicates), np.zeros(n_replicates)
    for c in range(start_c.size - 1):
        for s in range(start_c[c], start_c[c + 1]):
            weight, unit = weight_s[s], unit_s[s]
            if positive_s[s]:
                for b in range(n_replicates):
                    positive_t[b] += weight * count_mb[unit, b]
            else:
                for b in range(n_replicates):
                    negative_t[b] += weight * count_mb[unit, b]
            if not tied_s[s]:
                for b in range(n_replicates):
                    area_cb[c, b] += positive_t[b] * (negative_cb[c, b] + 0.5 * negative_t[b])
                    positive_cb[c, b] += positive_t[b]
                    negative_cb[c, b] += negative_t[b]
                    positive_t[b] = 0.0
                    negative_t[b] = 0.0
