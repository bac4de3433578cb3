"""The summary says what the records say: sums, closed forms, and no change with the order of the
rows.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from summary_pools import mixed_frame, strata_weights, summary_of
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


def test_totals(pool: unskew.Pool, summary: Summary) -> None:
    n = len(pool)
    assert summary.weights is not None
    assert sum(row.images or 0 for row in summary.sources) == n
    assert sum(row.share or 0 for row in summary.sources) == pytest.approx(1, abs=1e-9)
    assert sum(row.weight_share or 0 for row in summary.sources) == pytest.approx(1, abs=1e-9)
    assert sum(row.pool or 0 for row in summary.strata) == pytest.approx(1, abs=1e-9)
    assert sum(row.target or 0 for row in summary.strata) == pytest.approx(1, abs=1e-9)
    assert (
        sum(count or 0 for count in summary.weights.histogram.count)
        + (summary.weights.zero_weights or 0)
        == n
    )
    by_source = np.sum([list(each) for each in summary.weights.histogram.by.values()], axis=0)
    assert by_source.tolist() == list(summary.weights.histogram.count)
    assert {panel.column for panel in summary.distributions} == {
        "label",
        "x",
        "y",
        "country",
        "flag",
    }
    for panel in summary.distributions:
        for shares in (panel.pool, panel.weighted, *panel.by_source.values()):
            assert sum(each or 0 for each in shares) == pytest.approx(1, abs=1e-8)
        assert sum(count or 0 for count in panel.count) + (panel.missing or 0) == n
        assert len(panel.pool) == max(len(panel.levels), len(panel.edges) - 1)


def test_numbers_are_those_of_the_records(
    pool: unskew.Pool, weights: unskew.Weights, summary: Summary
) -> None:
    diagnosis = weights.diagnosis
    assert summary.weights is not None
    assert summary.weights.ess == pytest.approx(weights.ess, rel=1e-9)
    assert summary.weights.ess_groups == pytest.approx(weights.ess_groups, rel=1e-9)
    assert summary.weights.largest_sample_weight == pytest.approx(
        diagnosis.largest_sample_weight, rel=1e-9
    )
    for row, each in zip(summary.sources, diagnosis.by_source, strict=True):
        assert (row.name, row.images, row.groups) == (each.name, each.images, each.groups)
        assert (row.ess, row.weight_share) == (
            pytest.approx(each.ess, rel=1e-9),
            pytest.approx(each.weight_share, rel=1e-9),
        )
    assert [row.stderr for row in summary.sources] == [0.0] * 3  # known normalizers
    y = next(row for row in summary.balance if row.column == "y")
    assert y.weighted == pytest.approx(weights.mean(pool.frame["y"]).value, rel=1e-9)
    assert y.after == pytest.approx((y.weighted - y.pool) / pool.frame["y"].std(ddof=0), rel=1e-6)
    for row in summary.not_corrected.sensitivity:
        assert row.low is not None
        assert row.high is not None
        assert row.value is not None
        assert row.low <= row.value <= row.high
    overlap = summary.overlap
    assert overlap is not None
    assert np.array(overlap.link_count).tolist() == np.asarray(weights.overlap.link_count).tolist()


def test_the_order_of_the_rows_changes_nothing(pool: unskew.Pool, summary: Summary) -> None:
    shuffled = pool.take(np.random.default_rng(5).permutation(len(pool)))
    again = summary_of(shuffled, strata_weights(shuffled))
    assert numbers(again) == pytest.approx(numbers(summary), rel=1e-8, abs=1e-12)
    assert [row.stratum for row in again.strata] == [row.stratum for row in summary.strata]
    assert [[picture.id for picture in each.pictures] for each in again.galleries] == [
        [picture.id for picture in each.pictures] for each in summary.galleries
    ]


@pytest.mark.parametrize(
    ("bias", "target"),
    [
        (unskew.bias.Tilt(["x"]), "sample"),
        (unskew.bias.Tilt(["x", "country"], reference="camera 0"), None),
        (unskew.bias.SoftBox(["x"]), None),
        (unskew.bias.Box(["x", "y"]), None),
        (
            unskew.bias.Product(
                unskew.bias.Strata("label"), unskew.bias.Tilt(["x"], reference="camera 0")
            ),
            "margins",
        ),
        (unskew.bias.Strata(["label", "country"]), "uniform"),
        (unskew.bias.Strata("label"), "sample"),
        (unskew.bias.Known({f"camera {k}": "w" for k in range(3)}), None),
        (unskew.bias.Propensity(["x"]), "source"),
    ],
    ids=[
        "tilt",
        "tilt reference",
        "soft box",
        "box",
        "product",
        "joint strata",
        "strata sample",
        "known",
        "propensity source",
    ],
)
def test_every_family_has_a_page(bias: Any, target: str | None) -> None:
    frame = mixed_frame(240).assign(w=1.0 + np.linspace(0, 1, 240))
    pool = unskew.Pool.from_frame(frame)
    sample = unskew.Pool.from_frame(mixed_frame(60, 1, seed=1).assign(w=1.0))
    given_target = {
        "sample": unskew.Target.sample(sample),
        "margins": unskew.Target.margins({"label": {"cat": 0.3, "dog": 0.7}}),
        "uniform": unskew.Target.uniform(["label", "country"]),
        "source": unskew.Target.source("camera 1"),
        None: None,
    }[target]
    weights = unskew.debias(pool, bias, given_target)
    for privacy in ("full", "aggregate"):
        found = summary_of(pool, weights, privacy=privacy)
        assert summary_from_json(summary_to_json(found)) == found
        assert found.verdict.level in ("ok", "weak")
        assert found.verdict.next_steps
        assert found.bias is not None
        assert found.bias.assumed
    full = summary_of(pool, weights)
    assert full.bias is not None
    if target == "sample":
        # What is known of the sample stands beside the columns: the mean of x, and the classes.
        row = next(row for row in full.balance if row.column == "x")
        assert row.target == pytest.approx(sample.frame["x"].mean(), rel=1e-9)
        assert full.distributions[0].target == pytest.approx(
            [(sample.frame["label"] == level).mean() for level in full.distributions[0].levels],
            rel=1e-9,
        )
    if not isinstance(bias, unskew.bias.Known):
        assert full.bias.curves
        for curve in full.bias.curves:
            assert set(curve.omega) == set(pool.names)
            for omega in curve.omega.values():
                assert len(omega) == max(len(curve.at), len(curve.levels))
                assert max(each or 0.0 for each in omega) == pytest.approx(1.0)


def test_one_source_and_fifty() -> None:
    one = unskew.Pool.from_frame(mixed_frame(60, 1))
    alone = summary_of(
        one, unskew.debias_weights(1 + np.arange(60.0)[:, None] / 60, ["camera 0"] * 60)
    )
    assert len(alone.sources) == 1
    assert alone.overlap is not None
    assert alone.overlap.weakest_link is None
    many = unskew.Pool.from_frame(mixed_frame(1000, 50))
    found = summary_of(many, strata_weights(many))
    assert len(found.sources) == 50
    assert found.overlap is not None
    assert len(found.overlap.names) == 50
    assert sum(len(each.pictures) for each in found.galleries) <= 120
    assert len(summary_to_json(found)) < 500_000


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_whatever_the_size_the_summary_stays_small() -> None:
    """Hundreds of sources and strata, long names, many columns."""
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame({f"column {d}": rng.normal(size=n) for d in range(60)})
    frame = frame.assign(
        source=[f"source {at} {'long' * 100}" for at in rng.integers(0, 520, n)],
        label=[f"class {at} {'wide' * 100}" for at in rng.integers(0, 900, n)],
        id=np.arange(n),
    )
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    )
    assert len(summary_to_json(found)) < 3_500_000
    assert len(found.strata) <= 500
    assert len(found.sources) <= 500
    assert found.overlap is not None
    assert len(found.overlap.names) == 60
    assert len(found.distributions) <= 40
    assert {"strata", "sources", "overlap", "distributions"} <= set(found.notes)
