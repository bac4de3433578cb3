"""`privacy = "aggregate"`: no image, path or id; no small cell, neither shown nor to be computed
from what is shown.
"""

from __future__ import annotations

import warnings
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unskew
from raising import refused
from summary_pools import ListedImages, jpeg, mixed_frame, strata_weights, summary_of
from unskew.errors import ConfigError, DataError, WeakOverlapWarning
from unskew.report.summary.plain import summary_to_json
from unskew.report.summary.privacy import SMALLEST_CELL, overlap_message, shown_size
from unskew.report.summary.record import Summary


def private(pool: unskew.Pool, weights: unskew.Weights, **options: Any) -> Summary:
    return summary_of(pool, weights, privacy="aggregate", **options)


def texts(value: Any) -> list[str]:
    if is_dataclass(value):
        return [each for one in fields(value) for each in texts(getattr(value, one.name))]
    if isinstance(value, dict):
        return [*map(str, value), *(each for one in value.values() for each in texts(one))]
    if isinstance(value, tuple):
        return [each for one in value for each in texts(one)]
    return [value] if isinstance(value, str) else []


@pytest.mark.filterwarnings("ignore::unskew.errors.WeakOverlapWarning")
def test_nothing_names_an_image() -> None:
    frame = mixed_frame(120, groups=True)
    frame["content"] = [f"hash-{at % 60:04d}" for at in range(120)]
    frame["note"] = [f"remark-{at:04d}" for at in range(120)]
    frame.loc[:4, "country"] = "rare-land"
    aside = pd.DataFrame(
        {
            "id": ["image-x1"],
            "source": ["camera 1"],
            "path": ["folder/picture-x1.jpg"],
            "reason": ["picture-x1 is empty"],
        }
    )
    pool = unskew.Pool(
        unskew.Pool.from_frame(frame).frame, ListedImages([jpeg((9, 9, 9))] * 120), aside
    )
    provenance = {
        "command": "unskew weigh folder/picture-00003.jpg",
        "inputs": {"image-00001": "abc", "scans.csv": "def"},
        "seed": 3,
    }
    found = private(pool, strata_weights(pool), provenance=provenance)
    text = summary_to_json(found)
    for piece in (
        "image-0",
        "image-x",
        "picture-",
        "folder/",
        "patient-",
        "hash-",
        "remark-",
        "rare-land",
        "data:image",
    ):
        assert piece not in text, piece
    assert found.galleries == ()
    assert found.unreadable.rows == ()
    assert found.provenance["seed"] == 3
    assert found.provenance["inputs"] == {"scans.csv": "def"}
    assert "ten or more" in found.notes["privacy"]


def test_what_belongs_to_single_images_is_left_out() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(300))
    weights = unskew.debias(pool, unskew.bias.Tilt(["x"], reference="camera 0"))
    found = private(pool, weights)
    assert found.weights is not None
    assert found.overlap is not None
    assert found.bias is not None
    assert found.weights.largest_sample_weight is None
    assert found.weights.top_percent_share is None  # three images
    assert found.weights.quantiles["1%"] is None
    assert found.weights.quantiles["50%"] == pytest.approx(
        np.median(weights.sample_weight), rel=0.05
    )
    assert all(each.largest is None for each in (*found.weights.by_source, *found.weights.by_label))
    assert all(10 <= share * 300 <= 290 for share, _ in found.weights.concentration[1:-1])
    assert found.overlap.epsilon is None
    assert found.bias.parameters == ()
    assert not any("largest" in name.lower() for name, _ in found.verdict.figures)
    largest = f"{weights.sample_weight.max():.4g}"
    assert largest not in summary_to_json(found)
    # Every edge has at least ten images beyond it, or is the outermost of a bin that holds ten.
    for panel in found.distributions:
        if panel.edges:
            value = np.sort(pool.frame[panel.column].to_numpy())
            assert panel.edges[1] > value[9]
            assert panel.edges[-2] <= value[-10]


