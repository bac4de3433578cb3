"""All streams judged together: who drifted, and how the 5% are shared."""

from __future__ import annotations

import numpy as np
import pytest

import unskew
from monitored_pools import draw_images, watch_batches
from unskew.monitoring.judgement import LOG10_ALARM, alarm_shares
from unskew.monitoring.stream import ALL_SOURCES, TARGET_STREAM, Reference, make_reference
from unskew.monitoring.variables import DISTANCE, MEMBERSHIP, OUTSIDE, WEIGHT
from unskew.records import Pool


def test_all_tests_share_the_five_percent(reference: Reference) -> None:
    shares = alarm_shares(reference)
    assert set(shares) == {"a", "b", ALL_SOURCES, TARGET_STREAM}
    assert sum(sum(own.values()) for own in shares.values()) == pytest.approx(1.0)
    assert set(shares["a"]) == {"x", "y", MEMBERSHIP, WEIGHT, DISTANCE}
    assert set(shares[TARGET_STREAM]) == {"x", "y", WEIGHT, DISTANCE, OUTSIDE}


def test_the_source_that_moved_is_named_and_no_other(reference: Reference) -> None:
    rng = np.random.default_rng(2)
    days = [draw_images(30, rng, 1.2 * (day >= 4), f"d{day}-") for day in range(9)]
    found = watch_batches(reference, days)
    drifted = {stream.name: stream for stream in found.streams if stream.drifted}
    assert "b" in drifted
    assert "a" not in drifted
    best = next(one for one in drifted["b"].variables if one.variable == "x")
    assert best.log10_peak >= LOG10_ALARM
    assert best.since == "day 4"
    assert best.change.difference == pytest.approx(1.2, abs=4 * best.change.stderr)
    assert "`b`" in found.headline
    assert "b" in repr(found)


def test_numbers_that_went_missing_are_the_change(reference: Reference) -> None:
    new = draw_images(40, np.random.default_rng(2), tag="new-").assign(x=np.nan)
    found = watch_batches(reference, [new])
    one = next(one for one in found.streams[0].variables if one.variable == "x")
    assert one.change is not None
    assert (one.change.before, one.change.now) == (0.0, 1.0)


@pytest.mark.slow
def test_false_alarms_of_the_wholewatch_batches() -> None:
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng([9, seed])
        pool = Pool(draw_images(40, rng))
        reference = make_reference(
            pool, unskew.bias.Tilt(["x", "y"], reference="a"), None, np.ones(80), seed=seed
        )
        alarms += watch_batches(
            reference, [draw_images(40, rng, tag=f"{k}-") for k in range(8)]
        ).drifted
    # 5% or less: 11 or more of 100 have a probability of 1.1%.
    assert alarms <= 10
