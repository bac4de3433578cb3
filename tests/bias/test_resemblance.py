"""Does the weighted pool look like the target? The judge says yes when it does, and no when it does
not.
"""

import numpy as np
import pandas as pd
import pytest

from unskew import CoverageError, Pool, Target, debias
from unskew.bias import Box, Known, Propensity, Tilt
from unskew.errors import UnskewWarning


def pools(shift=1.0, n=800, n_target=400, seed=0):
    rng = np.random.default_rng(seed)
    source = np.where(rng.random(n) < 0.5, "a", "b")
    x = rng.normal(size=n) + shift * np.where(source == "a", 1.0, 0.5)
    return Pool.from_arrays(source, x=x, y=rng.normal(size=n)), Pool.from_arrays(
        ["t"] * n_target, x=rng.normal(size=n_target)
    )


@pytest.mark.parametrize("holdout", [0.0, 0.5])
def test_right_weights_leave_nothing_to_tell_apart(holdout):
    pool, sample = pools()
    weights = debias(pool, Tilt(["x"]), Target.sample(sample, holdout=holdout))
    seen = weights.estimation.resemblance
    # The AUC of a useless classifier on 400 images has a standard error of 0.02 to 0.03.
    assert abs(seen.auc - 0.5) < 0.1
    assert seen.auc_before > 0.6
    assert seen.unlike < 0.1
    assert seen.held_out is (holdout > 0)
    assert seen.n_target == 400 * (1 - holdout or 1)
    assert ("optimistic" in seen.message) is (holdout == 0)


def test_wrong_weights_are_told_apart():
    pool, sample = pools()
    known = Known({"a": 1.0, "b": 1.0})
    weights = debias(pool, known, Target.sample(sample))
    assert weights.estimation.resemblance is None  # Known names no columns to look at
    frame = pool.frame.assign(one=1.0)
    weights = debias(Pool(frame), Box(["x"]), Target.sample(sample), max_uncovered=1.0)
    assert weights.estimation.resemblance.auc > 0.6


def test_a_target_that_no_source_resembles_is_not_identifiable():
    pool, _ = pools()
    rng = np.random.default_rng(1)
    far = Pool.from_arrays(
        ["t"] * 300,
        x=np.where(rng.random(300) < 0.5, rng.normal(size=300), 9 + rng.normal(size=300)),
    )
    with pytest.raises(CoverageError, match=r"max_uncovered = 0\.2"):
        debias(pool, Box(["x"]), Target.sample(far))


def test_without_images_to_judge_by_there_is_no_verdict():
    pool, sample = pools()
    assert debias(pool, Tilt(["x"]), Target.source("a")).estimation.resemblance is None
    assert (
        debias(pool, Tilt(["x"]), Target.sample(sample), check_sample=False).estimation.resemblance
        is None
    )
    few = Pool(sample.frame.iloc[:30])
    with pytest.warns(
        UnskewWarning,
        match="not judged: there are 30 images of it to look at, and a classifier needs 40",
    ):
        assert debias(pool, Tilt(["x"]), Target.sample(few)).estimation.resemblance is None
    held = debias(pool, Tilt(["x"]), Target.source("a", holdout=0.5))
    assert held.estimation.resemblance.held_out
    assert (held.weight == 0).sum() == sum(held.estimation.fitted.left_out.values())


def test_too_few_that_were_held_out_are_joined_by_those_that_fitted():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 0.7, 200), rng.uniform(0.3, 1, 200)])
    pool = Pool.from_arrays(np.repeat(["early", "late"], 200), x=x)
    far = Target.sample(Pool.from_arrays(["target"] * 100, x=np.linspace(3, 4, 100)), holdout=0.2)
    with pytest.raises(CoverageError, match=r"100 images of the target.*also fitted"):
        debias(pool, Propensity(["x"]), far)
    near = Target.sample(Pool.from_arrays(["target"] * 100, x=rng.uniform(0, 1, 100)), holdout=0.2)
    found = debias(pool, Tilt(["x"]), near).estimation.resemblance
    assert (found.n_target, found.held_out) == (100, False)


@pytest.mark.parametrize("holdout", [0.0, 0.5])
def test_a_pool_with_groups_is_judged_by_a_sample_without(holdout):
    """Each image of the sample is a group by itself, so the verdict is the same as if it were
    said.
    """
    pool, sample = pools()
    pool = pool.with_columns({"group": [f"burst-{row // 2}" for row in range(len(pool))]})
    seen = debias(pool, Tilt(["x"]), Target.sample(sample, holdout=holdout)).estimation.resemblance
    said = Target.sample(
        sample.with_columns({"group": [f"image-{row}" for row in range(len(sample))]}),
        holdout=holdout,
    )
    assert seen.n_target == 400 * (1 - holdout or 1)
    assert seen.auc == pytest.approx(
        debias(pool, Tilt(["x"]), said).estimation.resemblance.auc, abs=0.1
    )


def test_a_sample_of_one_group_cannot_judge():
    pool, sample = pools()
    one = sample.with_columns({"group": ["patient"] * len(sample)})
    grouped = pool.with_columns({"group": [str(row) for row in range(len(pool))]})
    assert debias(grouped, Tilt(["x"]), Target.sample(one)).estimation.resemblance is None


@pytest.mark.parametrize("told", [True, False])
def test_copies_of_an_image_do_not_give_its_side_away(told):
    """Told by their content, or by numbers that are alike."""
    rng = np.random.default_rng(4)

    def copied(name, shift):
        row = np.repeat(np.arange(90), np.where(rng.random(90) < 0.3, 7, 1))
        columns = {
            "source": name,
            "id": [f"{name}/{at}" for at in range(row.size)],
            "x": rng.normal(shift, size=90)[row],
            "kind": rng.choice(["u", "v"], 90)[row],
        }
        return pd.DataFrame(columns | ({"content": [f"{name}{at}" for at in row]} if told else {}))

    pool = Pool(pd.concat([copied("a", 0.4), copied("b", -0.3), copied("c", 0.0)]))
    target = Target.sample(Pool(copied("t", 0.0)))
    weights = debias(pool, Propensity(["x", "kind"]), target)
    seen = weights.estimation.resemblance
    assert seen.auc < 0.62  # 0.8 if copies are on both sides of a fold
    assert seen.p_value > 0.05
