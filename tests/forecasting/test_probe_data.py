"""What a probe learns from: features, classes in order, and units that stay together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forecast_worlds import class_world
from raising import refused
from unskew import Pool
from unskew.errors import ConfigError, DataError
from unskew.forecasting.gain import forecast_gain
from unskew.forecasting.probe_data import (
    fitting_scale,
    gather_probe_data,
    read_classes,
)
from unskew.learn.probe import scale_features


def test_columns_of_one_representation_keep_some_of_their_sizes() -> None:
    world = class_world([200, 100], seed=8)
    pool = world.pool.with_columns(
        {"bright": 100 * world.X[:, 0], "site": np.where(world.X[:, 1] > 0, "hill", "dale")}
    )

    def sizes(features: object) -> object:
        return gather_probe_data(pool, features, scaling=None, keep_copies_together=None).X.std(
            axis=0
        )

    rooted = scale_features(world.X, "fourth_root").std(axis=0)
    np.testing.assert_allclose(sizes(["x"]), rooted)  # type: ignore[arg-type]
    np.testing.assert_allclose(sizes(world.X), rooted)  # type: ignore[arg-type]
    # Columns of different kinds count alike; a category is an indicator.
    np.testing.assert_allclose(sizes(["x", "bright", "site"]), np.ones(5))  # type: ignore[arg-type]
    assert forecast_gain(
        pool, world.bias, world.target, features=["bright", "site"], check=False, folds=2
    ).verdict


def test_a_learner_that_is_no_classifier_is_refused() -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    world = class_world([300, 300], seed=6)
    with refused(ConfigError, option="learner", value="LinearRegression"):
        forecast_gain(
            world.pool, world.bias, world.target, features=["x"], learner=LinearRegression()
        )
    with pytest.raises(ConfigError, match=r"not its class: write learner=LogisticRegression\(…\)"):
        forecast_gain(
            world.pool, world.bias, world.target, features=["x"], learner=LogisticRegression
        )


def test_classes_are_ordered_by_value_then_by_name() -> None:
    label = ["10", "9", "fox", "cat", "9", "2.5"] * 3
    classes, code_n = read_classes(Pool.from_arrays(["a"] * 18, label=label))
    assert classes == ("2.5", "9", "10", "cat", "fox")
    assert [classes[code] for code in code_n] == label


@pytest.mark.parametrize(
    ("label", "facts"),
    [
        (["cat"] * 6, {"column": "label", "levels": ["cat"]}),
        (["cat", "dog", None, None, "cat", "dog"], {"column": "label", "count": 2}),
        (list("abcdef"), {"column": "label", "count": 6}),
        ([["cat", "dog"]] * 6, {"column": "label"}),
    ],
)
def test_labels_that_are_no_classes_are_refused(label: Any, facts: dict[str, Any]) -> None:
    frame = Pool.from_arrays(["a"] * 6).frame.assign(label=label)
    with refused(DataError, **facts):
        read_classes(Pool(frame))


def test_units_are_chains_of_groups_and_copies_and_rows_follow_their_ids() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 8))
    X[4] = X[1]
    pool = Pool(
        Pool.from_arrays(
            ["a"] * 6, label=["cat", "dog"] * 3, x=X, group=["g", "g", "h", "i", "j", "k"]
        ).frame.assign(id=list("fbdaec"))
    )
    data = gather_probe_data(pool, ["x"], scaling="none", keep_copies_together=None)
    # Rows 0 and 1 are a group, rows 1 and 4 are copies.
    assert data.n_units == 4
    assert data.unit[0] == data.unit[1] == data.unit[4]
    assert [pool.frame["id"].iloc[row] for row in data.order] == list("abcdef")
    np.testing.assert_allclose(data.X, X - X.mean(axis=0))
    few = gather_probe_data(pool, ["x_0"], scaling="none", keep_copies_together=None)
    assert few.n_units == 5
    part = data.take(np.array([4, 2, 0]))
    np.testing.assert_array_equal(part.X, data.X[[4, 2, 0]])
    assert part.unit[0] == part.unit[2] != part.unit[1]
    assert part.n_units == 2
    # By id: d (row 2), e (row 4), f (row 0).
    assert part.order.tolist() == [1, 0, 2]


def test_the_scale_is_that_of_one_representation_or_of_mixed_columns() -> None:
    pool = Pool.from_arrays(["a"] * 4, e=np.eye(4), size=np.arange(4.0), label=list("xyxy"))
    assert fitting_scale(pool, np.eye(4)) == "fourth_root"
    assert fitting_scale(pool, ["e"]) == fitting_scale(pool, ["e_0", "e_3"]) == "fourth_root"
    assert fitting_scale(pool, ["e", "size"]) == "standard"


def test_whole_numbers_are_read_exactly_and_images_as_rows() -> None:
    pool = Pool.from_arrays(["a"] * 4, label=list("xyxy"))
    pixels = np.arange(4 * 2 * 3 * 3, dtype=np.uint8).reshape(4, 2, 3, 3)
    data = gather_probe_data(pool, pixels, scaling=None, keep_copies_together=None, scaled=False)
    np.testing.assert_array_equal(data.X, pixels.reshape(4, -1))
    assert data.X.dtype == np.float32
    with refused(DataError, option="features", count=4, limit=4):
        gather_probe_data(pool, np.array([["a"]] * 4), scaling=None, keep_copies_together=None)
    pool = pool.with_columns({"flat": ["same"] * 4})
    with refused(DataError, columns=["flat"]):
        gather_probe_data(pool, ["flat"], scaling=None, keep_copies_together=None)
