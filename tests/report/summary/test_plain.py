"""`report.json` is the summary, finite, valid and bounded, whatever the names."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

import pandas as pd

import unskew
from raising import refused
from summary_pools import ListedImages, jpeg, mixed_frame, summary_of
from unskew.errors import DataError
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.record import Summary


def numbers(value: Any) -> list[float]:
    if is_dataclass(value):
        return [each for one in fields(value) for each in numbers(getattr(value, one.name))]
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in numbers(value[key])]
    if isinstance(value, tuple):
        return [each for one in value for each in numbers(one)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_json_is_the_same_summary_without_nan(summary: Summary) -> None:
    text = summary_to_json(summary)
    assert summary_from_json(text) == summary

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)
    assert all(math.isfinite(each) for each in numbers(summary))
    for bad, facts in (
        ("[]", {"key": "summary"}),
        ('{"title": 3}', {"key": "summary.title"}),
        ("no json", {"line": 1}),
        (text.replace('"ok"', '"fine"', 1), {"key": "summary.verdict.level"}),
        (text.replace('"balance":[', '"balance":[3,', 1), {"key": "summary.balance[0]"}),
    ):
        with refused(DataError, **facts):
            summary_from_json(bad)


def test_an_edited_json_cannot_smuggle_in_an_address(
    pool: unskew.Pool, weights: unskew.Weights
) -> None:
    raw: list[Any] = [jpeg((200, 0, 0))] * len(pool)
    found = summary_of(unskew.Pool(pool.frame, ListedImages(raw)), weights, thumbnails=4)
    text = summary_to_json(found)
    assert text.count("data:image/jpeg;base64,") > 0
    with refused(DataError, key="summary.galleries[0].pictures[0].picture"):
        summary_from_json(text.replace("data:image/jpeg;base64,", "javascript:alert(1)//", 1))


def test_hostile_names_stay_data() -> None:
    evil = "<script>alert('x')</script>\n\x00\"]}"
    frame = mixed_frame(60).rename(columns={"y": f"y{evil}"})
    frame["label"] = frame["label"].replace("cat", evil)
    frame["source"] = frame["source"].astype(str).replace("camera 1", evil)
    # A file name that is no Unicode reaches Python as lone surrogates.
    frame["path"] = pd.Series([f"{path}{evil}\udcff" for path in frame["path"]], dtype=object)
    frame["id"] = frame["id"] + evil
    pool = unskew.Pool.from_frame(frame)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    text = summary_to_json(summary_of(pool, weights, title=evil))
    text.encode("utf-8")
    assert summary_from_json(text).title.startswith("<script>")
    assert "\\u0000" not in text


def test_long_names_are_cut_alike_everywhere_and_stay_apart() -> None:
    frame = mixed_frame(90)
    frame["source"] = frame["source"].astype(str) + "!" * 500
    frame["source"] = frame["source"].map(lambda name: name[8:] + name[:8])
    frame["label"] = "y" * 300 + frame["label"]
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    )
    names = [row.name for row in found.sources]
    assert len(set(names)) == 3
    assert max(map(len, names)) <= 90
    assert set(found.distributions[0].by_source) == set(names)
    assert found.overlap is not None
    assert list(found.overlap.names) == names
    assert len(set(found.distributions[0].levels)) == 2
    assert found.distributions[0].levels == tuple(
        row.level for row in found.balance if row.column == "label"
    )
    assert summary_from_json(summary_to_json(found)) == found
