"""The density ratio against its closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from baseline_pools import class_shares, small_pool
from unskew import Pool, Target
from unskew.learn import make_baseline


def test_the_density_ratio_of_levels_is_the_ratio_of_shares() -> None:
    counts = {("a", "x"): 400, ("a", "y"): 300, ("b", "x"): 100, ("b", "y"): 200}
    pool = small_pool(counts)
    sample = Pool.from_arrays(["t"] * 100, kind=["u"] * 100, label=["x"] * 20 + ["y"] * 80)
    found = make_baseline("density_ratio", pool, Target.sample(sample), features=["label"], C=1e6)
    assert class_shares(pool, found.weight) == pytest.approx({"x": 0.2, "y": 0.8}, abs=1e-5)
    of_source = make_baseline("density_ratio", pool, Target.source("b"), features="label", C=1e6)
    assert class_shares(pool, of_source.weight) == pytest.approx({"x": 1 / 3, "y": 2 / 3}, abs=1e-5)
    assert "from 300 images of the target" in of_source.describe()[0]
    judged = make_baseline("density_ratio", pool, Target.source("b", holdout=0.2), features="label")
    assert "from 240 images of the target" in judged.describe()[0]


def test_the_density_ratio_of_shifted_gaussians_is_log_linear_with_the_true_slope() -> None:
    """N(0.7, 1) over N(0, 1) is exp(0.7 x − 0.245); the slope has a standard error of about 0.02
    here.
    """
    rng = np.random.default_rng(0)
    pool = Pool.from_arrays(["a"] * 6000, x=10 * rng.normal(size=6000), constant=np.ones(6000))
    sample = Pool.from_arrays(
        ["t"] * 6000, x=10 * (rng.normal(size=6000) + 0.7), constant=np.ones(6000)
    )
    found = make_baseline("density_ratio", pool, Target.sample(sample), features=["x", "constant"])
    x_n = pool.frame["x"].to_numpy()
    slope, start = np.polyfit(x_n, np.log(found.weight), 1)
    assert np.log(found.weight) == pytest.approx(slope * x_n + start)
    assert slope == pytest.approx(0.07, abs=0.008)
    assert found.weight.sum() == pytest.approx(1.0)
    assert found.weight @ x_n == pytest.approx(7.0, abs=1.0)
