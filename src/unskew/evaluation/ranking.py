"""Images ranked by a score: AUROC and average precision in every cell and replicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class Ranking:
    """The images of every cell in the order of one score, against one class."""

    unit: Ints
    weight: Floats
    positive: npt.NDArray[np.bool_]
    tied: npt.NDArray[np.bool_]
    start: Ints


def rank_scores(
    score_n: Floats,
    positive_n: npt.NDArray[np.bool_],
    cell_n: Ints,
    n_cells: int,
    unit_n: Ints,
    weight_n: Floats,
) -> Ranking:
    """Sort the images of every cell by their score; those of cell −1 or weight 0 are left out."""
    kept = np.flatnonzero((cell_n >= 0) & (weight_n > 0))
    order = kept[np.argsort(score_n[kept])]
    # Of 16 bits, so that it is sorted by radix; most views have few cells.
    narrow = np.int16 if n_cells <= np.iinfo(np.int16).max else np.int64
    order = order[np.argsort(cell_n[order].astype(narrow), kind="stable")]
    cell_s, score_s = cell_n[order], score_n[order]
    tied_s = np.zeros(order.size, dtype=np.bool_)
    tied_s[:-1] = (cell_s[1:] == cell_s[:-1]) & (score_s[1:] == score_s[:-1])
    start_c = np.searchsorted(cell_s, np.arange(n_cells + 1)).astype(np.int64)
    return Ranking(unit_n[order], weight_n[order], positive_n[order], tied_s, start_c)


def sum_ranked(ranking: Ranking, count_mb: Floats) -> Floats:
    """Find AUROC, (C, B), of every cell and replicate; NaN without positives or negatives."""
    from unskew.evaluation.kernels_auroc import sum_areas

    area_cb, positive_cb, negative_cb = (
        np.zeros((ranking.start.size - 1, count_mb.shape[1])) for _ in range(3)
    )
    sum_areas(
        *(count_mb, ranking.unit, ranking.weight, ranking.positive, ranking.tied, ranking.start),
        *(area_cb, positive_cb, negative_cb),
    )
    return divide(area_cb, positive_cb * negative_cb)


def average_precisions(ranking: Ranking, count_mb: Floats) -> Floats:
    """Find the average precision, (C, B), of every cell and replicate; NaN without positives.

    Σ_t (R_t − R_{t−1}) P_t over the distinct scores t from the highest, R recall and P precision.
    """
    from unskew.evaluation.kernels_auroc import sum_precisions

    sum_cb, positive_cb = (np.zeros((ranking.start.size - 1, count_mb.shape[1])) for _ in range(2))
    sum_precisions(
        *(count_mb, ranking.unit, ranking.weight, ranking.positive, ranking.tied, ranking.start),
        *(sum_cb, positive_cb),
    )
    return divide(sum_cb, positive_cb)


def divide(above: Any, below: Any) -> Floats:
    """Divide above by below; NaN where below is not positive."""
    return np.asarray(
        np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)
    )
