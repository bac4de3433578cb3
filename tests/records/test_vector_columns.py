from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from raising import refused
from unskew import DataError, Pool, Target, bias, debias
from unskew.records.vector_columns import expand_vectors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
SOURCE = np.where(X[:, 0] + RNG.logistic(size=60) > 0, "a", "b")


def make_frame(vectors: object = None) -> pd.DataFrame:
    frame = pd.DataFrame({"id": np.arange(60), "source": SOURCE})
    return frame.assign(emb=list(X) if vectors is None else vectors)


@pytest.mark.parametrize("of_lists", [False, True])
def test_an_embedding_in_one_column_is_one_in_many(of_lists: bool) -> None:
    pool = Pool.from_frame(make_frame([list(map(float, x)) for x in X] if of_lists else None))
    assert pool.attributes == ("emb_0", "emb_1", "emb_2")
    np.testing.assert_array_equal(pool.frame[list(pool.attributes)], X)
    wide = Pool.from_arrays(SOURCE, emb=X)
    case = bias.Tilt(["emb"]), Target.source("a")
    np.testing.assert_allclose(debias(pool, *case).weight, debias(wide, *case).weight, rtol=1e-12)


def test_lists_of_labels_and_of_different_lengths_stay() -> None:
    frame = make_frame([[0.5] * (1 + row % 2) for row in range(60)]).assign(label=[["x"]] * 60)
    assert list(expand_vectors(frame, ("label",)).columns) == ["id", "source", "emb", "label"]
    with refused(DataError, column="emb", row=1):
        debias(Pool.from_frame(frame), bias.Tilt(["emb"]), Target.source("a"))


def test_a_name_that_is_taken_is_refused() -> None:
    with refused(DataError, column="emb_1"):
        Pool.from_frame(make_frame().assign(emb_1=0.0))
