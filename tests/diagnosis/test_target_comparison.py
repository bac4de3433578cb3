"""Targets compared for the page: verdicts, and what a private report withholds."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from unskew import Pool, Target, diagnose
from unskew.bias import Strata
from unskew.diagnosis.target_comparison import compare_targets, refused_targets

TARGETS = {
    "city": Target.margins({"label": {"cat": 0.8, "dog": 0.2}}),
    "farm": Target.margins({"label": {"cat": 0.4, "dog": 0.6}}),
}


def make_pool(dogs: int) -> Pool:
    """200 images, ``dogs`` of them of the rarer label, with a number that goes with the label."""
    rng = np.random.default_rng(0)
    label = np.where(np.arange(200) < dogs, "dog", "cat")
    return Pool.from_arrays(np.tile(["a", "b"], 100), label=label, z=rng.normal(label == "cat"))


def compare(pool: Pool, privacy: str):
    weights = unskew.debias_targets(pool, Strata("label"), TARGETS).weights
    diagnostics = diagnose(pool, weights["city"], outcomes=["z"], replicates=0, privacy=privacy)
    return weights, compare_targets(pool, weights, diagnostics, outcomes=["z"], privacy=privacy)


@pytest.mark.parametrize("privacy", ["full", "aggregate"])
def test_means_and_sizes_are_those_of_the_weights(privacy: str) -> None:
    pool = make_pool(dogs=80)
    weights, panel = compare(pool, privacy)
    (outcome,) = panel.outcomes
    for mean in outcome.means:
        # The panel has ten digits.
        by_hand = float(weights[mean.name].weight @ pool.frame["z"])
        assert mean.value == pytest.approx(by_hand, rel=1e-8)
    assert outcome.difference == pytest.approx(
        outcome.means[0].value - outcome.means[1].value, rel=1e-6
    )
    assert outcome.hangs
    digits = 10 if privacy == "full" else 2
    for row in panel.rows:
        assert row.ess == float(f"{weights[row.name].ess:.{digits - 1}e}")
        assert row.uncovered == 0.0
    assert panel.distances == (("city", "farm", pytest.approx(0.4)),)


def test_means_that_would_tell_a_small_stratum_are_withheld() -> None:
    assert compare(make_pool(dogs=6), "full")[1].outcomes
    assert not compare(make_pool(dogs=6), "aggregate")[1].outcomes


def test_a_refusal_shows_the_others_too() -> None:
    weights = unskew.debias_targets(make_pool(dogs=80), Strata("label"), TARGETS).weights
    targets = {"fog": Target.uniform("label"), **TARGETS}
    panel = refused_targets(targets, weights, {"fog": "no image of it"})
    assert [row.level for row in panel.rows] == ["no", "ok", "ok"]
    assert panel.rows[0].is_main
    assert "no image of it" in panel.rows[0].message
