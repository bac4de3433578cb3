"""Which images judge: whole groups, in the share that was asked for, all with the same chance."""

import numpy as np
import pandas as pd
import pytest

from unskew.splits.holdout import held_out_rows


def held(frame: pd.DataFrame, holdout: float, seed: int = 0) -> np.ndarray:
    return held_out_rows(frame, holdout, np.random.default_rng(seed))


def test_without_a_share_nothing_is_held_out() -> None:
    assert held(pd.DataFrame({"z": range(5)}), 0.0).tolist() == [False] * 5


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_single_images_are_held_out_in_exactly_that_share(share: float) -> None:
    assert held(pd.DataFrame({"z": range(200)}), share).sum() == 200 * share


def test_groups_stay_together_and_the_share_is_met_within_half_a_group() -> None:
    size_g = np.random.default_rng(1).integers(1, 9, 60)
    frame = pd.DataFrame({"group": np.repeat(np.arange(60), size_g)}).sample(frac=1, random_state=0)
    for seed in range(20):
        held_n = held(frame, 0.3, seed)
        assert (pd.Series(held_n).groupby(frame["group"].to_numpy()).nunique() == 1).all()
        assert abs(held_n.sum() - 0.3 * len(frame)) <= size_g.max() / 2


def test_the_generator_decides_and_every_image_has_the_same_chance() -> None:
    frame = pd.DataFrame({"z": range(10)})
    np.testing.assert_array_equal(held(frame, 0.3, 4), held(frame, 0.3, 4))
    often_n = np.mean([held(frame, 0.3, seed) for seed in range(1000)], axis=0)
    # A share of 0.3 from 1000 draws: a standard error of 0.0145.
    np.testing.assert_allclose(often_n, 0.3, atol=4 * 0.0145)


def test_copies_and_groups_of_which_some_image_lacks_one_stay_together() -> None:
    rng = np.random.default_rng(3)
    row = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    group = pd.Series([f"g{at // 2}" for at in row]).where(row > 3, None)
    content = np.array([f"h{at}" for at in row])
    x = rng.normal(size=300)[row]
    for seed in range(10):
        for columns in ({"content": content, "group": group}, {"content": content}, {}):
            frame = pd.DataFrame({"x": x} | columns)
            held_n = pd.Series(held(frame, 0.4, seed))
            assert (held_n.groupby(row).nunique() == 1).all()
            if "group" in columns:
                assert (held_n.groupby(group).nunique() == 1).all()


def test_the_order_of_the_rows_has_no_say():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"z": rng.normal(size=60), "group": np.repeat(np.arange(20), 3)})
    order = rng.permutation(60)
    for table in (frame, frame[["z"]]):
        held_n = held(table, 0.3, 4)
        np.testing.assert_array_equal(held(table.iloc[order], 0.3, 4), held_n[order])
