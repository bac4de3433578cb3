"""Keys follow the content of rows and nothing else; units are shuffled evenly by them."""

import numpy as np
import pandas as pd

from unskew.records.content_keys import content_keys, shuffled_ranks

RNG = np.random.default_rng(5)


def test_keys_follow_values_not_rows_types_or_other_columns() -> None:
    frame = pd.DataFrame({"x": [1, 2, 1, 3], "kind": ["u", "v", "u", "u"], "id": np.arange(4)})
    key_n = content_keys(frame, ["x", "kind"])
    assert key_n[0] == key_n[2]
    assert np.unique(key_n).size == 3
    order = np.array([3, 1, 0, 2])
    np.testing.assert_array_equal(content_keys(frame.iloc[order], ["kind", "x"]), key_n[order])
    typed = frame.astype({"x": "Float32", "kind": "category"}).assign(id=0)
    np.testing.assert_array_equal(content_keys(typed, ["x", "kind"]), key_n)


def test_columns_change_places_without_being_confused() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [2, 1]})
    first, second = content_keys(frame, ["a", "b"])
    assert first != second


def test_what_cannot_be_hashed_is_skipped() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "tags": [["p"], ["q", "r"]]})
    np.testing.assert_array_equal(content_keys(frame, ["x", "tags"]), content_keys(frame, ["x"]))


def test_units_keep_their_places_when_rows_and_numbers_change() -> None:
    unit_n, key_n = np.repeat(np.arange(50), 3), RNG.integers(2**62, size=150).astype(np.uint64)
    rank_m = shuffled_ranks(unit_n, key_n, 7)
    assert sorted(rank_m) == list(range(50))
    order, number = RNG.permutation(150), RNG.permutation(50)
    moved_m = shuffled_ranks(number[unit_n[order]], key_n[order], 7)
    np.testing.assert_array_equal(moved_m[number], rank_m)
    assert (shuffled_ranks(unit_n, key_n, 8) != rank_m).any()


def test_the_shuffle_is_even() -> None:
    """The mean place of a unit over 400 seeds: (m − 1)/2 with standard error m/√(12 · 400)."""
    key_n = np.arange(20).astype(np.uint64)
    rank_sm = np.array([shuffled_ranks(np.arange(20), key_n, seed) for seed in range(400)])
    assert np.abs(rank_sm.mean(axis=0) - 9.5).max() < 4.5 * 20 / np.sqrt(12 * 400)
