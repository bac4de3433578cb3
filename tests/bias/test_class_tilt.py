"""A tilt within classes and their shares at once, from unlabelled images."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from unlabelled_targets import (
    class_mass,
    draw_images,
    make_pool,
    shifted_world,
    tilt_alike,
    tilt_by_class,
)
from unskew import ConfigError, DataError, Pool, Target
from unskew.bias import Bias, ClassTilt, Tilt

SHARE = [0.3, 0.3, 0.4]
POOLED = [0.6, 0.3, 0.1]


def test_shares_and_images_within_classes_are_those_of_the_target() -> None:
    pool, target, truth = shifted_world(0, share=SHARE, shift=tilt_by_class, n=3000)
    weights = unskew.debias(
        pool, ClassTilt(["x"], directions=2, ridge=3.0), target, check_sample=False
    )
    # Shares of 300 images whose labels are hidden: two standard errors.
    np.testing.assert_allclose(class_mass(pool, weights.weight), truth, atol=0.07)
    x_n, label_n = pool.frame["x_3"].to_numpy(), pool.frame["label"].to_numpy()
    for name, mean in (("cat", 1.0), ("dog", -1.0), ("fox", -1.0)):
        own = label_n == name
        # The ridge leaves most of it; a tilt that is the same for all would have one sign.
        assert np.average(x_n[own], weights=weights.weight[own]) == pytest.approx(mean, abs=0.4)


def test_without_directions_all_classes_are_tilted_alike() -> None:
    pool, target, truth = shifted_world(1, share=SHARE, shift=tilt_alike, n=2000)
    model = ClassTilt(["x"], directions=0, ridge=3.0)
    weights = unskew.debias(pool, model, target, check_sample=False)
    np.testing.assert_allclose(class_mass(pool, weights.weight), truth, atol=0.07)
    x_n, label_n = pool.frame["x_3"].to_numpy(), pool.frame["label"].to_numpy()
    means = [
        np.average(x_n[label_n == name], weights=weights.weight[label_n == name])
        for name in ("cat", "dog", "fox")
    ]
    np.testing.assert_allclose(means, 0.8, atol=0.3)


def test_where_nothing_differs_the_images_choose_a_penalty_that_leaves_weights_equal() -> None:
    """What is fitted there is noise; a fixed ridge and free shares leave more of it."""
    moved: dict[float, list[float]] = {0.0: [], 30.0: []}
    for seed in range(3):
        pool, target, _ = shifted_world(seed, share=POOLED, n=600)
        for ridge, mass in moved.items():
            weights = unskew.debias(pool, ClassTilt(["x"], ridge=ridge), target, check_sample=False)
            mass.append(float(np.abs(weights.weight - 1 / 600).sum()) / 2)
    assert np.mean(moved[0.0]) < 0.6 * np.mean(moved[30.0])
    assert np.mean(moved[0.0]) < 0.05


def test_labels_that_the_target_has_are_used() -> None:
    pool, target, truth = shifted_world(2, share=SHARE, shift=tilt_by_class, labelled=True)
    weights = unskew.debias(pool, ClassTilt(["x"]), target, check_sample=False)
    # Shares are free parameters, so that they are matched; the solved normalizers and the ridge,
    # which holds the tilt within classes, leave a little.
    np.testing.assert_allclose(class_mass(pool, weights.weight), truth, atol=0.05)


def test_the_mean_omega_of_an_unlabelled_image_is_over_its_classes() -> None:
    pool, target, _ = shifted_world(3, share=SHARE, n=600)
    fitted = ClassTilt(["x"]).fit(pool, target).factors[0]
    frame = pool.frame.iloc[:5]
    hidden = fitted.log_omega(frame.drop(columns="label"))
    by_class = np.stack([fitted.log_omega(frame.assign(label=name)) for name in ANIMALS], axis=1)
    assert (hidden <= by_class.max(axis=1) + 1e-9).all()
    assert (hidden >= by_class.min(axis=1) - 1e-9).all()
    np.testing.assert_allclose(hidden[:, -1], 0.0, atol=1e-12)  # the target's sample


def test_a_source_may_be_the_reference() -> None:
    rng = np.random.default_rng(4)
    label_n, x_nd = draw_images(rng, 800, [0.6, 0.3, 0.1])
    label_m, x_md = draw_images(rng, 400, SHARE, tilt_by_class)
    pool = make_pool(
        np.vstack([x_nd, x_md]), ["web"] * 800 + ["fair"] * 400, np.concatenate([label_n, label_m])
    )
    weights = unskew.debias(pool, ClassTilt(["x"]), Target.source("fair"))
    truth = np.bincount(label_m) / 400
    np.testing.assert_allclose(class_mass(pool, weights.weight), truth, atol=0.05)


def test_bad_input_is_named() -> None:
    pool, target, _ = shifted_world(5, share=SHARE, n=300)
    with refused(DataError, column="label"):
        unskew.debias(Pool(pool.frame.drop(columns="label")), ClassTilt(["x"]), target)
    with refused(ConfigError, option="reference"):
        ClassTilt(["x"]).fit(pool, Target.uniform("label"))
    with refused(ConfigError, option="ridge"):
        ClassTilt(["x"], ridge=-1)
    with refused(ConfigError, option="directions"):
        ClassTilt(["x"], directions=-1)


def test_settings_survive_a_configuration() -> None:
    for model in (ClassTilt(["x"], components=4, directions=0), Tilt(["x"], components=3)):
        assert Bias.from_dict(model.to_dict()) == model


ANIMALS = ("cat", "dog", "fox")
