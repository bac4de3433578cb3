"""Weights of images that were not in the pool: those of their like in it, or a refusal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from two_sources import two_sources
from unskew import Pool, Target
from unskew.bias import Box, Strata, Tilt
from unskew.errors import CoverageError, DataError
from unskew.weigh.new_images import weigh_new_images


def labelled(**options) -> tuple[pd.DataFrame, unskew.Weights]:
    frame = pd.DataFrame(
        {
            "source": ["p"] * 6 + ["q"] * 6,
            "label": ["cat"] * 5 + ["dog"] + ["cat"] * 2 + ["dog"] * 3 + ["fox"],
            "group": np.arange(12) // 2,
        }
    )
    target = Target.margins({"label": {"cat": 0.2, "dog": 0.8, "fox": 0.0}}, **options)
    return frame, unskew.debias(Pool.from_frame(frame), Strata("label"), target)


def test_an_image_of_a_stratum_weighs_what_the_stratum_lacks_and_nothing_without_mass() -> None:
    """12 images, of which 7 cats and 4 dogs: n times the mass over the number."""
    _, weights = labelled()
    found = weigh_new_images(weights, pd.DataFrame({"label": ["dog", "cat", "fox", "dog"]}))
    np.testing.assert_allclose(found, [12 * 0.8 / 4, 12 * 0.2 / 7, 0.0, 12 * 0.8 / 4], rtol=1e-12)


def test_images_of_a_group_share_its_weight_where_the_target_counts_groups() -> None:
    frame, weights = labelled(unit="group")
    alone = weigh_new_images(weights, pd.DataFrame({"label": ["dog"], "group": [1]}))
    three = weigh_new_images(weights, pd.DataFrame({"label": ["dog"] * 3, "group": [1, 1, 2]}))
    np.testing.assert_allclose(three, alone * [0.5, 0.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(weigh_new_images(weights, frame), weights.sample_weight, rtol=1e-12)


def test_a_tilt_gives_new_images_the_form_of_its_model() -> None:
    """ω = (1, e^{θx}): 1/weight is a + b e^{θx}, so its steps at even x grow by one factor."""
    frame = two_sources()
    weights = unskew.debias(Pool.from_frame(frame), Tilt(["x"], reference="p"))
    table = pd.DataFrame({"x": [-1.0, 0.0, 1.0, 2.0]})
    step = np.diff(1 / weigh_new_images(weights, table))
    assert np.all(step > 0)  # q has the larger x, and p is the target
    assert step[1] / step[0] == pytest.approx(step[2] / step[1], rel=1e-9)
    # No image's weight depends on the others of the table, nor on whether it is a pool.
    shuffled = weigh_new_images(weights, table.iloc[[2, 0, 2]])
    np.testing.assert_allclose(shuffled, weigh_new_images(weights, table)[[2, 0, 2]], rtol=1e-12)
    pool = Pool.from_frame(frame)
    np.testing.assert_allclose(
        weigh_new_images(weights, pool), weigh_new_images(weights, frame), rtol=1e-12
    )


def test_images_that_no_source_covers_are_refused_with_the_first_row_and_their_number() -> None:
    z_n = np.concatenate([np.linspace(0.0, 0.7, 50), np.linspace(0.3, 1.0, 50)])
    pool = Pool.from_arrays(np.repeat(["low", "high"], 50), z=z_n)
    weights = unskew.debias(pool, Box(["z"]))
    inside = weigh_new_images(weights, pd.DataFrame({"z": [0.1, 0.5, 0.9]}))
    assert inside[1] < min(inside[0], inside[2])  # two sources cover the middle
    with refused(CoverageError, row=1, count=2):
        weigh_new_images(weights, pd.DataFrame({"z": [0.5, 7.0, 0.2, -3.0]}))


@pytest.mark.parametrize("table", [[1.0, 2.0], np.ones((2, 1)), "images.parquet"])
def test_what_is_no_table_is_refused(table) -> None:
    _, weights = labelled()
    with refused(DataError, option="table"):
        weights.weigh(table)
