"""What new images are compared with."""

from __future__ import annotations

import numpy as np
import pandas as pd

import unskew
from monitored_pools import draw_images
from unskew.monitoring.stream import (
    TARGET_STREAM,
    Reference,
    count_batch,
    make_reference,
    rank_column,
)
from unskew.monitoring.variables import SIZE
from unskew.records import Pool, Target


def test_sizes_of_groups_are_compared() -> None:
    rng = np.random.default_rng(5)
    frame = draw_images(60, rng).assign(group=[f"g{k // 2}" for k in range(120)])
    reference = make_reference(Pool(frame), unskew.bias.Box(["x", "y"]), None, np.ones(120))
    assert SIZE in reference.variables
    assert set(reference.streams["a"].values[SIZE]) == {2.0}
    assert reference.streams["a"].units == 30


def test_the_same_batch_has_the_same_ranks_and_other_looks_have_others(
    reference: Reference,
) -> None:
    new = draw_images(20, np.random.default_rng(1), tag="n")
    part = new[new["source"] == "a"].reset_index(drop=True)
    first, again = (count_batch(reference, None, part, "a", 0) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    later = count_batch(reference, first, part, "a", 1)
    assert not np.array_equal(first[rank_column("x")], later[rank_column("x")])
    assert first["counted"].all()


def test_a_source_that_is_the_target_is_its_reference() -> None:
    frame = draw_images(40, np.random.default_rng(2))
    bias = unskew.bias.Tilt(["x", "y"])
    reference = make_reference(Pool(frame), bias, Target.source("a"), np.ones(80))
    own, target = reference.streams["a"].values, reference.streams[TARGET_STREAM].values
    assert np.array_equal(np.sort(own["x"]), np.sort(frame["x"][:40]))
    assert target["x"] is own["x"]


def test_known_margins_replace_old_images() -> None:
    frame = draw_images(20, np.random.default_rng(3)).assign(label=["cat", "dog"] * 20)
    target = Target.margins({"label": {"cat": 0.9, "dog": 0.1}})
    reference = make_reference(Pool(frame), unskew.bias.Strata("label"), target, np.ones(40))
    stream = reference.streams[TARGET_STREAM]
    assert stream.shares == {"label": {"cat": 0.9, "dog": 0.1}}
    rows = count_batch(reference, None, frame, TARGET_STREAM, 0)
    is_cat = (rows["value label"] == "cat").to_numpy()
    assert (rows[rank_column("label")].to_numpy() <= 0.9 + 1e-12).tolist() == is_cat.tolist()
