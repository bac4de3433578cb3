"""What a model is trained on: checked, scaled, fingerprinted, handed to other processes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from raising import refused
from unskew.errors import ConfigError, DataError
from unskew.learn import TrainingData
from unskew.learn.probe import scale_features
from unskew.learn.training_data import measure_scale

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (10, 4, 5, 3), dtype=np.uint8)
IDS = np.array([f"{i}.png" for i in range(10)])


def _data(**changes) -> TrainingData:
    parts = {
        "X": X,
        "label": np.arange(10) % 3,
        "classes": ("a", "b", "c"),
        "weight": np.arange(10.0),
        "id": IDS,
    }
    return TrainingData(**{**parts, **changes})


FEATURES = RNG.normal(size=(10, 6)).astype(np.float32)
GAPS = FEATURES.copy()
GAPS[4, 2] = np.nan


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight": np.zeros(10)}, "all 10 weights are zero"),
        ({"weight": np.array([1.0] * 9 + [np.nan])}, "finite and not negative"),
        ({"weight": np.array([1.0] * 9 + [-1.0])}, "finite and not negative"),
        ({"weight": np.ones(9)}, "X 10, label 10, weight 9, id 10"),
        ({"id": IDS[:3]}, "id 3"),
        ({"group": np.arange(4)}, "group 4"),
        ({"judge_weight": np.zeros(10)}, "all 10 weights are zero"),
        ({"label": np.zeros((10, 1), dtype=int)}, "one entry for each image"),
        ({"X": X[..., 0]}, "three equal channels"),
    ],
)
def test_weights_and_rows_that_cannot_be_used(changes: dict, words: str) -> None:
    with pytest.raises(DataError) as caught:
        _data(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"label": np.arange(10)}, {"id": "3.png", "value": 3, "count": 7}),
        ({"label": np.arange(10) - 1}, {"id": "0.png", "value": -1}),
        ({"label": np.arange(10.0) % 3}, {"option": "label", "value": "float64"}),
        ({"classes": ("a", "a", "b")}, {"levels": ["a", "a", "b"]}),
        ({"classes": ("a",), "label": np.zeros(10, dtype=int)}, {"levels": ["a"]}),
        ({"X": X.astype(np.float32)}, {"option": "X", "value": [*X.shape, "float32"]}),
        ({"X": FEATURES.astype(np.float64)}, {"value": [*FEATURES.shape, "float64"]}),
        ({"X": GAPS}, {"id": "4.png"}),
    ],
)
def test_what_cannot_be_learned_from(changes: dict, facts: dict) -> None:
    with refused(DataError, **facts):
        _data(**changes)


def test_validation_must_be_alike() -> None:
    with refused(DataError, levels=["a", "c", "b"], allowed=["a", "b", "c"]):
        _data(validation=_data(classes=("a", "c", "b")))
    with refused(DataError, option="X", value=list(FEATURES.shape[1:])):
        _data(validation=_data(X=FEATURES))
    with refused(ConfigError, option="validation"):
        _data(validation=_data(validation=_data()))


def test_rows_of_weight_zero_go_and_the_rest_has_mean_one() -> None:
    kept = _data(validation=_data()).without_zeros()
    assert len(kept) == len(kept.validation) == 9
    np.testing.assert_array_equal(kept.X, X[1:])
    np.testing.assert_allclose(kept.weight, np.arange(1, 10) / 5)
    assert kept.id[0] == "1.png"


def test_huge_weights_do_not_overflow() -> None:
    kept = _data(weight=np.full(10, 1e308)).without_zeros()
    np.testing.assert_array_equal(kept.weight, 1)


def test_images_are_scaled_by_the_weighted_mean_and_deviation_of_their_channels() -> None:
    data = _data()
    mean, divisor = measure_scale(data, "standard")
    repeated = np.repeat(X, np.arange(10), axis=0).reshape(-1, 3).astype(float)
    np.testing.assert_allclose(mean, repeated.mean(0), rtol=1e-6)
    np.testing.assert_allclose(divisor, repeated.std(0), rtol=1e-6)


@pytest.mark.parametrize("scaling", ["standard", "fourth_root", "none"])
def test_features_are_scaled_as_the_probe_scales_them_with_weights_as_repeats(scaling) -> None:
    features = FEATURES.copy()
    features[:, 3] = 2.5
    mean, divisor = measure_scale(_data(X=features), scaling)
    repeated = np.repeat(features, np.arange(10), axis=0)
    np.testing.assert_allclose(
        (repeated - mean) / divisor, scale_features(repeated, scaling), atol=1e-5
    )


def test_the_fingerprint_says_which_part_differs() -> None:
    data = _data(validation=_data())
    other_X, other_label = X.copy(), np.arange(10)[::-1] % 3
    other_X[9, 3, 4, 2] ^= 1
    changes = {
        "images": {"X": other_X},
        "labels": {"label": other_label},
        "weights": {"weight": np.arange(10.0) ** 2},
        "ids": {"id": IDS[::-1]},
        "validation images": {"validation": _data(X=other_X)},
    }
    before = data.fingerprint()
    for part, change in changes.items():
        after = replace(data, **change).fingerprint()
        assert [name for name in before if before[name] != after[name]] == [part]
    assert _data().fingerprint() == _data().fingerprint()


def test_a_memmap_goes_to_another_process_as_the_place_of_its_file(tmp_path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((5000, 4, 5, 3), dtype=np.uint8))
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r+")
    mapped[:10] = X
    mapped.flush()
    data = TrainingData(
        mapped, np.zeros(5000, dtype=int), ("a", "b"), np.ones(5000), np.zeros(5000, dtype="U1")
    )
    packed = pickle.dumps(data)
    assert len(packed) < mapped.nbytes / 2
    again = pickle.loads(packed)
    np.testing.assert_array_equal(again.X[:10], X)
    assert again.fingerprint() == data.fingerprint()
    # Rows without weight are not copied out of the map to leave them out.
    picked = replace(data, weight=np.arange(5000) % 2 + 0.0).without_zeros()
    assert len(pickle.dumps(picked)) < mapped.nbytes / 2
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(picked)).X[:5], X[1::2])
    assert (
        picked.fingerprint()["images"]
        == replace(data, X=np.array(mapped), weight=data.label * 0.0 + np.arange(5000) % 2)
        .without_zeros()
        .fingerprint()["images"]
    )
    # A slice does not know its place, and goes as it is.
    part = replace(
        data, X=mapped[5:10], label=data.label[:5], weight=data.weight[:5], id=data.id[:5]
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part)).X, X[5:])


def test_rows_that_only_judge_are_kept_and_groups_go_with_their_rows(tmp_path) -> None:
    mapped = np.memmap(tmp_path / "x", dtype=np.uint8, mode="w+", shape=X.shape)
    mapped[:] = X
    judge = np.where(np.arange(10) == 1, 0.0, 1.0)
    weight = np.where(np.arange(10) < 3, 0.0, 2.0)
    data = _data(X=mapped, weight=weight, judge_weight=judge, group=np.arange(10) // 2)
    kept = data.without_zeros()
    assert kept.id.tolist() == [IDS[0], *IDS[2:]]
    assert kept.group.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert kept.weight.mean() == pytest.approx(1.0)
    some = kept.take(np.array([0, 2, 8]))
    assert np.array_equal(some.X[np.arange(3)], X[[0, 3, 9]])
    assert some.judge_weight.tolist() == [1.0, 1.0, 1.0]
    assert {"groups", "judging weights"} <= set(kept.fingerprint())
    assert replace(kept, group=None).fingerprint() != kept.fingerprint()
    assert replace(data, judge_weight=None).without_zeros().id.tolist() == IDS[3:].tolist()
