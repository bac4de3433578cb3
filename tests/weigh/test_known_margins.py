"""Known margins and means as a user passes them: read, or refused with what is wrong."""

import numpy as np
import pandas as pd
import pytest

from calibration_tables import CAMERAS, LABELS, table
from raising import refused
from unskew.errors import ConfigError, CoverageError, DataError
from unskew.target.raking import check_coverage, margin_masses
from unskew.weigh.calibrate import calibrate_weights
from unskew.weigh.known_margins import read_margins, read_means

ONE = np.full(3, 1 / 3)


def test_level_without_images_is_named_with_its_mass():
    weight_n, label_n, _, _ = table()
    with refused(CoverageError, column="label", levels=["owl"]):
        calibrate_weights(
            weight_n, by={"label": label_n}, margins={"label": {**LABELS, "cat": 0.4, "owl": 0.1}}
        )
    # Images that exist but weigh nothing do not help.
    with refused(CoverageError, column="label", levels=["cat"]):
        calibrate_weights(
            weight_n * (label_n != "cat"), by={"label": label_n}, margins={"label": LABELS}
        )
    with refused(CoverageError, column="b", levels=["x"]):
        calibrate_weights(
            [1, 1],
            by={"a": ["p", "q"], "b": ["x", "y"]},
            margins={"a": {"p": 0, "q": 1}, "b": {"x": 0.5, "y": 0.5}},
        )


@pytest.mark.parametrize(
    ("masses", "facts"),
    [
        ({"cat": 0.5, "dog": 0.3, "fox": 0.1}, {"value": pytest.approx(0.9)}),
        ({"cat": 0.5, "dog": 0.5}, {"levels": ["fox"]}),
        ({"cat": 1.2, "dog": -0.2, "fox": 0.0}, {"level": "dog", "value": -0.2}),
        ({"cat": np.nan, "dog": 0.5, "fox": 0.5}, {"level": "cat"}),
    ],
)
def test_margins_that_are_no_distribution(masses, facts):
    weight_n, label_n, _, _ = table()
    with refused(DataError, column="label", **facts):
        calibrate_weights(weight_n, by={"label": label_n}, margins={"label": masses})


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_levels_are_never_lumped(missing):
    labels = np.array(["cat", "dog", missing, "dog"], dtype=object)
    with refused(DataError, column="label", row=2, count=1):
        calibrate_weights(
            np.ones(4), by={"label": labels}, margins={"label": {"cat": 0.5, "dog": 0.5}}
        )


def test_pandas_columns_are_levels():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"label": pandas.Categorical(["a", "b", "b"]), "flag": [True, False, True]}
    )
    result = calibrate_weights(
        np.ones(3),
        by={"label": frame["label"], "flag": frame["flag"]},
        margins={"label": {"a": 0.5, "b": 0.5}, "flag": {True: 0.75, False: 0.25}},
    )
    np.testing.assert_allclose(result.weight, [0.5, 0.25, 0.25], atol=1e-12)


def test_pandas_tables_are_read_as_dicts_are():
    pd = pytest.importorskip("pandas")
    weight_n, label_n, camera_n, _ = table()
    by = {"label": label_n, "camera": camera_n}
    plain = calibrate_weights(weight_n, by=by, margins={"label": LABELS, "camera": CAMERAS})
    margins = {"label": pd.Series(LABELS), "camera": pd.Series(CAMERAS)}
    result = calibrate_weights(pd.Series(weight_n), by=pd.DataFrame(by), margins=margins)
    np.testing.assert_array_equal(result.weight, plain.weight)
    assert result.margins == plain.margins
    with refused(DataError, column="label", levels=["cat"]):
        calibrate_weights(
            weight_n,
            by={"label": label_n},
            margins={"label": pd.Series([0.5, 0.3, 0.2], index=["cat", "dog", "cat"])},
        )


def test_a_margin_keeps_the_order_of_its_levels_and_codes_the_images_by_it():
    (margin,) = read_margins({"label": ["b", "a", "b"]}, {"label": {"b": 0.75, "a": 0.25}}, ONE)
    assert (margin.name, margin.levels) == ("label", ("b", "a"))
    assert margin.code_c.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(margin.mass_l, [0.75, 0.25])
    np.testing.assert_allclose(margin_masses(margin, np.array([0.2, 0.3, 0.5])), [0.7, 0.3])


def test_masses_typed_in_with_ten_digits_are_made_to_sum_to_one():
    third = 0.3333333333
    (margin,) = read_margins(
        {"x": ["a", "b", "c"]}, {"x": {"a": third, "b": third, "c": third}}, ONE
    )
    np.testing.assert_allclose(margin.mass_l, 1 / 3, rtol=1e-15)
    with refused(DataError, column="x"):
        read_margins({"x": ["a", "b", "c"]}, {"x": {"a": 0.333, "b": 0.333, "c": 0.333}}, ONE)


def test_attributes_that_only_one_side_names_are_named():
    with refused(ConfigError, columns=["age", "label"]):
        read_margins({"label": ["a", "b", "c"]}, {"age": {"a": 1.0}}, ONE)


def test_mass_needs_an_image_that_weighs_something():
    (margin,) = read_margins({"x": ["a", "b", "b"]}, {"x": {"a": 0.5, "b": 0.5}}, ONE)
    check_coverage(margin, ONE, "nothing is missing")
    with refused(CoverageError, column="x", levels=["a"]):
        check_coverage(margin, np.array([0.0, 0.5, 0.5]), "its image has no weight")


def test_means_are_read_with_the_values_of_all_images():
    (mean,) = read_means({"age": (pd.Series([1, 2, 3]), 2)}, 3)
    assert (mean.name, mean.target) == ("age", 2.0)
    assert mean.value_c.dtype == np.float64
    assert mean.value_c.tolist() == [1.0, 2.0, 3.0]
    with refused(DataError, column="age", value=np.inf):
        read_means({"age": ([1, 2, 3], np.inf)}, 3)
    with refused(DataError, count=3, value=[2]):
        read_means({"age": ([1, 2], 2.0)}, 3)
