"""The fit of a bias model: factors in turn, strata by strata, rivals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mixed_sources import MARGIN, MASS, mixed_pool
from raising import refused
from unskew import ConfigError, OverlapError, debias, debias_weights
from unskew.bias import Known, Product, Propensity, Strata, Tilt
from unskew.bias.base import Factor
from unskew.bias.fitting import fit_parts, fit_rival


def test_two_tilts_are_one_and_factors_fitted_in_turn_reach_the_same_maximum():
    pool = mixed_pool(2)
    one = debias(pool, Tilt(["x", "y"], reference="c"))
    merged = Product(Tilt(["x"], reference="c"), Tilt(["y"], reference="c"))
    assert len(merged.parts) == 1
    np.testing.assert_allclose(debias(pool, merged).weight, one.weight, rtol=1e-9)
    in_turn = Product(Tilt(["x"], reference="c"), Tilt(["y"], reference="c", ridge=1e-6))
    assert len(in_turn.parts) == 2
    weights = debias(pool, in_turn)
    np.testing.assert_allclose(weights.weight, one.weight, rtol=1e-3)
    assert weights.mean(pool.frame["y"]).stderr == pytest.approx(
        one.mean(pool.frame["y"]).stderr, rel=1e-3
    )


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_strata_times_known_is_solved_stratum_by_stratum():
    pool = mixed_pool(3)
    omega = np.exp(np.random.default_rng(0).normal(size=(400, 3)))
    weights = debias(pool, Product(Strata("label"), Known(omega)), MARGIN)
    for label, mass in MASS.items():
        at = np.flatnonzero(pool.frame["label"] == label)
        np.testing.assert_allclose(
            weights.weight[at], mass * debias_weights(omega[at], pool.source[at]).weight, rtol=1e-7
        )


def test_factors_of_strata_alone_are_the_shares_of_the_source_over_those_of_the_target():
    """With ω_k = a_k(label): the share of a label in source k is its target mass times a_k."""
    pool = mixed_pool(4)
    fitted = Strata("label").fit(pool, MARGIN)
    label = pool.frame["label"].to_numpy()
    for k, name in enumerate(pool.names):
        own = (pool.frame["source"] == name).to_numpy()
        for cell, (level,) in enumerate(fitted.strata.target.strata):
            share = (label[own] == level).mean()
            assert np.exp(fitted.strata.log_factor[cell, k]) == pytest.approx(share / MASS[level])
    np.testing.assert_allclose(
        fitted.profile.u, np.log(np.bincount(pool.source))[None].repeat(2, 0)
    )


@pytest.mark.parametrize("learn_anew", [False, True])
def test_an_earlier_fit_to_begin_from_changes_nothing(learn_anew):
    pool = mixed_pool(5)
    model = Product(Tilt(["x"], reference="c"), Known({"a": 1.0, "b": 2.0, "c": 3.0}))
    first = model.fit(pool)
    again = fit_parts(model, model.parts, pool, None, start=first, learn_anew=learn_anew)
    assert again.log_likelihood == pytest.approx(first.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(again.log_omega(pool), first.log_omega(pool), atol=1e-7)
    assert again.data.learn_anew == learn_anew


def test_what_is_read_off_is_an_offset_of_what_is_learned():
    """A tilt given the tilt itself finds nothing more."""
    pool = mixed_pool(6)
    tilt = Tilt(["x"], reference="c")
    known = Known(tilt.fit(pool).log_omega(pool), log=True)
    both = Product(known, tilt).fit(pool)
    np.testing.assert_allclose(both.factors[1].log_omega(pool.frame), 0.0, atol=1e-6)
    assert both.log_likelihood == pytest.approx(tilt.fit(pool).log_likelihood, rel=1e-10)


def test_parts_that_cannot_be_fitted_together_are_refused():
    pool = mixed_pool(7)
    with refused(ConfigError, columns=["label", "source"]):
        fit_parts(Strata("label"), [Strata("label"), Strata("source")], pool, MARGIN)
    forest = Propensity(["x"], reference="c", classifier="boosting")
    with refused(ConfigError, option="classifier", value="Propensity"):
        Product(forest, Tilt(["y"], reference="c")).fit(pool)


def test_a_stratum_whose_sources_are_not_linked_is_named():
    pool = mixed_pool(8)
    apart = Known(
        np.where(
            (pool.frame["label"] == "dog").to_numpy()[:, None], np.eye(3)[pool.source], np.ones(3)
        )
    )
    with refused(OverlapError, level="label = dog"):
        Product(Strata("label"), apart).fit(pool, MARGIN)


def test_only_factors_in_doubt_have_a_rival_and_the_others_are_held():
    pool = mixed_pool(9)
    assert fit_rival(Tilt(["x"], reference="c").fit(pool)) is None
    tilt = Product(Tilt(["x"], reference="c"), Known({"a": 1.0, "b": 2.0, "c": 3.0})).fit(pool)
    tilted, known = tilt.factors
    doubtful = replace(tilt, factors=(Doubtful(tilted), known))
    rival = fit_rival(doubtful)
    assert rival.factors == (tilted, known)
    np.testing.assert_allclose(rival.profile.log_omega, tilt.profile.log_omega, rtol=1e-12)
    assert rival.log_likelihood == pytest.approx(tilt.log_likelihood, rel=1e-9)


@dataclass(frozen=True, eq=False)
class Doubtful(Factor):
    """Constant where its rival is another factor."""

    other: Factor

    @property
    def in_doubt(self):
        return True

    def log_omega(self, frame):
        return np.zeros((len(frame), 3))

    def rival(self, data, log_offset_rk):
        # What is held: the known factor alone.
        held_k = [{"a": 1.0, "b": 2.0, "c": 3.0}[name] for name in data.names]
        np.testing.assert_allclose(log_offset_rk, np.log([held_k]).repeat(400, 0))
        return self.other

    def describe(self):
        raise NotImplementedError
