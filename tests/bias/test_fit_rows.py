"""The rows that a bias model is fitted on, and in which stratum they are."""

from __future__ import annotations

import numpy as np
import pytest

from two_sources import two_sources
from unskew import DataError, Pool, Target, debias
from unskew.bias import Strata, Tilt


@pytest.mark.parametrize("model", [Strata("label"), Tilt(["label"])])
def test_a_missing_column_is_named_with_the_table_that_lacks_it(model):
    frame, sample = two_sources(), two_sources(120, seed=1)
    with pytest.raises(DataError, match=r"the pool.*'label'"):
        debias(
            Pool.from_frame(frame.drop(columns="label")),
            model,
            Target.sample(Pool.from_frame(sample)),
        )
    with pytest.raises(DataError, match=r"the target's sample.*'label'"):
        debias(
            Pool.from_frame(frame),
            model,
            Target.sample(Pool.from_frame(sample.drop(columns="label"))),
        )


def test_groups_in_the_pool_but_not_in_the_sample() -> None:
    import unskew

    rng = np.random.default_rng(0)
    pool = unskew.Pool.from_arrays(
        rng.choice(["a", "b"], 120), z=rng.normal(size=120), group=[f"g{at}" for at in range(120)]
    )
    sample = unskew.Pool.from_arrays(["t"] * 60, z=rng.normal(size=60))
    weights = unskew.debias(pool, unskew.bias.Tilt(["z"]), unskew.Target.sample(sample))
    assert weights.ess_groups is not None
