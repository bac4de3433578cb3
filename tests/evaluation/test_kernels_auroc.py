"""AUROC by its definition: pairs of a positive and a negative, ties count one half."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.judging import judge


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30
    )
)
def test_auroc_with_ties_counts_pairs(rows: list[tuple[bool, int, int]]) -> None:
    """Σ over pairs of v⁺v⁻(1[s⁺ > s⁻] + 1[s⁺ = s⁻]/2)/Σ v⁺v⁻."""
    y, score, weight = (np.array(each) for each in zip(*rows, strict=True))
    id = np.arange(len(rows))
    if weight[y].sum() == 0 or weight[~y].sum() == 0:
        return
    table = pd.DataFrame(
        {"id": id, "source": "a", "label": y, "sample_weight": weight.astype(float)}
    )
    evaluation = judge(table, pd.DataFrame({"id": id, "score": score / 3}), positive="True")
    pairs = weight[y][:, None] * weight[~y][None, :]
    wins = (score[y][:, None] > score[~y][None, :]) + 0.5 * (
        score[y][:, None] == score[~y][None, :]
    )
    assert evaluation.overall.figures["auroc"].value == pytest.approx(
        (pairs * wins).sum() / pairs.sum()
    )
