"""An AUC has an error and a p-value that are right if the model is, and small if it is not."""

import numpy as np
import pytest

from unskew import Pool, Target, debias
from unskew.bias import Strata, Tilt


def two_cameras(seed: int, *, narrow: float = 1.0, holdout: float = 0.0, n: int = 150):
    """Cameras that tilt by x; the target's y is ``narrow`` times as wide as theirs."""
    rng = np.random.default_rng([31, seed])
    source = np.repeat(["a", "b"], n)
    x = rng.normal(np.where(source == "a", 0.5, -0.4), 1.0)
    pool = Pool.from_arrays(source, x=x, y=rng.normal(size=2 * n))
    sample = Pool.from_arrays(["t"] * n, x=rng.normal(size=n), y=narrow * rng.normal(size=n))
    weights = debias(pool, Tilt(["x", "y"]), Target.sample(sample, holdout=holdout))
    return weights.estimation.resemblance


@pytest.mark.parametrize("holdout", [0.0, 0.5])
def test_a_difference_that_the_model_cannot_follow_is_no_chance(holdout):
    found = two_cameras(0, narrow=0.3, holdout=holdout)
    assert found.p_value < 0.01
    assert found.auc - 0.5 > 2 * found.auc_stderr
    assert f"p = {found.p_value:.2g}" in found.message


@pytest.mark.slow
@pytest.mark.parametrize("holdout", [0.0, 0.5])
def test_the_level_and_the_error(holdout):
    found = [two_cameras(seed, holdout=holdout) for seed in range(400)]
    p = np.array([one.p_value for one in found])
    # 5% ± 1.5%, and two binomial standard deviations of 400.
    assert np.mean(p <= 0.05) == pytest.approx(0.05, abs=0.015 + 2 * 0.011)
    spread = np.std([one.auc for one in found])
    assert np.mean([one.auc_stderr for one in found]) == pytest.approx(spread, rel=0.25)


def test_images_of_a_source_that_were_held_out_judge():
    rng = np.random.default_rng(3)
    source = np.repeat(["a", "b"], 250)
    x = rng.normal(np.where(source == "a", 0.0, 0.7), 1.0)
    pool = Pool.from_arrays(source, x=x)
    found = debias(pool, Tilt(["x"]), Target.source("a", holdout=0.4)).estimation.resemblance
    assert 0.001 < found.p_value <= 1.0
    assert 0 < found.auc_stderr < 0.2


def test_a_model_that_fits_every_score_exactly_cannot_be_tested():
    rng = np.random.default_rng(4)
    kind = np.concatenate([rng.choice(list("uvw"), 200, p=p) for p in ([0.5, 0.3, 0.2],) * 2])
    pool = Pool.from_arrays(np.repeat(["a", "b"], 200), kind=kind)
    sample = Pool.from_arrays(["t"] * 100, kind=rng.choice(list("uvw"), 100))
    found = debias(pool, Strata("kind"), Target.sample(sample)).estimation.resemblance
    assert np.isnan(found.p_value)
