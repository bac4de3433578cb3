"""Label shift as a bias model: the shares it finds, and targets that need no estimate."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from unlabelled_targets import class_mass, shifted_world, tilt_alike
from unskew import ConfigError, DataError, Pool, Target
from unskew.bias import Bias, ClassShift, Product, Strata, Tilt

SHARE = [0.2, 0.3, 0.5]


def test_shares_are_found_within_their_errors() -> None:
    pool, target, _ = shifted_world(0, share=SHARE)
    weights = unskew.debias(pool, ClassShift(["x"]), target)
    for name, share in zip(["cat", "dog", "fox"], SHARE, strict=True):
        estimate = weights.mean((pool.frame["label"] == name).to_numpy(dtype=float))
        # Three standard errors: missed once in 370 draws.
        assert abs(estimate.value - share) < 3 * estimate.stderr
        assert 0.005 < estimate.stderr < 0.06
    assert any("label shift" in note for note in weights.describe().notes)


def test_labels_of_the_sample_are_counted() -> None:
    pool, target, counted = shifted_world(2, share=SHARE, labelled=True)
    weights = unskew.debias(pool, ClassShift(["x"]), target)
    np.testing.assert_allclose(class_mass(pool, weights.weight), counted, atol=1e-9)


def test_known_shares_are_taken() -> None:
    pool, _, _ = shifted_world(2, share=SHARE)
    uniform = Target.uniform("label")
    np.testing.assert_array_equal(
        unskew.debias(pool, ClassShift(["x"]), uniform).weight,
        unskew.debias(pool, Strata("label"), uniform).weight,
    )


def test_one_source_is_enough() -> None:
    pool, target, truth = shifted_world(3, share=SHARE, sources=1)
    mass = class_mass(pool, unskew.debias(pool, ClassShift(["x"]), target).weight)
    np.testing.assert_allclose(mass, truth, atol=0.06)  # two standard errors


def test_a_change_of_the_images_is_noticed() -> None:
    pool, target, _ = shifted_world(
        4,
        share=SHARE,
        shift=lambda y: (
            2 * tilt_alike(y)[:, [3, 0]] @ np.array([[1.0, -1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
        ),
    )
    with pytest.warns(unskew.UnskewWarning):
        unskew.debias(pool, ClassShift(["x"]), target)


def test_bad_input_is_named() -> None:
    pool, target, _ = shifted_world(5, share=SHARE)
    bare = Pool(pool.frame.drop(columns="label"))
    with refused(DataError, column="label"):
        unskew.debias(bare, ClassShift(["x"]), target)
    with refused(DataError, levels=["cat"]):
        unskew.debias(Pool(pool.frame.assign(label="cat")), ClassShift(["x"]), target)
    with refused(ConfigError, option="bias", value="Tilt"):
        unskew.debias(pool, Product(ClassShift(["x"]), Tilt(["x_3"])), target)


def test_settings_survive_a_configuration() -> None:
    model = ClassShift(["x"])
    assert Bias.from_dict(model.to_dict()) == model
