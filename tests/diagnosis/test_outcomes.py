"""Which target means are shown, and whether sources agree on them."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from raising import refused
from summary_pools import QUICK, mixed_frame, strata_weights, summary_of
from unskew.diagnosis.pool_diagnostics import diagnose
from unskew.errors import ConfigError


def test_a_share_that_counts_images_without_a_value_says_so() -> None:
    """The panel shows cats among the labelled; the sensitivity is of a mean over all images."""
    frame = mixed_frame()
    frame["label"] = frame["label"].astype(object).where(np.arange(300) % 4 > 0, None)
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))
    )
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))
    row = next(each for each in found.not_corrected.sensitivity if "label = cat" in each.outcome)
    assert row.outcome == "share of label = cat, of all images, those without a value included"
    assert row.value == pytest.approx(weights.weight[(frame["label"] == "cat").to_numpy()].sum())


def test_columns_are_named_numbers_by_their_mean_others_by_their_levels() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    weights = strata_weights(pool)
    diagnostics = diagnose(pool, weights, outcomes=["country", "y", "flag"], **QUICK)
    mean_of = {mean.outcome: mean for mean in diagnostics.outcomes}
    assert list(mean_of) == [
        *(f"share of country = {name}" for name in ("fr", "de", "it")),
        "y",
        "flag",
    ]
    assert mean_of["y"].estimate == weights.mean(pool.frame["y"])
    assert mean_of["flag"].is_share
    assert not mean_of["y"].is_share
    assert all(mean.is_named for mean in diagnostics.outcomes)
    # The same outcomes have their sensitivity bounded.
    assert {row.outcome for row in diagnostics.sensitivity} == set(mean_of)


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    with refused(ConfigError, key="report.outcomes", column="contry"):
        diagnose(pool, strata_weights(pool), outcomes=["contry"], **QUICK)


def test_a_column_with_missing_numbers_has_no_mean_and_says_so() -> None:
    frame = mixed_frame()
    frame.loc[3, "y"] = np.nan
    pool = unskew.Pool.from_frame(frame)
    diagnostics = diagnose(pool, strata_weights(pool), outcomes=["y", "x"], **QUICK)
    assert [mean.outcome for mean in diagnostics.outcomes] == ["x"]
    assert "y has no mean" in diagnostics.outcomes_note
    assert "sources disagree on" in repr(diagnostics)


def test_classes_are_read_by_the_verdict_and_columns_that_moved_are_not() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    tilted = unskew.debias(pool, unskew.bias.Tilt(["x"]), unskew.Target.source("camera 0"))
    by_class = diagnose(pool, tilted, **QUICK).outcomes
    assert {mean.outcome for mean in by_class} == {"share of label = cat", "share of label = dog"}
    assert all(mean.is_named for mean in by_class)
    moved = diagnose(pool, strata_weights(pool), **QUICK).outcomes
    assert moved
    assert not any(mean.is_named for mean in moved)


def test_a_private_report_withholds_outcomes_and_sources_of_few_images() -> None:
    frame = mixed_frame(600)
    rng = np.random.default_rng(1)
    code = np.arange(600) % 3
    sick = rng.random(600) < np.array([0.01, 0.3, 0.5])[code]
    frame["sick"], frame["rare"] = sick.astype(float), (np.arange(600) < 4).astype(float)
    pool = unskew.Pool.from_frame(frame)
    weights = strata_weights(pool)
    asked = {"outcomes": ["sick", "rare", "x"], **QUICK}
    assert {mean.outcome for mean in diagnose(pool, weights, **asked).outcomes} == {
        *("sick", "rare", "x")
    }
    private = diagnose(pool, weights, privacy="aggregate", **asked)
    mean_of = {mean.outcome: mean.estimate for mean in private.outcomes}
    assert set(mean_of) == {"sick", "x"}
    assert "rare" not in {row.outcome for row in private.sensitivity}
    agreement = mean_of["sick"].agreement
    assert agreement is not None
    # Camera 0 has a few, and one more goes with it, so that it cannot be computed from the others.
    assert "camera 0" in agreement.withheld
    assert len(agreement.withheld) == 2
    assert all(np.isnan(agreement.by_source[name].value) for name in agreement.withheld)
    assert all(np.isnan(rest.value) for rest in agreement.without)
    assert mean_of["x"].agreement is not None
    assert mean_of["x"].agreement.withheld == ()


def test_two_private_sources_that_disagree_do_not_show_their_ends() -> None:
    frame = mixed_frame(400, n_sources=2)
    code = np.arange(400) % 2
    frame["sick"] = (np.random.default_rng(2).random(400) < np.array([0.02, 0.5])[code]) * 1.0
    pool = unskew.Pool.from_frame(frame)
    weights = strata_weights(pool)
    (open_mean,) = diagnose(pool, weights, outcomes=["sick"], **QUICK).outcomes
    (mean,) = diagnose(pool, weights, outcomes=["sick"], privacy="aggregate", **QUICK).outcomes
    assert np.isfinite(open_mean.estimate.interval).all()
    assert mean.estimate.sources_disagree
    assert np.isnan(mean.estimate.interval).all()
    assert np.isfinite(mean.estimate.agreed).all()
