"""Columns of any type are shown or named; bins hold every value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of
from unskew.report.summary.columns import bin_codes, round_edges


def test_odd_columns_are_shown_or_named() -> None:
    n = 120
    frame = mixed_frame(n).assign(
        name=[f"file {at}" for at in range(n)],
        empty=None,
        constant=3.5,
        date=pd.date_range("2001-01-01", periods=n, freq="40D"),
        odd=[{"a": 1}] * n,
        holes=np.where(np.arange(n) % 2, np.nan, np.arange(n)),
        infinite=np.where(np.arange(n) == 0, np.inf, np.arange(n) / 7),
        huge=np.geomspace(1e-300, 1e300, n),
        digit=np.arange(n) % 3,
        mixed=[3, "3"] * (n // 2),
    )
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(pool, strata_weights(pool))
    panels = {panel.column: panel for panel in found.distributions}
    assert {each.split(":")[0] for each in found.not_corrected.not_shown} == {
        "name",
        "empty",
        "odd",
    }
    assert panels["holes"].missing == n // 2
    assert panels["infinite"].missing == 1
    assert panels["digit"].levels == ("0", "1", "2")
    assert panels["constant"].levels == ("3.5",)
    assert panels["mixed"].levels == ("3",)
    assert 2000 < panels["date"].edges[0] <= 2001.0
    constant = next(row for row in found.balance if row.column == "constant")
    assert (constant.before, constant.after) == (0.0, 0.0)


def test_any_type_of_column_is_shown_or_named() -> None:
    n = 60
    even = np.arange(n) % 2 == 0
    frame = mixed_frame(n).assign(
        category=pd.Categorical(np.where(even, "a", "b"), categories=["c", "b", "a"]),
        whole=pd.array(np.where(even, None, 7), dtype="Int64"),
        words=pd.array(np.where(even, None, "w"), dtype="string"),
        span=pd.to_timedelta(np.arange(n), unit="h"),
        raw=[b"x"] * n,
        sets=[{"p"} if each else {"p", "q"} for each in even],
        objects=pd.Series([1.5, None] * (n // 2), dtype=object),
    )
    frame[7] = 1.0
    pool = unskew.Pool.from_frame(frame)
    panels = {panel.column: panel for panel in summary_of(pool, strata_weights(pool)).distributions}
    assert panels["category"].count == (30, 30)
    assert panels["whole"].missing == 30
    assert panels["words"].levels == ("w",)
    assert panels["sets"].pool == pytest.approx((1.0, 0.5))
    assert panels["objects"].missing == 30


def test_multi_label_images_count_once_in_each_of_their_classes() -> None:
    n = 90
    frame = mixed_frame(n)
    frame["label"] = [
        ["car", "tree"] if at % 3 == 0 else ["car", "car"] if at % 3 == 1 else [] for at in range(n)
    ]
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0")))
    panel = found.distributions[0]
    assert (panel.column, panel.multiple, panel.levels) == ("label", True, ("car", "tree"))
    assert panel.pool == pytest.approx((2 / 3, 1 / 3))
    assert panel.count == (60, 30)
    assert found.galleries[0].pictures[0].label is not None


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e15, 1e15, allow_subnormal=False), min_size=1, max_size=60),
    st.sampled_from([0, 1, 5]),
)
def test_edges_are_increasing_and_every_value_has_a_bin(values: list[float], beyond: int) -> None:
    value = np.array(values)
    edges = round_edges(value, min(beyond, (value.size - 1) // 2))
    assert len(edges) >= 2
    assert len(edges) <= 60
    assert (np.diff(edges) > 0).all()
    code = bin_codes(value, edges)
    assert code.min() >= 0
    assert code.max() <= len(edges) - 2
    inside = (value >= edges[0]) & (value < edges[-1])
    assert (np.asarray(edges)[code[inside]] <= value[inside]).all()
    assert (value[inside] < np.asarray(edges)[code[inside] + 1]).all()
