"""What is outside the pool: distances, and levels that it lacks."""

from __future__ import annotations

import numpy as np

import unskew
from monitored_pools import draw_images, watch_batches
from unskew.monitoring.judgement import LOG10_ALARM
from unskew.monitoring.stream import (
    TARGET_STREAM,
    Reference,
    count_batch,
    make_reference,
    rank_column,
)
from unskew.monitoring.uncovered import distance_limit
from unskew.monitoring.variables import OUTSIDE
from unskew.records import Pool, Target


def test_a_target_far_from_the_pool_is_outside(reference: Reference) -> None:
    rng = np.random.default_rng(3)
    far = draw_images(30, rng, tag="f")
    far["x"] += 40.0
    found = watch_batches(reference, [far], target=True)
    (stream,) = found.streams
    assert stream.kind == "target"
    assert stream.drifted
    assert stream.outside.share == 1.0
    assert stream.outside.low > 0.8
    assert any(one.variable == OUTSIDE and one.log10_peak > LOG10_ALARM for one in stream.variables)


def test_levels_that_the_pool_lacks_are_counted_and_outside() -> None:
    rng = np.random.default_rng(4)
    frame = draw_images(40, rng).assign(label=rng.choice(["cat", "dog"], 80))
    target = Target.margins({"label": {"cat": 0.5, "dog": 0.5}})
    reference = make_reference(Pool(frame), unskew.bias.Strata("label"), target, np.ones(80))
    new = draw_images(10, rng, tag="n").assign(label=["fox"] * 3 + ["cat"] * 17)
    rows = count_batch(reference, None, new, TARGET_STREAM, 0)
    assert rows["outside"].sum() == 3
    # The share of a level without a target mass is not compared.
    assert rows[rank_column("label")].notna().sum() == 17
    found = watch_batches(reference, [new], target=True)
    assert found.streams[0].unseen == (("label", "fox", 3),)


def test_the_limit_is_a_weighted_quantile() -> None:
    distance = np.arange(100.0)
    assert distance_limit(distance, np.ones(100)) == 98.0
    assert distance_limit(distance, (distance == 7).astype(float)) == 7.0
    assert distance_limit(np.zeros(0), np.zeros(0)) is None


def test_what_half_of_the_pool_does_not_cover_is_asked_of_all_of_it() -> None:
    rng = np.random.default_rng(0)
    frame = draw_images(40, rng)
    frame.loc[0, "x"] = 9.0
    pool = Pool(frame)
    reference = make_reference(pool, unskew.bias.Box(["x"]), None, np.ones(80), seed=0)
    # The boxes of the full pool cover each of its own images; nothing covers 50.
    assert not reference.covered.find_outside(frame, {}).any()
    assert reference.covered.find_outside(frame.assign(x=50.0), {}).all()
