"""Folds: whole groups, even, every stratum in every fold."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.folding import deal_folds


@given(seed=st.integers(0, 1000), n_folds=st.integers(2, 6), grouped=st.booleans())
def test_groups_stay_together_and_folds_are_even(seed, n_folds, grouped):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 120))
    group = np.unique(rng.integers(0, n // 2, n) if grouped else rng.permutation(n), return_inverse=True)[1]
    stratum = rng.integers(0, 3, n)
    fold = deal_folds(group, stratum, n_folds, seed)
    assert set(fold) <= set(range(n_folds))
    assert all(np.unique(fold[group == g]).size == 1 for g in np.unique(group))
    if not grouped:
        for each in np.unique(stratum):
            count = np.bincount(fold[stratum == each], minlength=n_folds)
            assert count.max() - count.min() <= 1
    np.testing.assert_array_equal(fold, deal_folds(group, stratum, n_folds, seed))