def test_cells_are_counted_in_groups_where_there_are_groups() -> None:
    frame = mixed_frame(300)
    # Two hundred images of camera 0 and 1, of one patient each; camera 2 has many patients.
    frame["group"] = np.where(
        frame["source"] == "camera 2", frame["id"], frame["source"].astype(str)
    )
    pool = unskew.Pool.from_frame(frame)
    found = private(pool, strata_weights(pool))
    assert [row.images for row in found.sources] == [None, None, None]
    assert [row.groups for row in found.sources] == [None, None, None]
    few = unskew.Pool.from_frame(frame.assign(group=[f"g{at % 5}" for at in range(300)]))
    with refused(ConfigError, option="privacy", limit=10):
        private(few, strata_weights(few))


class Released:
    """What a summary tells, as linear functions of the counts of the finest cells of a pool."""

    def __init__(self, frame: pd.DataFrame, columns: list[str]) -> None:
        self.frame = frame
        self.cells = (
            frame.groupby(columns, dropna=False, observed=True).size().reset_index(name="n")
        )
        self.rows = [np.ones(len(self.cells))]

    def indicator(self, **levels: Any) -> Any:
        keep = np.ones(len(self.cells), dtype=bool)
        for name, level in levels.items():
            keep &= (
                self.cells[name].isna()
                if level is None
                else self.cells[name].astype(str) == str(level)
            )
        return keep.astype(float)

    def tell(self, indicator: Any) -> None:
        self.rows.append(indicator)

    def can_compute(self, indicator: Any) -> bool:
        known = np.array(self.rows)
        solved = np.linalg.lstsq(known.T, indicator, rcond=None)[0]
        return bool(np.abs(known.T @ solved - indicator).max() < 1e-9)

    def count(self, indicator: Any) -> int:
        return int(indicator @ self.cells["n"].to_numpy())


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["none", "keep", "drop"]), st.booleans())
def test_no_small_cell_can_be_computed_from_what_is_shown(
    seed: int, outside: str, joint: bool
) -> None:
    """Strata of one or two attributes, images outside the scope, a third column with missing
    values, splits, sources of any size.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 300))
    skew = rng.dirichlet([0.4] * 3)
    frame = pd.DataFrame(
        {
            "id": [f"secret-{at}" for at in range(n)],
            "source": rng.choice(["p", "q", "r", "s"], n, p=rng.dirichlet([0.6] * 4)),
            "age": rng.choice(["young", "mid", "old"], n, p=skew),
            "sex": rng.choice(["f", "m"], n, p=[0.8, 0.2]),
            "site": rng.choice(["x", "y", "z", "w"], n, p=rng.dirichlet([0.5] * 4)),
            "split": rng.choice(["train", "test"], n, p=[0.9, 0.1]),
        }
    )
    frame.loc[rng.random(n) < 0.03, "site"] = None
    options: dict[str, Any] = {"uncovered": "restrict"}
    if outside != "none":
        frame.loc[rng.random(n) < rng.choice([0.02, 0.2]), "age"] = "unknown"
        if (frame["age"] == "unknown").any():
            options["outside"] = {"age": {"unknown": outside}}
    by = ["age", "sex"] if joint else ["age"]
    frame["age"] = frame["age"].where(frame["age"] != "", "young")
    pool = unskew.Pool.from_frame(frame, split="split")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)
        try:
            weights = unskew.debias(
                pool, unskew.bias.Strata(by), unskew.Target.uniform(by, **options)
            )
        except DataError:
            return  # a source of which nothing is left
    found = private(pool, weights)
    assert "secret-" not in summary_to_json(found)
    assert found.weights is not None
    frame["bin"] = _bins(found, weights)
    released = Released(frame, ["source", "age", "sex", "site", "split", "bin"])
    _tell_all(found, released, by)
    for name in ("source", "age", "sex", "site", "split"):
        for level in [
            *frame[name].dropna().unique(),
            *([None] if frame[name].isna().any() else []),
        ]:
            _check(released, released.indicator(**{name: level}))
    for age in frame["age"].unique():
        for sex in ("f", "m"):
            if joint:
                _check(released, released.indicator(age=age, sex=sex))


def _bins(found: Summary, weights: unskew.Weights) -> list[str]:
    """The bin of the histogram that every image is in, found by hand."""
    assert found.weights is not None
    edges = found.weights.histogram.edges
    return [
        "none" if each == 0 else str(max(sum(edge <= np.log10(each) for edge in edges[:-1]) - 1, 0))
        for each in weights.sample_weight
    ]


def _check(released: Released, indicator: Any) -> None:
    if 0 < released.count(indicator) < SMALLEST_CELL:
        assert not released.can_compute(indicator)


def _tell_all(found: Summary, released: Released, by: list[str]) -> None:
    """Every count in the summary, checked against the pool and written down."""

    def tell(count: int | None, **levels: Any) -> None:
        if count is not None:
            indicator = released.indicator(**levels)
            assert count == released.count(indicator)
            assert count == 0 or count >= SMALLEST_CELL
            released.tell(indicator)

    assert found.weights is not None
    for at, count in enumerate(found.weights.histogram.count):
        tell(None if count is None else int(count), bin=at)
    tell(found.weights.zero_weights, bin="none")
    for source in found.sources:
        tell(source.images, source=source.name)
    for split in found.splits:
        tell(split.images, split=split.name)
    for stratum in found.strata:
        tell(stratum.images, **dict(part.split(" = ") for part in stratum.stratum.split(" × ")))
        if stratum.images is None:
            assert (stratum.pool, stratum.weighted, stratum.ess, stratum.sources) == (
                None,
                None,
                None,
                (),
            )
    for panel in found.distributions:
        for level, count, share in zip(panel.levels, panel.count, panel.pool, strict=True):
            assert (count is None) == (share is None)
            if panel.column in by:
                # Counted within the target's scope: these are sums of strata.
                inside = [
                    cell
                    for cell in found.strata
                    if cell.in_scope and f"{panel.column} = {level}" in cell.stratum.split(" × ")
                ]
                if count is not None:
                    assert all(cell.images is not None for cell in inside)
                    assert count == sum(cell.images or 0 for cell in inside)
            elif not level.startswith("("):
                tell(count, **{panel.column: level})
        if panel.column == "site":
            tell(panel.missing, site=None)
    shown = {(row.column, row.level) for row in found.balance}
    for panel in found.distributions:
        for level, count in zip(panel.levels, panel.count, strict=True):
            assert count is not None or (panel.column, level) not in shown


def test_shares_do_not_tell_what_counts_hide() -> None:
    """Images outside the scope keep their pool share: the share of the others must not give theirs
    away.
    """
    frame = mixed_frame(200)
    frame.loc[[0, 1, 2], "label"] = "empty"
    pool = unskew.Pool.from_frame(frame)
    target = unskew.Target.margins(
        {"label": {"cat": 0.3, "dog": 0.7}}, outside={"label": {"empty": "keep"}}
    )
    found = private(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    by_name = {row.stratum: row for row in found.strata}
    assert "label = empty" not in by_name
    assert by_name["label = dog"].target == pytest.approx(0.7)
    assert [row.images for row in found.strata].count(None) == 1
    assert "empty" not in " ".join(texts(found))
    assert "0.015" not in summary_to_json(found)
    full = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target))
    assert {row.stratum: row.images for row in full.strata}["label = empty"] == 3
    assert full.strata[0].target == pytest.approx(0.7 * 197 / 200)


def test_unreadable_images_and_copies_follow_the_rule() -> None:
    frame = mixed_frame(300)
    frame["content"] = [f"hash {at}" for at in range(300)]
    frame.loc[[0, 1], "content"] = "same"
    aside = pd.DataFrame(
        {
            "id": range(40),
            "source": ["camera 0"] * 3 + ["camera 1"] * 37,
            "path": "p",
            "reason": ["empty"] * 38 + ["odd"] * 2,
        }
    )
    pool = replace(unskew.Pool.from_frame(frame), set_aside=aside)
    found = private(pool, strata_weights(pool))
    assert [row.unreadable for row in found.sources] == [None, None, 0]
    assert found.unreadable.count == 40
    assert found.unreadable.reasons == (("other reasons", None),)
    assert [row.copies for row in found.sources] == [None] * 3
    assert found.copies == (("camera 0", "camera 1", None), ("camera 1", "camera 0", None))


def test_a_tables_alone_hospital_report() -> None:
    """Age in bins × sex, missing sex kept at its pool share, patients as groups: as in a
    registry.
    """
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "id": [f"scan-{at}" for at in range(n)],
            "hospital": rng.choice(["north", "south", "east"], n, p=[0.6, 0.37, 0.03]),
            "patient_id": [f"patient-{at}" for at in rng.integers(0, 260, n)],
            "age": rng.integers(20, 100, n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    frame.loc[:2, "sex"] = None
    pool = unskew.Pool.from_frame(frame, source="hospital", group="patient_id", id="id")
    registry = pd.DataFrame(
        [
            (age, sex, 100)
            for age in ("[0, 40)", "[40, 60)", "[60, 75)", "[75, 120]")
            for sex in ("f", "m")
        ]
    )
    registry.columns = ["age", "sex", "count"]
    target = unskew.Target.table(
        registry, bins={"age": [0, 40, 60, 75, 120]}, missing={"sex": "keep"}, unit="group"
    )
    found = private(pool, unskew.debias(pool, unskew.bias.Strata(["age", "sex"]), target))
    text = summary_to_json(found)
    assert "scan-" not in text
    assert "patient-" not in text
    assert sum(row.images is not None for row in found.strata) >= 6
    assert found.verdict.level in ("ok", "weak")


@pytest.mark.parametrize(("owls", "named"), [(4, False), (40, True)])
def test_a_rare_level_that_was_dropped_is_not_named(owls: int, named: bool) -> None:
    frame = mixed_frame(600)
    frame.loc[: owls - 1, "label"] = "owl"
    pool = unskew.Pool.from_frame(frame)
    found = private(pool, strata_weights(pool, outside={"label": "drop"}))
    assert ("owl" in summary_to_json(found)) is named


def test_a_private_reason_names_no_stratum_with_a_single_image() -> None:
    label = ["zebra", *["cat", "dog"] * 50]
    pool = unskew.Pool.from_arrays(["a"] * 101, label)
    with pytest.warns(WeakOverlapWarning, match="zebra is 0.33 of the target"):
        overlap = unskew.debias(
            pool, unskew.bias.Strata("label"), unskew.Target.uniform("label")
        ).overlap
    assert overlap_message(overlap, private=False) == overlap.message
    assert "zebra" not in overlap_message(overlap, private=True)
    assert "single" not in overlap_message(overlap, private=True)


def test_an_effective_size_is_never_above_the_number_of_images() -> None:
    assert [shown_size(size, True) for size in (1157.0, 1199.9999999999, 34.9, 0.0, None)] == [
        *(1100.0, 1200.0, 34.0, 0.0, None)
    ]
    assert shown_size(1157.0, False) == 1157.0


def test_sources_that_are_withheld_are_not_left_unsaid() -> None:
    source, label = ["a"] * 60 + ["b"] * 60, ["x"] * 40 + ["y"] * 20 + ["x"] * 55 + ["y"] * 5
    pool = unskew.Pool.from_arrays(source, label=label)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    rows = {row.stratum: row.sources for row in private(pool, weights).strata}
    assert rows == {"label = x": ("a", "b"), "label = y": ("a", "others withheld")}
