"""Weights of splits: train's own, the same for equal splits, on target in every split, unbiased
where ω is known.
"""

import numpy as np
import pytest

import unskew
from raising import refused
from split_pools import CASES, labelled_frame
from unskew import CoverageError, DataError, Pool, Target
from unskew.bias import Strata
from unskew.debiasing.pool_weights import ALL, weigh_splits


def test_without_splits_the_pool_is_one_split():
    pool = Pool(labelled_frame(200))
    bias, target = CASES["strata"]
    split = weigh_splits(pool, bias, target)
    assert [part.name for part in split.parts] == [ALL]
    np.testing.assert_array_equal(split.weight, unskew.debias(pool, bias, target).weight)
    np.testing.assert_array_equal(split.frame()["id"], pool.frame["id"])


def test_the_largest_split_is_train_where_none_is_called_so():
    frame = labelled_frame(300).assign(split=np.repeat(["x", "y", "z"], [90, 120, 90]))
    assert weigh_splits(Pool(frame), *CASES["strata"]).train == "y"
    assert (
        weigh_splits(Pool(frame.replace({"split": {"z": "Train"}})), *CASES["strata"]).train
        == "Train"
    )


def test_a_uniform_target_counts_the_levels_of_all_splits():
    frame = labelled_frame(300).assign(
        split=lambda f: np.where(np.arange(300) % 3 > 0, "train", "test")
    )
    frame = frame[(frame["split"] == "test") | (frame["label"] != "owl")]
    with pytest.raises(CoverageError, match=r"'train'.*label = owl \(0\.3333\)"):
        weigh_splits(Pool(frame), Strata("label"), Target.uniform("label"))
    split = weigh_splits(
        Pool(frame), Strata("label"), Target.uniform("label", uncovered="restrict")
    )
    assert "train has no image of their label" in split.part("test").zero
    for part in split.parts:
        assert (
            "excluding strata with no images in train: label = owl (0.3333); 0.3333 of it in all"
            in part.note
        )


def test_a_source_that_train_lacks_is_an_error_that_names_it():
    frame = labelled_frame(100, sources=("a", "b", "c")).assign(
        split=lambda f: np.where(f["source"] == "c", "test", "train")
    )
    with refused(DataError, sources=["c"]):
        weigh_splits(Pool(frame), *CASES["strata"])


def test_a_group_that_crosses_splits_is_refused():
    frame = labelled_frame(40).assign(
        group="g", split=lambda f: np.where(np.arange(40) % 2 > 0, "train", "test")
    )
    with pytest.raises(DataError, match="groups cross splits"):
        weigh_splits(Pool(frame), *CASES["strata"])
