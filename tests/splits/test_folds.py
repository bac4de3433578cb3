"""Folds: whole groups, even, every stratum in every fold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.splits.folds import content_codes, deal_folds, tell_copies, unit_codes, unit_or_row


@given(seed=st.integers(0, 1000), n_folds=st.integers(2, 6), grouped=st.booleans())
def test_groups_stay_together_and_folds_are_even(seed, n_folds, grouped):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 120))
    group = np.unique(
        rng.integers(0, n // 2, n) if grouped else rng.permutation(n), return_inverse=True
    )[1]
    stratum = rng.integers(0, 3, n)
    fold = deal_folds(group, stratum, n_folds, seed)
    assert set(fold) <= set(range(n_folds))
    assert all(np.unique(fold[group == g]).size == 1 for g in np.unique(group))
    if not grouped:
        for each in np.unique(stratum):
            count = np.bincount(fold[stratum == each], minlength=n_folds)
            assert count.max() - count.min() <= 1
    np.testing.assert_array_equal(fold, deal_folds(group, stratum, n_folds, seed))


def test_images_of_the_same_content_are_of_one_unit_and_unknown_content_is_nobodys_copy() -> None:
    frame = pd.DataFrame({"content": ["a", "b", "a", None, None]})
    code = content_codes(frame)
    assert code is not None
    assert code[0] == code[2]
    assert len(set(code.tolist())) == 4
    assert content_codes(frame.drop(columns="content")) is None


@pytest.mark.parametrize("dtype", [float, int])
def test_copies_are_told_by_whole_numbers_too(dtype):
    rng = np.random.default_rng(0)
    one = pd.DataFrame(
        {
            "bytes": rng.integers(10**4, 10**6, 300).astype(dtype),
            "brightness": rng.integers(0, 256, 300).astype(dtype),
        }
    )
    frame = pd.concat([one, one, one], ignore_index=True).assign(
        id=np.arange(900), row=np.arange(900)
    )
    code = tell_copies(frame)
    np.testing.assert_array_equal(code[:300], code[300:600])
    assert np.unique(code).size == 300
    # A few whole numbers make look-alikes, not copies.
    assert tell_copies(frame[["brightness"]].astype(int) // 10) is None


def test_units_are_groups_copies_and_chains_of_both() -> None:
    content = ["x", "y", "y", None, None, "z"]
    frame = pd.DataFrame({"content": content})
    assert unit_codes(frame).tolist() == [0, 1, 1, 3, 4, 2]
    # Nobody shares a group with the copies y, but one copy's group has a third image.
    grouped = unit_codes(frame.assign(group=["g", "g", "h", "i", "j", "h"]))
    assert grouped.tolist() == [0, 0, 0, 1, 2, 0]
    assert unit_codes(frame.assign(group=list("abcdef"))).tolist() == [0, 1, 1, 2, 3, 4]


def test_without_groups_and_copies_there_are_no_units() -> None:
    assert unit_codes(pd.DataFrame({"x": [1, 1]})) is None
    assert unit_or_row(pd.DataFrame({"x": [1, 1]})).tolist() == [0, 1]
    assert unit_or_row(pd.DataFrame({"group": ["b", None, "b"]})).tolist() == [0, 1, 0]
    assert unit_codes(pd.DataFrame({"content": ["a", "b", "c"]})) is None
    assert unit_codes(pd.DataFrame({"content": ["a", None, None]})) is None
    # Groups without copies are the groups, in the order of their appearance.
    frame = pd.DataFrame({"group": ["v", "u", "v"], "content": ["a", "b", "c"]})
    assert unit_codes(frame).tolist() == [0, 1, 0]
