"""`SoftBox` on what users have: timestamps, useless features, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unskew
from raising import refused
from simulations import make_pool
from soft_boxes import two_sides
from unskew import Pool, debias
from unskew.bias import SoftBox
from unskew.bias.base import BiasData
from unskew.bias.soft_box.fit import fit_soft_boxes, widen_soft_boxes
from unskew.errors import ConfigError, UnskewWarning


def test_features_far_from_0_change_nothing() -> None:
    """Seconds since 1970: the rounding of the edges is far larger than the last bits of the
    width.
    """
    z_n, source_n = two_sides(2000)
    near, far = (
        debias(
            Pool.from_arrays(np.array(["a", "b"])[source_n], time=10.0 * z_n + shift),
            SoftBox(["time"]),
        )
        for shift in (0.0, 1.7e9)
    )
    np.testing.assert_allclose(far.weight, near.weight, rtol=1e-4)
    edges = {
        key: value
        for box in far.describe().parameters["boxes"].values()
        for key, value in box.items()
    }
    assert all(not np.isfinite(edge) or abs(edge - 1.7e9) < 100 for edge in edges["time"])
    assert far.mean(z_n).stderr == pytest.approx(near.mean(z_n).stderr, rel=1e-3)


def test_useless_features_are_named() -> None:
    z_n, source_n = two_sides(300)
    frame = pd.DataFrame(
        {"source": np.array(["a", "b"])[source_n], "z": z_n, "k": 1.0, "copy": 5.0 - 2.0 * z_n}
    )
    with pytest.warns(UnskewWarning) as caught:
        notes = debias(Pool.from_frame(frame), SoftBox(["z", "k", "copy"])).describe().notes
    assert any("k is constant" in note for note in notes)
    assert any("copy repeats z" in note for note in notes)
    assert all(
        any(said in str(each.message) for each in caught)
        for said in ("k is constant", "copy repeats z")
    )
    with pytest.warns(UnskewWarning) as caught:
        said = debias(Pool.from_frame(frame), SoftBox(["k"])).describe().estimated[0]
    assert "cannot tell such a mechanism from none (p = 1" in said
    assert ["k is constant" in str(each.message) for each in caught] == [True]


def test_a_difference_that_is_not_worth_boxes_is_not_said_to_be_none() -> None:
    """The test rejects, Schwarz's rule does not pay: another reason than that nothing can be
    told.
    """
    rng = np.random.default_rng(0)
    z_nd = rng.normal(size=(1500, 2))
    source_n = rng.integers(0, 3, 1500)
    z_nd[source_n == 1, 0] += 0.12
    weights = debias(
        Pool.from_arrays(np.array(list("abc"))[source_n], x=z_nd[:, 0], y=z_nd[:, 1]),
        SoftBox(["x", "y"]),
    )
    said = weights.describe().estimated[0]
    assert "the sources do differ (p = 0.0" in said
    assert "all images count alike" in said


def test_a_constant_that_the_test_does_not_reject_is_taken_for_known() -> None:
    rng = np.random.default_rng(3)
    feature, source = rng.normal(size=(300, 2)), np.repeat([0, 1, 2], 100)
    fit = fit_soft_boxes(feature, source, 3)
    assert fit.p_value is not None
    assert fit.p_value > 0.05
    assert fit.rejected is None
    assert widen_soft_boxes(feature, source, 3, fit) is None
    weights = unskew.debias(
        make_pool(source, x=feature[:, 0], z=feature[:, 1]), SoftBox(["x", "z"])
    )
    assert weights.estimation is not None
    assert weights.estimation.omega_is_known


def soft_data(**columns: object) -> BiasData:
    z_n, source_n = two_sides(300)
    frame = pd.DataFrame({"z": z_n, **columns})
    nothing = np.zeros(600, dtype=np.int64)
    return BiasData(frame, source_n, ("a", "b"), 600, None, None, nothing, 1, np.arange(600))


def test_omega_is_that_of_the_boxes_it_tells_of() -> None:
    """1 − ℓ1 distance/γ, in standard deviations, from nothing but the description."""
    data = soft_data()
    factor = SoftBox(["z"], standardise=True).estimate(data, np.zeros((600, 2)))
    told = factor.describe().parameters
    z = data.frame["z"].to_numpy()
    for k, name in enumerate("ab"):
        low, high = told["boxes"][name]["z"]
        distance = (np.maximum(low - z, 0) + np.maximum(z - high, 0)) / z.std()
        np.testing.assert_allclose(
            np.exp(factor.log_omega(data.frame))[:, k],
            np.maximum(1 - distance / told["width"], 0),
            atol=1e-9,
        )
    assert (
        factor.n_parameters
        == factor.jacobian(data.frame).shape[2]
        == 1 + sum(np.isfinite(edge) for box in told["boxes"].values() for edge in box["z"])
    )
    assert factor.in_doubt


def test_a_fit_that_is_continued_keeps_its_scale_and_is_not_tested_again() -> None:
    data = soft_data()
    model = SoftBox(["z"], standardise=True)
    first = model.estimate(data, np.zeros((600, 2)))
    again = model.estimate(replace(data, frame=data.frame * 1.01), np.zeros((600, 2)), first)
    assert first.fit.p_value is not None
    assert again.fit.p_value is None
    np.testing.assert_array_equal(again.scale, first.scale)
    flat = replace(first, fit=replace(first.fit, is_constant=True))
    assert model.estimate(data, np.zeros((600, 2)), flat) is flat
    assert flat.n_parameters == 0
    np.testing.assert_array_equal(flat.log_omega(data.frame), np.zeros((600, 2)))


def test_features_that_are_no_numbers_are_refused_and_unequal_units_noted() -> None:
    with refused(ConfigError, option="features", columns=["kind"]):
        SoftBox(["z", "kind"]).estimate(soft_data(kind=["x", "y"] * 300), np.zeros((600, 2)))
    large = np.random.default_rng(0).normal(0, 100, 600)
    notes = [
        SoftBox(["z", "w"], standardise=standardise)
        .estimate(soft_data(w=large), np.zeros((600, 2)))
        .notes
        for standardise in (False, True)
    ]
    assert [any("standardise=True" in note for note in each) for each in notes] == [True, False]
