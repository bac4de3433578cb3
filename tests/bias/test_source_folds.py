"""Folds of a fit: groups and copies on one side, every source in every training part."""

import numpy as np
import pandas as pd

from unskew import Pool, Target
from unskew.bias import Propensity
from unskew.bias.source_folds import agree_on_copies, split_folds


def test_folds_keep_groups_on_one_side_and_every_source_in_every_training_part():
    rng = np.random.default_rng(1)
    source = np.where(rng.random(300) < 0.5, "plain", "bright")
    pool = Pool.from_arrays(source, x=rng.normal(size=300), group=np.arange(300) // 5)
    data = Propensity(["x"], reference="plain").fit(pool).data
    seen = np.zeros(300, dtype=int)
    for train, test in split_folds(data, 5):
        assert not set(data.fold_group[train]) & set(data.fold_group[test])
        assert set(data.source[train]) == {0, 1}
        seen[test] += 1
    assert (seen == 1).all()


def test_the_folds_of_propensity_keep_copies_on_one_side() -> None:
    """A hundred images, each in two sources: no fold may judge an image by a model that saw its
    copy.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    frame = pd.DataFrame(
        {
            "id": np.arange(200),
            "source": ["a"] * 100 + ["b"] * 100,
            "x": np.tile(x, 2),
            "content": np.tile(np.arange(100), 2),
        }
    )
    data = Propensity(["x"]).fit(Pool(frame), Target.source("a")).data
    for train, test in split_folds(data, 5):
        assert not set(data.frame["content"].iloc[train]) & set(data.frame["content"].iloc[test])


def test_rows_that_are_alike_share_the_mean_of_their_folds() -> None:
    frame = {"x": [1.0, 2.0, 1.0, 1.0, 5.0, 2.0], "y": [0.0, 0, 0, 9, 0, 0]}
    pool = Pool.from_arrays(["a", "a", "a", "b", "b", "b"], **frame)
    data = Propensity(["x"], reference="a").fit(pool).data
    log_rk = np.column_stack([np.arange(6.0), 2 * np.arange(6.0)])
    # Rows 0 and 2 are alike; 3 and 5 are of another source, and y is not read.
    np.testing.assert_allclose(agree_on_copies(data, log_rk)[:, 0], [1, 1, 1, 3, 4, 5])
