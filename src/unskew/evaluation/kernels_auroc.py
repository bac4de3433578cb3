"""The compiled loops behind AUROC and average precision of many replicates at once.

Importing this loads Numba.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unskew.engine.compilation import compiled
from unskew.records import Floats, Ints


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
    """Sum over the pairs of positive and negative images of every cell and replicate.

    Finds Σ_{i positive, j negative} v_i v_j (1[s_i > s_j] + 1[s_i = s_j]/2), Σ_i v_i and Σ_j v_j;
    v = count × weight. Entries s are sorted by cell, then by score; ``tied_s`` marks those whose
    next entry, in the same cell, has the same score. Cell c has the entries
    start_c … start_{c+1} − 1. The inner loops run over the replicates b, which are contiguous in
    memory.
    """
    n_replicates = count_mb.shape[1]
    area_b, above_b, below_b, positive_t, negative_t = np.zeros((5, n_replicates))
    for c in range(start_c.size - 1):
        area_b[:], above_b[:], below_b[:] = 0.0, 0.0, 0.0
        before = False
        for s in range(start_c[c], start_c[c + 1]):
            weight, count_b = weight_s[s], count_mb[unit_s[s]]
            tied = tied_s[s]
            if not (tied or before):
                # Most entries have a score of their own, and most of these are negatives: these two
                # loops do nearly all the work.
                if positive_s[s]:
                    for b in range(n_replicates):
                        area_b[b] += weight * count_b[b] * below_b[b]
                        above_b[b] += weight * count_b[b]
                else:
                    for b in range(n_replicates):
                        below_b[b] += weight * count_b[b]
                continue
            if positive_s[s]:
                for b in range(n_replicates):
                    positive_t[b] += weight * count_b[b]
            else:
                for b in range(n_replicates):
                    negative_t[b] += weight * count_b[b]
            if not tied:
                for b in range(n_replicates):
                    area_b[b] += positive_t[b] * (below_b[b] + 0.5 * negative_t[b])
                    above_b[b] += positive_t[b]
                    below_b[b] += negative_t[b]
                    positive_t[b] = 0.0
                    negative_t[b] = 0.0
            before = tied
        area_cb[c], positive_cb[c], negative_cb[c] = area_b, above_b, below_b


@compiled
def sum_precisions(
    count_mb: Floats,
    unit_s: Ints,
    weight_s: Floats,
    positive_s: npt.NDArray[np.bool_],
    tied_s: npt.NDArray[np.bool_],
    start_c: Ints,
    sum_cb: Floats,
    positive_cb: Floats,
) -> None:
    """Sum the precision at the score of every positive image, in every cell and replicate.

    Finds Σ_{i positive} v_i P_i and Σ_i v_i, with P_i the share of positives among the images that
    score at least as high as i. Entries are sorted as for `sum_areas`.
    """
    n_replicates = count_mb.shape[1]
    sum_b, above_b, all_b, positive_t = np.zeros((4, n_replicates))
    for c in range(start_c.size - 1):
        sum_b[:], above_b[:], all_b[:], positive_t[:] = 0.0, 0.0, 0.0, 0.0
        has_positive = False
        for s in range(start_c[c + 1] - 1, start_c[c] - 1, -1):
            weight, count_b = weight_s[s], count_mb[unit_s[s]]
            for b in range(n_replicates):
                all_b[b] += weight * count_b[b]
            if positive_s[s]:
                has_positive = True
                for b in range(n_replicates):
                    positive_t[b] += weight * count_b[b]
            is_last = s == start_c[c] or not tied_s[s - 1]
            if is_last and has_positive:
                for b in range(n_replicates):
                    above_b[b] += positive_t[b]
                    if positive_t[b] > 0.0:
                        sum_b[b] += positive_t[b] * above_b[b] / all_b[b]
                    positive_t[b] = 0.0
                has_positive = False
        sum_cb[c], positive_cb[c] = sum_b, above_b
