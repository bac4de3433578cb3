"""Weights joined to the images of a dataset by id, and checked."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn.weights_by_id import align_by_id, align_to_dataset, named_weights

torch = pytest.importorskip("torch")

from unskew.learn import WeightedSampler  # noqa: E402

WEIGHT = np.random.default_rng(0).exponential(size=101) * (np.arange(101) % 5 > 0)
IDS = [f"north/{i}.jpg" for i in range(101)]
OTHER = np.random.default_rng(5).permutation(101)


def _forms() -> dict[str, object]:
    ids = [IDS[i] for i in OTHER]
    frame = pd.DataFrame({"id": ids, "weight": WEIGHT[OTHER]})
    return {
        "record": SimpleNamespace(id=np.array(ids), weight=WEIGHT[OTHER]),
        "mapping": dict(zip(ids, WEIGHT[OTHER], strict=True)),
        "table": frame,
        "series": frame.set_index("id")["weight"],
    }


@pytest.mark.parametrize("form", _forms())
def test_weights_are_joined_by_id(form: str) -> None:
    sampler = WeightedSampler(_forms()[form], IDS)
    np.testing.assert_array_equal(sampler.weight, WEIGHT)
    assert list(sampler) == list(WeightedSampler(WEIGHT))


def test_the_weights_of_debias_weights_are_joined_by_id() -> None:
    omega = np.repeat([[1.0, 0.5], [1.0, 1.0], [1.0, 0.25], [1.0, 1.0]], 20, axis=0)
    ids = [f"{i}.jpg" for i in range(80)]
    weights = unskew.debias_weights(omega, np.repeat(["a", "b"], 40), id=ids)
    sampler = WeightedSampler(weights, ids[::-1])
    np.testing.assert_array_equal(sampler.weight, weights.weight[::-1])


def test_tensors_lists_and_numbers_of_numpy_are_weights_and_ids() -> None:
    for weights in (
        torch.from_numpy(WEIGHT),
        WEIGHT.tolist(),
        pd.Series(WEIGHT),
        WEIGHT.astype(object),
    ):
        np.testing.assert_array_equal(WeightedSampler(weights).weight, WEIGHT)
    named = {7: 1.0, 9: 3.0}
    for ids in (
        [np.int64(9), np.int64(7)],
        np.array([9, 7]),
        torch.tensor([9, 7]),
        pd.Series([9, 7]),
        (9, 7),
    ):
        assert WeightedSampler(named, ids).weight.tolist() == [3.0, 1.0]


_BY_ID = dict(zip("abcd", [1.0, 2.0, 0.0, 3.0], strict=True))


@pytest.mark.parametrize(
    ("weights", "ids", "words"),
    [
        (_BY_ID, list("abxcy"), "2 of the 5 ids of the dataset.*x, y"),
        (
            {1: 1.0, 2: 2.0},
            ["1", "2"],
            r"Ids of the dataset are str \('1'\), those of the weights int \(1\)",
        ),
        (
            _BY_ID,
            list("ad"),
            "2 of the 4 ids of the weights.*b, c.*allow_extra",
        ),
        (_BY_ID, list("abcdad"), r"duplicate ids in the dataset \(2\): a, d"),
        (
            SimpleNamespace(id=["a", "b", "a"], weight=[1, 2, 3]),
            list("ab"),
            r"duplicate ids in the weights \(1\): a",
        ),
        ([1.0, float("nan"), float("nan")], None, "2 of 3 are not; the first, of row 1, is nan"),
        ({"a": 1.0, "b": -2.0}, list("ba"), "1 of 2 are not; the first, of image 'b', is -2.0"),
        ([1.0, float("inf")], None, "is inf"),
        (np.zeros(4), None, "all 4 weights are zero"),
        ([], None, "not a single image"),
        (np.ones((2, 2)), None, r"shape \(2, 2\)"),
        (["heavy"], None, "weights are numbers"),
        (pd.DataFrame({"image": [1]}), [1], "lacks id and weight"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_a_count_and_the_first(
    weights, ids, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        WeightedSampler(weights, ids)


@pytest.mark.parametrize(
    ("weights", "options", "words"),
    [
        (_BY_ID, {}, "joined to images by id, never by row order"),
        ([1.0, 2.0], {"ids": ["a", "b"]}, "these are bare numbers"),
    ],
)
def test_weights_and_ids_that_do_not_go_together_are_refused(weights, options, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        WeightedSampler(weights, **options)


def test_a_dataset_may_be_a_part_of_what_was_weighed_if_that_is_meant() -> None:
    assert WeightedSampler(_BY_ID, list("da"), allow_extra=True).weight.tolist() == [3.0, 1.0]


def test_bare_numbers_are_taken_as_they_are_and_named_weights_by_id() -> None:
    given = np.array([0.0, 2.0, 5.0])
    found = align_by_id(given)
    np.testing.assert_array_equal(found, given)
    found[0] = 7.0  # a copy
    assert given[0] == 0.0
    # As they were given: not scaled, also where a part is asked for.
    assert align_by_id(_BY_ID, list("db"), allow_extra=True).tolist() == [3.0, 2.0]
    assert align_by_id(_BY_ID, "dcba").tolist() == [3.0, 0.0, 2.0, 1.0]


@pytest.mark.parametrize("form", _forms())
def test_weights_that_know_their_images_tell_their_ids(form: str) -> None:
    ids, weight = named_weights(_forms()[form])
    assert ids == [IDS[i] for i in OTHER]
    np.testing.assert_array_equal(weight, WEIGHT[OTHER])


def test_bare_numbers_know_no_images_and_ids_must_be_distinct() -> None:
    assert named_weights([1.0, 2.0]) is None
    with pytest.raises(DataError, match="duplicate ids"):
        named_weights(SimpleNamespace(id=["a", "a"], weight=[1.0, 2.0]))
    with pytest.raises(DataError, match="image 'b'"):
        named_weights({"a": 1.0, "b": np.nan})


class _Columns(list):
    """A dataset of rows that also knows its columns by name, as those of Hugging Face do."""

    column_names = ("id", "weight")

    def __getitem__(self, at):
        return [row[at] for row in self] if isinstance(at, str) else super().__getitem__(at)


def test_weights_and_ids_may_be_columns_of_the_dataset() -> None:
    data = _Columns([{"id": "b", "weight": 2.0}, {"id": "a", "weight": 1.0}])
    assert align_to_dataset(data, "weight").tolist() == [2.0, 1.0]
    assert align_to_dataset(data, {"a": 5.0, "b": 7.0}, "id").tolist() == [7.0, 5.0]
    with refused(ConfigError, option="ids", value="ids"):
        align_to_dataset(data, {"a": 5.0, "b": 7.0}, "ids")
    with refused(ConfigError, option="weights", value="w"):
        align_to_dataset([1, 2], "w")
