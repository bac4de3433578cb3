"""The rows that a bias model is fitted on, and in which stratum they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from raising import refused
from two_sources import two_sources
from unskew import ConfigError, DataError, Pool, Target, debias
from unskew.bias import Box, Known, Propensity, Strata, Tilt
from unskew.bias.fit_rows import (
    agree_on_copies,
    check_origin,
    exclude_rows,
    gather_rows,
    place_in_strata,
    split_folds,
)
from unskew.bias.fitted import SAMPLE


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


FRAME = two_sources(40)
POOL = Pool.from_frame(FRAME)


def test_without_a_reference_all_rows_of_the_pool_are_fitted_on():
    for target in (None, Target.margins({"label": {"a": 1, "b": 1, "c": 1}})):
        rows = gather_rows(POOL, target, [Tilt(["x"])], 0)
        assert rows.row.tolist() == list(range(40))
        assert (rows.data.sample, rows.data.reference, rows.judge) == (None, None, None)
        np.testing.assert_array_equal(rows.data.source, POOL.source)
        assert rows.left_out == {}


def test_rows_of_a_sample_follow_those_of_the_pool_and_are_a_source_of_their_own():
    sample = two_sources(20, seed=1)
    rows = gather_rows(POOL, Target.sample(Pool.from_frame(sample), 0.25), [Tilt(["x"])], 0)
    data = rows.data
    assert data.names == ("p", "q", SAMPLE)
    assert (data.n_pool, data.sample, data.reference) == (40, 2, 2)
    assert data.source.tolist() == [0] * 20 + [1] * 20 + [2] * (len(data.frame) - 40)
    assert rows.row.tolist() == list(range(40))
    # Every image of the sample either fits or judges.
    assert len(rows.judge) == 5
    both = [*data.frame["x"].iloc[40:], *rows.judge["x"]]
    assert sorted(both) == sorted(sample["x"])


def test_images_of_a_reference_that_are_held_out_judge_and_are_counted():
    rows = gather_rows(POOL, Target.source("p", 0.25), [Tilt(["x"])], 0)
    assert rows.left_out == {"held out of p to judge": 5}
    assert (len(rows.judge), set(rows.judge["source"])) == (5, {"p"})
    assert rows.data.reference == POOL.names.index("p")
    held = set(range(40)) - set(rows.row.tolist())
    assert sorted(FRAME["x"].iloc[sorted(held)]) == sorted(rows.judge["x"])
    np.testing.assert_array_equal(rows.data.frame["x"], FRAME["x"].iloc[rows.row])


def test_categories_of_the_pool_stay_categories_beside_a_sample():
    frame = FRAME.assign(kind=pd.Categorical(["1", "2"] * 20))
    sample = two_sources(20, seed=1).assign(kind=[1, 2] * 10)
    target = Target.sample(Pool.from_frame(sample))
    data = gather_rows(Pool.from_frame(frame), target, [Tilt(["kind"])], 0).data
    assert isinstance(data.frame["kind"].dtype, pd.CategoricalDtype)


def test_groups_stay_together_and_an_image_without_one_is_alone():
    frame = FRAME.assign(group=np.arange(40) // 10)
    sample = Pool.from_frame(two_sources(4, seed=1))
    group = gather_rows(Pool.from_frame(frame), Target.sample(sample), [Tilt(["x"])], 0).data
    assert group.fold_group.tolist() == [*(np.arange(40) // 10).tolist(), 4, 5, 6, 7]
    plain = gather_rows(POOL, None, [Tilt(["x"])], 0).data
    assert plain.fold_group.tolist() == list(range(40))


def test_only_one_can_be_the_reference():
    sample = Target.sample(Pool.from_frame(two_sources(20, seed=1)))
    with refused(ConfigError, option="reference", value="p"):
        gather_rows(POOL, sample, [Tilt(["x"], reference="p")], 0)
    with refused(ConfigError, option="reference", value="p", source="q"):
        gather_rows(POOL, Target.source("q"), [Tilt(["x"], reference="p")], 0)
    same = gather_rows(POOL, Target.source("q"), [Tilt(["x"], reference="q")], 0)
    assert same.data.reference == POOL.names.index("q")


def test_samples_that_cannot_be_fitted_with_are_refused():
    with refused(DataError, count=1, limit=2):
        gather_rows(POOL, Target.sample(Pool.from_frame(FRAME.iloc[:1])), [Tilt(["x"])], 0)
    renamed = Pool.from_frame(FRAME.replace({"source": {"p": SAMPLE}}))
    with refused(DataError, source=SAMPLE):
        gather_rows(renamed, Target.sample(POOL), [Tilt(["x"])], 0)


def test_rows_are_placed_in_strata_and_those_without_mass_or_outside_are_counted():
    rows = gather_rows(POOL, None, [Strata("label")], 0)
    label = FRAME["label"].to_numpy()
    for target, reason in (
        (
            Target.margins({"label": {"a": 0.3, "b": 0.7, "c": 0.0}}),
            "their label has no mass in the target",
        ),
        (
            Target.margins({"label": {"a": 0.3, "b": 0.7}}, outside={"label": {"c": "drop"}}),
            "outside the target",
        ),
    ):
        placed = place_in_strata(rows, Strata("label"), POOL, target)
        assert placed.left_out == {reason: int((label == "c").sum())}
        np.testing.assert_array_equal(placed.row, np.flatnonzero(label != "c"))
        found = [placed.strata.strata[cell] for cell in placed.data.cell]
        assert found == [(each,) for each in label[placed.row]]


def test_images_outside_their_own_box_leave_and_a_source_that_loses_all_is_named():
    rows = gather_rows(POOL, None, [Box(["x"], quantile=0.1)], 0)
    part = Box(["x"], quantile=0.1)
    factor = part.estimate(rows.data, np.zeros((40, 2)))
    kept = exclude_rows(rows, factor, part)
    own = factor.log_omega(FRAME)[np.arange(40), POOL.source]
    np.testing.assert_array_equal(kept.row, np.flatnonzero(np.isfinite(own)))
    assert kept.left_out == {"outside their own source's box": int(np.isneginf(own).sum())}
    assert exclude_rows(kept, factor, part) is kept
    nothing = Known({"p": 1.0, "q": 0.0}).estimate(rows.data, np.zeros((40, 2)))
    with refused(DataError, sources=["q"]):
        exclude_rows(rows, nothing, part)
    neither = Known({"p": 0.0, "q": 0.0}).estimate(rows.data, np.zeros((40, 2)))
    with refused(DataError, sources=["p", "q"]):
        exclude_rows(rows, neither, part)


def test_an_image_that_its_own_source_could_not_produce_is_named_by_its_row_in_the_pool():
    rows = gather_rows(POOL, None, [Tilt(["x"])], 0)
    log_rk = np.zeros((40, 2))
    check_origin(rows, np.where(np.eye(2)[POOL.source] > 0, 0.0, -np.inf))
    log_rk[[7, 9], 0] = -np.inf
    with refused(DataError, row=7, source="p"):
        check_origin(rows, log_rk)
    some = replace(rows, data=rows.data.kept(np.arange(40) >= 5), row=np.arange(5, 40))
    with refused(DataError, row=7, source="p"):
        check_origin(some, log_rk[5:])


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
