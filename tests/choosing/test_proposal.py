"""Nothing but images: which candidates are proposed, and which is chosen."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from unlabelled_targets import (
    class_mass,
    make_pool,
    no_shift,
    shifted_world,
    tilt_alike,
    tilt_by_class,
)
from unskew import ConfigError, DataError, Pool, Target
from unskew.bias import ClassShift, ClassTilt, Tilt
from unskew.choosing.proposal import propose_candidates

POOLED = [0.6, 0.3, 0.1]
OTHER = [0.2, 0.3, 0.5]


def _choose(pool: Pool, target: Target) -> unskew.choosing.choice.BiasChoice:
    return unskew.choose_bias(pool, target=target, check=False)


class TestChoice:
    def test_label_shift(self) -> None:
        pool, target, truth = shifted_world(0, share=OTHER)
        choice = _choose(pool, target)
        again = unskew.debias(pool, choice.best, target, check_sample=False)
        np.testing.assert_allclose(again.weight, choice.weights.weight, rtol=1e-6)
        assert choice.best == ClassShift(tuple(f"x_{d}" for d in range(6)))
        assert choice.name == "label shift"
        np.testing.assert_allclose(class_mass(pool, choice.weights.weight), truth, atol=0.06)

    @pytest.mark.slow
    def test_a_tilt_of_the_images(self) -> None:
        pool, target, truth = shifted_world(1, share=POOLED, shift=tilt_alike)
        choice = _choose(pool, target)
        assert isinstance(choice.best, Tilt)
        # The tilted number says nothing about the class: the shares stay.
        np.testing.assert_allclose(class_mass(pool, choice.weights.weight), truth, atol=0.06)

    @pytest.mark.slow
    def test_a_tilt_that_depends_on_the_class(self) -> None:
        pool, target, _ = shifted_world(2, share=POOLED, shift=tilt_by_class)
        choice = _choose(pool, target)
        assert isinstance(choice.best, ClassTilt)
        assert choice.best.directions == 1

    def test_both_at_once(self) -> None:
        pool, target, truth = shifted_world(3, share=OTHER, shift=tilt_alike)
        choice = _choose(pool, target)
        assert isinstance(choice.best, ClassTilt)
        np.testing.assert_allclose(class_mass(pool, choice.weights.weight), truth, atol=0.08)

    def test_nothing_to_correct(self) -> None:
        pool, target, _ = shifted_world(4, share=POOLED, shift=no_shift)
        assert _choose(pool, target).name == "naive pooling"


class TestProposal:
    def test_without_labels_only_tilts(self) -> None:
        pool, target, _ = shifted_world(7, share=OTHER)
        models = propose_candidates(Pool(pool.frame.drop(columns="label")), target)
        assert models
        assert all(isinstance(model, Tilt) for model in models.values())

    def test_numbers_as_labels_are_no_classes(self) -> None:
        pool, target, _ = shifted_world(7, share=OTHER)
        ages = Pool(pool.frame.assign(label=np.linspace(0, 90, len(pool))))
        assert all(isinstance(model, Tilt) for model in propose_candidates(ages, target).values())

    def test_many_columns_become_few_components(self) -> None:
        rng = np.random.default_rng(8)
        pool = make_pool(rng.normal(size=(400, 60)), ["a"] * 400, rng.integers(3, size=400))
        sample = make_pool(rng.normal(size=(100, 60)), ["t"] * 100)
        tilts = [
            model
            for model in propose_candidates(pool, Target.sample(sample)).values()
            if isinstance(model, Tilt)
        ]
        assert [model.components for model in tilts] == [2, 30]

    def test_nothing_says_what_the_target_looks_like(self) -> None:
        pool, target, _ = shifted_world(9, share=OTHER)
        for unknown in (None, Target.uniform("label")):
            with refused(ConfigError, option="candidates"):
                unskew.choose_bias(pool, target=unknown)
        with refused(DataError):
            unskew.choose_bias(Pool(pool.frame[["id", "source", "label"]]), target=target)

    def test_a_class_that_the_pool_lacks_goes_unnoticed_by_name(self) -> None:
        """Nothing knows of it; the shares are those of the classes that there are."""
        pool, target, _ = shifted_world(10, share=OTHER)
        rest = Pool(pool.frame[pool.frame["label"] != "fox"].reset_index(drop=True))
        choice = _choose(rest, target)
        assert choice.best is None or np.isfinite(choice.weights.weight).all()
