"""New batches against a reference in memory: who drifted, what is outside, what is tested."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew.monitoring.judgement import LOG10_ALARM, alarm_shares, judge_streams, weigh_evidence
from unskew.monitoring.sampled_units import draw_units, known_images
from unskew.monitoring.stream import (
    ALL_SOURCES,
    TARGET_STREAM,
    Reference,
    count_batch,
    make_reference,
    rank_column,
)
from unskew.monitoring.variables import DISTANCE, MEMBERSHIP, OUTSIDE, SIZE, WEIGHT
from unskew.records import Pool, Target


def _images(n: int, rng: np.random.Generator, shift: float = 0.0, tag: str = "old") -> pd.DataFrame:
    """Two sources with two features each; ``shift`` moves those of the second."""
    source = np.repeat(["a", "b"], n)
    is_b = source == "b"
    return pd.DataFrame(
        {
            "id": [f"{tag}{k}" for k in range(2 * n)],
            "source": source,
            "x": rng.normal(size=2 * n) + (0.5 + shift) * is_b,
            "y": rng.normal(size=2 * n),
        }
    )


@pytest.fixture(scope="module")
def reference() -> Reference:
    pool = Pool(_images(200, np.random.default_rng(0)))
    sample = Pool(_images(60, np.random.default_rng(1), tag="target"))
    return make_reference(
        pool, unskew.bias.Tilt(["x", "y"]), Target.sample(sample), np.ones(400), seed=0
    )


def _watch(reference: Reference, batches: list[pd.DataFrame], target: bool = False) -> object:
    seen, evidence = None, []
    for look, frame in enumerate(batches):
        streams = [(TARGET_STREAM, frame)] if target else list(frame.groupby("source"))
        parts = [
            count_batch(reference, seen, part.reset_index(drop=True), str(name), look)
            for name, part in streams
        ]
        seen = pd.concat([*([] if seen is None else [seen]), *parts], ignore_index=True)
        evidence.append(weigh_evidence(reference, seen, look + 1, 0.05)[0])
    looks = [f"day {k}" for k in range(len(batches))]
    return judge_streams(reference, seen, looks, evidence, max_uncovered=0.05, counted=1, known=0)


def test_all_tests_share_the_five_percent(reference: Reference) -> None:
    shares = alarm_shares(reference)
    assert set(shares) == {"a", "b", ALL_SOURCES, TARGET_STREAM}
    assert sum(sum(own.values()) for own in shares.values()) == pytest.approx(1.0)
    assert set(shares["a"]) == {"x", "y", MEMBERSHIP, WEIGHT, DISTANCE}
    assert set(shares[TARGET_STREAM]) == {"x", "y", WEIGHT, DISTANCE, OUTSIDE}


def test_the_source_that_moved_is_named_and_no_other(reference: Reference) -> None:
    rng = np.random.default_rng(2)
    days = [_images(30, rng, 1.2 * (day >= 4), f"d{day}-") for day in range(9)]
    found = _watch(reference, days)
    drifted = {stream.name: stream for stream in found.streams if stream.drifted}
    assert "b" in drifted
    assert "a" not in drifted
    best = next(one for one in drifted["b"].variables if one.variable == "x")
    assert best.log10_peak >= LOG10_ALARM
    assert best.since == "day 4"
    assert best.change.difference == pytest.approx(1.2, abs=4 * best.change.stderr)
    assert "`b`" in found.headline
    assert "b" in repr(found)


def test_scores_rank_among_the_half_that_they_were_not_fitted_on(reference: Reference) -> None:
    values = reference.streams["a"].values
    assert values["x"].size == 200
    assert values[WEIGHT].size == values[MEMBERSHIP].size == 100
    assert reference.streams[TARGET_STREAM].values[DISTANCE].size == 60


def test_a_target_far_from_the_pool_is_outside(reference: Reference) -> None:
    rng = np.random.default_rng(3)
    far = _images(30, rng, tag="f")
    far["x"] += 40.0
    found = _watch(reference, [far], target=True)
    (stream,) = found.streams
    assert stream.kind == "target"
    assert stream.drifted
    assert stream.outside.share == 1.0
    assert stream.outside.low > 0.8
    assert any(one.variable == OUTSIDE and one.log10_peak > LOG10_ALARM for one in stream.variables)


def test_levels_that_the_pool_lacks_are_counted_and_outside() -> None:
    rng = np.random.default_rng(4)
    frame = _images(40, rng).assign(label=rng.choice(["cat", "dog"], 80))
    target = Target.margins({"label": {"cat": 0.5, "dog": 0.5}})
    reference = make_reference(Pool(frame), unskew.bias.Strata("label"), target, np.ones(80))
    new = _images(10, rng, tag="n").assign(label=["fox"] * 3 + ["cat"] * 17)
    rows = count_batch(reference, None, new, TARGET_STREAM, 0)
    assert rows["outside"].sum() == 3
    # The share of a level without a target mass is not compared.
    assert rows[rank_column("label")].notna().sum() == 17
    found = _watch(reference, [new], target=True)
    assert found.streams[0].unseen == (("label", "fox", 3),)


def test_a_group_is_one_unit_and_copies_too() -> None:
    frame = pd.DataFrame(
        {
            "id": range(6),
            "group": ["u", "u", "v", "w", "x", "y"],
            "content": ["1", "2", "3", "3", "4", "5"],
        }
    )
    rows, size = draw_units(frame, np.random.default_rng(0))
    assert sorted(size.tolist()) == [1.0, 1.0, 2.0, 2.0]
    assert len({"u" if row < 2 else "vw" if row < 4 else row for row in rows.tolist()}) == 4


def test_known_images_are_told_by_content_where_there_is_one() -> None:
    old = pd.DataFrame({"id": ["1", "2"], "content": ["c1", "c2"], "group": ["g", "h"]})
    new = pd.DataFrame(
        {"id": ["1", "7", "8"], "content": ["c9", "c2", "c7"], "group": ["k", "k", "g"]}
    )
    is_known, in_group = known_images(old).find(new)
    assert is_known.tolist() == [False, True, False]
    assert in_group.tolist() == [False, False, True]
    assert known_images(old[["id"]]).find(new[["id"]])[0].tolist() == [True, False, False]


def test_sizes_of_groups_are_compared() -> None:
    rng = np.random.default_rng(5)
    frame = _images(60, rng).assign(group=[f"g{k // 2}" for k in range(120)])
    reference = make_reference(Pool(frame), unskew.bias.Box(["x", "y"]), None, np.ones(120))
    assert SIZE in reference.variables
    assert set(reference.streams["a"].values[SIZE]) == {2.0}
    assert reference.streams["a"].units == 30


@pytest.mark.slow
def test_false_alarms_of_the_whole_watch() -> None:
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng([9, seed])
        pool = Pool(_images(40, rng))
        reference = make_reference(
            pool, unskew.bias.Tilt(["x", "y"], reference="a"), None, np.ones(80), seed=seed
        )
        alarms += _watch(reference, [_images(40, rng, tag=f"{k}-") for k in range(8)]).drifted
    # 5% or less: 11 or more of 100 have a probability of 1.1%.
    assert alarms <= 10
