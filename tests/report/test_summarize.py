"""The summary says what the records say: sums, closed forms, and no change with the order of the
rows.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from summary_pools import (
    ListedImages,
    broken_image,
    jpeg,
    mixed_frame,
    strata_weights,
    summary_of,
)
from unskew.diagnosis.error_bars import affordable_bootstrap_replicates
from unskew.diagnosis.model_fit import affordable_fit_replicates
from unskew.errors import ConfigError, DataError
from unskew.report.summary.columns import bin_codes, round_edges
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.record import SplitRow, Summary


def numbers(value: Any) -> list[float]:
    if is_dataclass(value):
        return [each for one in fields(value) for each in numbers(getattr(value, one.name))]
    if isinstance(value, dict):
        return [each for key in sorted(value) for each in numbers(value[key])]
    if isinstance(value, tuple):
        return [each for one in value for each in numbers(one)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.fixture(scope="module")
def pool() -> unskew.Pool:
    return unskew.Pool.from_frame(mixed_frame(groups=True))


@pytest.fixture(scope="module")
def weights(pool: unskew.Pool) -> unskew.Weights:
    return strata_weights(pool)


@pytest.fixture(scope="module")
def summary(pool: unskew.Pool, weights: unskew.Weights) -> Summary:
    return summary_of(pool, weights)


def test_weighted_shares_of_strata_are_the_target(summary: Summary) -> None:
    by_name = {row.stratum: row for row in summary.strata}
    assert by_name["label = cat"].weighted == pytest.approx(0.3, abs=1e-9)
    assert by_name["label = dog"].weighted == pytest.approx(0.7, abs=1e-9)
    assert [row.target for row in summary.strata] == [0.7, 0.3]
    label = summary.distributions[0]
    assert label.column == "label"
    assert label.target is not None
    assert label.weighted == pytest.approx(label.target, abs=1e-9)
    after = [row.after for row in summary.balance if row.column == "label"]
    assert after == pytest.approx([0.0, 0.0], abs=1e-9)


def test_a_stratum_row_by_hand(
    pool: unskew.Pool, weights: unskew.Weights, summary: Summary
) -> None:
    cat = (pool.frame["label"] == "cat").to_numpy()
    row = next(row for row in summary.strata if row.stratum == "label = cat")
    assert row.images == cat.sum()
    assert row.groups == pool.frame.loc[cat, "group"].nunique()
    assert row.pool == pytest.approx(cat.mean(), rel=1e-9)
    assert row.sources == pool.names
    # Equal weights within a stratum: every image counts fully.
    assert row.ess == pytest.approx(cat.sum(), rel=1e-9)
    assert row.largest_weight == pytest.approx(0.3 / cat.mean(), rel=1e-9)


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


def test_fitted_columns_stand_apart_from_the_others(summary: Summary) -> None:
    assert {row.column for row in summary.balance if row.fitted} == {"label"}
    assert {row.column for row in summary.not_corrected.columns} == {"x", "y", "country", "flag"}
    assert all(row.target is None and row.before == 0.0 for row in summary.not_corrected.columns)


def test_both_error_bars_are_those_of_the_weights() -> None:
    frame = mixed_frame(150)
    pool = unskew.Pool.from_frame(frame)
    omega = np.column_stack([np.exp(-0.5 * (frame["x"] - 0.4 * k) ** 2) for k in range(3)])
    weights = unskew.debias_weights(
        omega, frame["source"].astype(str), names=pool.names, id=frame["id"]
    )
    found = summary_of(pool, weights, replicates=30, seed=3)
    assert [row.stderr for row in found.sources] == pytest.approx(
        np.sqrt(np.diagonal(weights.covariance())), rel=1e-9
    )
    assert [row.stderr_bootstrap for row in found.sources] == pytest.approx(
        weights.bootstrap(30, 3).stderr, rel=1e-9
    )
    assert [row.normalizer for row in found.sources] == pytest.approx(weights.normalizer, rel=1e-9)
    assert "30 bootstrap replicates" in found.notes["sources"]
    assert found.bias is not None
    assert found.bias.family == "Known omega"
    assert found.strata == ()


def test_a_normalizer_that_is_known_has_no_error() -> None:
    """ω of camera 0 is 1 everywhere, so its normalizer is 1, with an error of 0 and not of a
    rounding.
    """
    pool = unskew.Pool.from_frame(mixed_frame())
    x = pool.frame["x"].to_numpy()
    weights = unskew.debias_weights(
        np.column_stack([np.ones(300), np.exp(0.4 * x), np.exp(0.8 * x)]),
        pool.frame["source"].to_numpy(),
    )
    found = summary_of(pool, weights, replicates=20).sources
    assert [(row.stderr, row.stderr_bootstrap) for row in found[:1]] == [(0.0, 0.0)]
    assert all(
        row.stderr and row.stderr > 0.01 and row.stderr_bootstrap and row.stderr_bootstrap > 0.01
        for row in found[1:]
    )


def test_the_order_of_the_rows_changes_nothing(pool: unskew.Pool, summary: Summary) -> None:
    shuffled = pool.take(np.random.default_rng(5).permutation(len(pool)))
    again = summary_of(shuffled, strata_weights(shuffled))
    assert numbers(again) == pytest.approx(numbers(summary), rel=1e-8, abs=1e-12)
    assert [row.stratum for row in again.strata] == [row.stratum for row in summary.strata]
    assert [[picture.id for picture in each.pictures] for each in again.galleries] == [
        [picture.id for picture in each.pictures] for each in summary.galleries
    ]


def test_weights_are_joined_by_id_whatever_the_order_of_the_pool(
    pool: unskew.Pool, weights: unskew.Weights, summary: Summary
) -> None:
    shuffled = pool.take(np.random.default_rng(6).permutation(len(pool)))
    assert summary_of(shuffled, weights) == summary


def test_json_is_the_same_summary_without_nan(summary: Summary) -> None:
    text = summary_to_json(summary)
    assert summary_from_json(text) == summary

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)
    assert all(math.isfinite(each) for each in numbers(summary))
    for bad in (
        "[]",
        '{"title": 3}',
        "no json",
        text.replace('"ok"', '"fine"', 1),
        text.replace('"balance":[', '"balance":[3,', 1),
    ):
        with pytest.raises(DataError, match="report"):
            summary_from_json(bad)


def test_a_picture_is_a_picture_also_after_somebody_edited_the_json(
    pool: unskew.Pool, weights: unskew.Weights
) -> None:
    raw: list[Any] = [jpeg((200, 0, 0))] * len(pool)
    found = summary_of(unskew.Pool(pool.frame, ListedImages(raw)), weights, thumbnails=4)
    text = summary_to_json(found)
    assert text.count("data:image/jpeg;base64,") > 0
    with pytest.raises(DataError, match="picture"):
        summary_from_json(text.replace("data:image/jpeg;base64,", "javascript:alert(1)//", 1))


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


def test_the_curve_of_strata_is_proportional_to_the_share_of_a_source_over_the_target(
    pool: unskew.Pool, summary: Summary
) -> None:
    """ω_k(y) ∝ (n_k^(y)/n_k)/p(y)."""
    assert summary.bias is not None
    (curve,) = summary.bias.curves
    share = pool.frame.groupby("source", observed=True)["label"].value_counts(normalize=True)
    for name, omega in curve.omega.items():
        expected = np.array(
            [share[name, level] / {"cat": 0.3, "dog": 0.7}[level] for level in curve.levels]
        )
        assert list(omega) == pytest.approx(expected / expected.max(), rel=1e-9)


def test_the_curve_of_a_tilt_is_an_exponential() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(240))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    found = summary_of(pool, weights)
    assert found.bias is not None
    (curve,) = found.bias.curves
    slopes = np.diff(np.log(np.array(curve.omega["camera 2"], dtype=float)))
    assert slopes == pytest.approx(np.full(slopes.size, slopes[0]), rel=1e-6)
    assert curve.omega["camera 0"] == (1.0,) * len(curve.at)


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


def test_the_many_numbers_of_one_representation_are_named_and_not_drawn() -> None:
    """Pixels or an embedding: none of its numbers says much by itself, unless the bias model reads
    it.
    """
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({f"embedding_{d}": rng.normal(size=200) for d in range(30)}).assign(
        hue_0=0.5, hue_1=rng.normal(size=200)
    )
    pool = unskew.Pool.from_frame(
        numbers.assign(source=["a", "b"] * 100, label=rng.integers(0, 2, 200))
    )
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    )
    shown = [panel.column for panel in found.distributions]
    assert sorted(shown) == ["hue_0", "hue_1", "label"]
    assert "embedding_0 … embedding_29: 30 numbers of one representation" in " ".join(
        found.not_corrected.not_shown
    )
    model = unskew.bias.Tilt(["embedding_3"], reference="a")
    read = summary_of(pool, unskew.debias(pool, model))
    assert "embedding_3" in [panel.column for panel in read.distributions]


def test_uncovered_strata_come_first_and_the_verdict_names_them() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    target = unskew.Target.margins(
        {"label": {"cat": 0.2, "dog": 0.5, "owl": 0.3}}, uncovered="restrict"
    )
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    first = found.strata[0]
    assert (first.stratum, first.covered, first.target, first.images) == (
        "label = owl",
        False,
        0.3,
        0,
    )
    assert any("owl" in step for step in found.verdict.next_steps)
    assert "owl" in found.verdict.population
    assert any("30" in sentence and "owl" in sentence for sentence in found.verdict.sentences)


def test_the_verdict_names_the_part_that_each_factor_of_a_product_leaves() -> None:
    pool = unskew.Pool.from_frame(mixed_frame().assign(x=np.arange(len(mixed_frame())) % 7.0))
    target = unskew.Target.margins(
        {"label": {"cat": 0.2, "dog": 0.5, "owl": 0.3}}, uncovered="restrict"
    )
    parts = unskew.bias.Box(["x"]), unskew.bias.Strata("label")
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Product(*parts), target))
    assert "owl" in found.verdict.population
    assert "within the union of the boxes" in found.verdict.population
    part = (
        "the part of the target that has images; of this only the part of the population "
        "within "
        "the union of the boxes"
    )
    assert found.verdict.headline.endswith(f"drawn from {part}.")


@pytest.mark.parametrize("privacy", ["full", "aggregate"])
def test_the_headline_of_boxes_speaks_of_what_they_reach(privacy: str) -> None:
    rng = np.random.default_rng(5)
    a, b = np.r_[0.0, rng.uniform(0, 2, 298), 2.0], np.r_[1.0, rng.uniform(1, 3, 298), 3.0]
    pool = unskew.Pool.from_arrays(["a"] * 300 + ["b"] * 300, x=np.concatenate([a, b]))
    for bias, where in (
        (unskew.bias.Box(["x"]), "the union of the boxes"),
        (unskew.bias.SoftBox(["x"]), "reach of a box"),
    ):
        found = summary_of(pool, unskew.debias(pool, bias), privacy=privacy)
        assert found.verdict.headline.endswith(
            f"drawn from the part of the population within {where}."
        )


def test_a_restricted_target_is_not_called_the_target() -> None:
    """A fifth of the target has no image: the other shares are of the rest, and no sentence speaks
    of the whole.
    """
    pool = unskew.Pool.from_frame(mixed_frame())
    target = unskew.Target.margins(
        {"label": {"cat": 0.3, "dog": 0.5, "fox": 0.2}}, uncovered="restrict"
    )
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    covered = {row.stratum: (row.target, row.weighted) for row in found.strata if row.covered}
    assert covered["label = cat"] == pytest.approx((0.375, 0.375))
    assert "sum to 1 by themselves" in found.notes["strata"]
    assert found.verdict.headline.endswith("drawn from the part of the target that has images.")
    assert any(
        each.startswith(
            "After weighting nothing that is known of the part of the target that has images"
        )
        for each in found.verdict.sentences
    )


def test_one_source_is_spoken_of_as_one() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(100, 1))
    found = summary_of(
        pool, unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    )
    assert found.verdict.headline.startswith("This source can be debiased")
    assert not any("linked" in each or "These sources" in each for each in found.verdict.sentences)


def test_images_without_weight_are_counted_in_the_verdict() -> None:
    frame = mixed_frame()
    frame.loc[::10, "label"] = "owl"
    pool = unskew.Pool.from_frame(frame)
    target = unskew.Target.margins({"label": {"cat": 0.3, "dog": 0.7}}, outside={"label": "drop"})
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    assert found.weights is not None
    assert found.weights.zero_weights == 30
    assert any(each.startswith("30 images get weight 0") for each in found.verdict.sentences)


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


def test_target_errors_stand_beside_the_masses() -> None:
    pool = unskew.Pool.from_frame(mixed_frame())
    survey = pd.DataFrame({"label": ["cat", "dog"], "share": [0.3, 0.7]})
    target = unskew.Target.table(survey, n=400)
    found = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    assert [row.target_stderr for row in found.strata] == pytest.approx(
        [math.sqrt(0.21 / 400)] * 2, rel=1e-9
    )


def test_weak_links_are_weak_and_named() -> None:
    frame = mixed_frame(120, 2)
    sees = np.ones((120, 2))
    sees[frame["source"] == "camera 0", 1] = 0.0
    sees[np.flatnonzero(frame["source"] == "camera 0")[:3], 1] = 1.0
    pool = unskew.Pool.from_frame(frame)
    with pytest.warns(unskew.errors.WeakOverlapWarning):
        weights = unskew.debias_weights(sees, frame["source"].astype(str), id=frame["id"])
    found = summary_of(pool, weights)
    assert found.verdict.level == "weak"
    assert any("camera 0" in step and "camera 1" in step for step in found.verdict.next_steps)
    assert found.overlap is not None
    assert found.overlap.weakest_count == 3
    alone = next(each for each in found.galleries if each.kind == "one source only")
    assert (alone.source, alone.note.split()[0]) == ("camera 0", "57")


def test_a_rejected_model_is_weak(pool: unskew.Pool, weights: unskew.Weights) -> None:
    worst = type(
        "",
        (),
        {
            "feature": "y",
            "p_value": 0.001,
            "statistic": 9.0,
            "source": "camera 1",
            "place": "y ≤ 0",
            "excess": 0.2,
        },
    )
    rejected = type(
        "", (), {"p_value": 0.001, "features": (worst,), "message": "no", "n_replicates": 999}
    )
    found = summary_of(pool, weights, fit_check=rejected)
    assert found.verdict.level == "weak"
    assert any("y of camera 1" in sentence for sentence in found.verdict.sentences)
    assert found.bias is not None
    assert found.bias.fit_rows[0].place == "y ≤ 0"


def test_the_fit_check_is_that_of_the_library() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(120))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    found = summary_of(pool, weights, fit_check=None, seed=4)
    expected = unskew.check_fit(pool, weights.estimation.fitted, weights, n=999, seed=4)  # type: ignore[union-attr]
    assert found.bias is not None
    assert found.bias.fit_p_value == pytest.approx(expected.p_value)
    assert found.bias.fit_message == expected.message
    assert weights.check_fit(pool, n=99).n_replicates == 99


def test_copies_within_and_across_sources() -> None:
    frame = mixed_frame(30).assign(content=[f"hash {at}" for at in range(30)])
    # Rows 0, 3 and 6 are of camera 0, row 1 of camera 1, row 2 of camera 2.
    frame.loc[[0, 3, 1], "content"] = "same"
    frame.loc[[6, 2], "content"] = "other"
    frame.loc[9, "content"] = None
    pool = unskew.Pool.from_frame(frame)
    found = summary_of(pool, strata_weights(pool))
    assert found.copies == (
        ("camera 0", "camera 0", 1),
        ("camera 0", "camera 1", 1),
        ("camera 0", "camera 2", 1),
    )
    assert [row.copies for row in found.sources] == [3, 1, 1]
    shown = next(each for each in found.galleries if each.kind == "copies")
    assert {picture.id for picture in shown.pictures} == {
        f"image-{at:05d}" for at in (0, 1, 2, 3, 6)
    }


def test_galleries_hold_the_heaviest_and_the_lightest_with_their_pictures() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(60))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    raw: list[Any] = [
        [
            jpeg((at, 0, 0)),
            np.full((40, 300, 3), at, dtype=np.uint8),
            b"no image",
            broken_image(),
            np.zeros((9, 9), dtype=np.uint16),
        ][at % 5]
        for at in range(60)
    ]
    found = summary_of(unskew.Pool(pool.frame, ListedImages(raw)), weights)
    by_kind = {(each.kind, each.source): each for each in found.galleries}
    for k, name in enumerate(pool.names):
        own = np.flatnonzero(weights.source == k)
        order = own[np.argsort(weights.weight[own])]
        assert [p.id for p in by_kind["heaviest", name].pictures] == weights.id[
            order[::-1][:6]
        ].tolist()
        assert [p.id for p in by_kind["lightest", name].pictures] == weights.id[order[:6]].tolist()
    for each in found.galleries:
        for picture in each.pictures:
            can_be_shown = int(picture.id[-5:]) % 5 in (0, 1, 4)
            assert (picture.picture is not None) == can_be_shown
            assert picture.path == f"folder/picture-{picture.id[-5:]}.jpg"


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
        complex=np.arange(n) * 1j,
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


def test_weights_that_carry_no_omega_have_a_page() -> None:
    """As read from a file: no error bars, no test of fit, and both are said."""
    pool = unskew.Pool.from_frame(mixed_frame(60))
    solved = unskew.debias_weights(
        np.ones((60, 3)), pool.frame["source"].astype(str), names=pool.names, id=pool.frame["id"]
    )
    found = summary_of(pool, replace(solved, rows=None), fit_check=None, replicates=None)
    assert found.sources[0].stderr is None
    assert "no error bars" in found.notes["sources"]
    assert found.bias is not None
    assert found.bias.fit_message.startswith("Not tested")
    assert "sensitivity" in found.notes["not_corrected"]


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


def test_unreadable_images_by_source_and_reason(pool: unskew.Pool, weights: unskew.Weights) -> None:
    aside = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "source": ["camera 1", "camera 1", "gone"],
            "path": ["p", "q", "r"],
            "reason": ["x", "x", "y"],
        }
    )
    found = summary_of(unskew.Pool(pool.frame, None, aside), weights)
    assert [row.unreadable for row in found.sources] == [0, 2, 0]
    assert found.unreadable.count == 3
    assert found.unreadable.reasons == (("x", 2), ("y", 1))
    assert found.unreadable.rows[0] == ("a", "camera 1", "p", "x")
    assert found.unreadable.share == pytest.approx(3 / 303)


def test_what_was_set_aside_is_a_share_of_all_splits(
    pool: unskew.Pool, weights: unskew.Weights
) -> None:
    """A page about the training images, of a run that found more: 10 of 610 images cannot be used,
    not 10 of 310.
    """
    lost = pd.DataFrame({"id": range(10), "source": "camera 0", "path": "x.jpg", "reason": "empty"})
    rows = (SplitRow("train", 300, None, 200.0), SplitRow("test", 300, None, 200.0))
    found = summary_of(unskew.Pool(pool.frame, set_aside=lost), weights, splits=rows)
    assert found.unreadable.share == pytest.approx(10 / 610)


def test_splits_by_column_or_with_weights_of_their_own(
    pool: unskew.Pool, weights: unskew.Weights
) -> None:
    half = np.where(np.arange(len(pool)) % 4 == 0, "test", "train")
    split = unskew.Pool.from_frame(pool.frame.assign(split=half), split="split")
    assert [(row.name, row.images) for row in summary_of(split, strata_weights(split)).splits] == [
        ("test", 75),
        ("train", 225),
    ]
    found = summary_of(pool, weights, splits={"train": weights})
    assert found.splits[0].ess == pytest.approx(weights.ess, rel=1e-9)


def test_adjustments_are_told(pool: unskew.Pool, weights: unskew.Weights) -> None:
    trimmed = unskew.trim_weights(weights, at=1.1)
    moved = unskew.calibrate_weights(
        weights,
        by=pool.frame[["country"]],
        margins={"country": {"fr": 0.5, "de": 0.25, "it": 0.25}},
    )
    shrunk = unskew.shrink_weights(weights, {"y": pool.frame["y"]})
    found = summary_of(pool, weights, adjustments=[trimmed, moved, shrunk, "By hand."])
    assert found.adjustments[0].startswith(
        f"Trimmed: weights are capped at 1.1 times the mean ({trimmed.n_trimmed}"
    )
    assert "country" in found.adjustments[1]
    assert found.adjustments[2].startswith(
        "Shrunk: of the way that the weights move the means away from the plain pool"
    )
    assert "sure of (y " in found.adjustments[2]
    assert found.adjustments[3] == "By hand."
    with pytest.raises(ConfigError, match="adjustments"):
        summary_of(pool, weights, adjustments=[3])


def test_outcomes_of_the_users_own(pool: unskew.Pool, weights: unskew.Weights) -> None:
    value = (pool.frame["y"] > 0).to_numpy().astype(float)
    found = summary_of(pool, weights, outcomes={"y is positive": value})
    cell = weights.estimation.fitted.strata.target.code  # type: ignore[union-attr]
    expected = weights.sensitivity(value, 2.0, cell=cell)
    row = found.not_corrected.sensitivity[-1]
    assert (row.outcome, row.factor) == ("y is positive", 2.0)
    assert (row.low, row.high) == (
        pytest.approx(expected.low, rel=1e-9),
        pytest.approx(expected.high, rel=1e-9),
    )


def test_other_pools_and_weights_are_refused(pool: unskew.Pool, weights: unskew.Weights) -> None:
    with pytest.raises(DataError, match="300 weights"):
        summary_of(pool.take(np.arange(200)), weights)
    renamed = unskew.Pool.from_frame(
        pool.frame.assign(source=pool.frame["source"].astype(str).replace("camera 0", "other"))
    )
    with pytest.raises(DataError, match="'other' and 'camera 0'"):
        summary_of(renamed, weights)
    with pytest.raises(DataError, match="Pool"):
        summary_of(pool.frame, weights)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="privacy"):
        summary_of(pool, weights, privacy="none")
    with pytest.raises(ConfigError, match="replicates"):
        summary_of(pool, weights, replicates=-1)


def test_how_much_is_computed_depends_on_the_size_alone(weights: unskew.Weights) -> None:
    assert affordable_fit_replicates(1_000, 3) == 999
    assert 99 <= affordable_fit_replicates(100_000, 5) < 999
    assert affordable_fit_replicates(1_000_000, 5) == 0
    small = unskew.debias_weights(np.ones((30, 2)), [0, 1] * 15)
    assert affordable_bootstrap_replicates(small) == 50


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
