"""AUROC of cells and replicates, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from unskew.evaluation.ranking import divide, rank_scores, sum_ranked


def test_areas_of_cells_are_scikit_learns_with_ties_weights_and_counts() -> None:
    rng = np.random.default_rng(0)
    n = 200
    score, positive = rng.integers(0, 9, n).astype(float), rng.random(n) < 0.4
    cell, unit, weight = rng.integers(-1, 2, n), np.arange(n), rng.exponential(1.0, n)
    count = rng.integers(0, 3, (n, 4)).astype(float)
    area = sum_ranked(rank_scores(score, positive, cell, 2, unit, weight), count)
    for c in range(2):
        for b in range(4):
            kept = (cell == c) & (count[:, b] > 0)
            expected = roc_auc_score(
                positive[kept], score[kept], sample_weight=(weight * count[:, b])[kept]
            )
            assert area[c, b] == pytest.approx(expected)


def test_nothing_is_divided_by_nothing() -> None:
    assert np.isnan(divide(np.ones(2), np.array([0.0, 2.0]))).tolist() == [True, False]
