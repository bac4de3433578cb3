"""The verdict: level, headline, reasons and next steps."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unskew
from summary_pools import NO_FIT_CHECK, mixed_frame, summary_of
from unskew.report.summary.record import Summary
from unskew.report.summary.verdict_words import _what_links

JOINT = unskew.JointCheck(("t",), ("camera 0", "camera 1"), 0.001, "camera 0", "t × y", 0.2)


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
def test_the_headline_of_boxes_names_the_part_that_they_reach(privacy: str) -> None:
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
            "After weighting, the pool matches everything you specified about the part of the "
            "target that has images"
        )
        for each in found.verdict.sentences
    )


def test_the_verdict_on_one_source_is_in_the_singular() -> None:
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


def test_weak_links_are_weak_and_named() -> None:
    frame = mixed_frame(120, 2)
    sees = np.ones((120, 2))
    sees[frame["source"] == "camera 0", 1] = 0.0
    sees[frame["source"] == "camera 1", 0] = 0.0
    for camera in ("camera 0", "camera 1"):
        sees[np.flatnonzero(frame["source"] == camera)[:3]] = 1.0
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
    rejected = SimpleNamespace(
        p_value=0.001,
        features=(worst,),
        joint=None,
        notes=(),
        message="no",
        n_replicates=999,
    )
    found = summary_of(pool, weights, fit_check=rejected)
    assert found.verdict.level == "weak"
    assert any("y of camera 1" in sentence for sentence in found.verdict.sentences)
    assert found.bias is not None
    assert found.bias.fit_rows[0].place == "y ≤ 0"


def test_all_tests_of_a_page_count(pool: unskew.Pool, weights: unskew.Weights) -> None:
    """A p-value that objects by itself does not where another test was made, too (Holm)."""
    frame = pool.frame.assign(t=np.arange(len(pool)) % 7.0)
    rng = np.random.default_rng(0)
    sample = unskew.Pool.from_arrays(["t"] * 60, t=rng.integers(0, 7, 60) * 1.0)
    weighed = unskew.debias(
        unskew.Pool.from_frame(frame), unskew.bias.Tilt(["t"]), unskew.Target.sample(sample)
    )
    assert weighed.estimation is not None
    judged = weighed.estimation.resemblance
    assert judged is not None

    def objections(fit: float, classifier: float) -> tuple[bool, bool]:
        check = SimpleNamespace(**vars(NO_FIT_CHECK) | {"p_value": fit, "joint": JOINT})
        estimation = replace(weighed.estimation, resemblance=replace(judged, p_value=classifier))
        verdict = summary_of(
            unskew.Pool.from_frame(frame),
            replace(weighed, estimation=estimation),
            fit_check=check,
            outcomes={},
        ).verdict
        return (
            any("t × y of camera 0" in sentence for sentence in verdict.sentences),
            any("features that separate the target" in step for step in verdict.next_steps),
        )

    assert objections(0.02, float("nan")) == (True, False)
    assert objections(0.02, 0.9) == (False, False)
    assert objections(0.9, 0.02) == (False, False)
    assert objections(0.9, 0.01) == (False, True)
    assert objections(0.01, 0.01) == (True, True)


def _of_sources(p_k: list[float], **options: Any) -> Summary:
    """Sources that are alike but for the share of ones they measure."""
    source = np.repeat(np.arange(len(p_k)), 400)
    value = np.concatenate([np.arange(400) < 400 * p for p in p_k]) * 1.0
    named = unskew.Pool.from_arrays([f"camera {k}" for k in source], sick=value)
    weights = unskew.debias_weights(np.ones((source.size, len(p_k))), source, names=named.names)
    return summary_of(named, weights, **{"outcomes": ["sick"], **options})


def test_sources_that_disagree_are_named_with_a_way_on() -> None:
    verdict = _of_sources([0.3, 0.3, 0.3, 0.6]).verdict
    assert verdict.level == "weak"
    (sentence,) = [text for text in verdict.sentences if "disagree" in text]
    assert "sick: 30.0% (camera 0) to 60.0% (camera 3)" in sentence
    assert "Without camera 3 the others agree" in sentence
    (step,) = [text for text in verdict.next_steps if "Outcomes" in text]
    assert "camera 3" in step
    assert "a source like none of these" in step
    two = _of_sources([0.3, 0.6]).verdict
    assert any("what each source says by itself" in text for text in two.next_steps)


def test_sources_that_agree_are_not_mentioned() -> None:
    verdict = _of_sources([0.3, 0.31, 0.29]).verdict
    assert verdict.level == "ok"
    assert not any("agree" in text for text in (*verdict.sentences, *verdict.next_steps))


def test_many_outcomes_count_as_one_test() -> None:
    """A disagreement that may be chance among twenty outcomes is said, and is no objection."""
    rng = np.random.default_rng(0)
    others = {f"other {k}": (rng.random(1200) < 0.3) * 1.0 for k in range(19)}
    value = np.concatenate([np.arange(400) < 400 * p for p in (0.3, 0.34, 0.41)]) * 1.0
    alone = _of_sources([0.3, 0.3, 0.3], outcomes={"sick": value})
    among = _of_sources([0.3, 0.3, 0.3], outcomes={"sick": value, **others})
    p_value = alone.outcomes[0].beyond_margin_p
    assert p_value is not None
    assert 0.025 / 20 < p_value < 0.0125
    assert (alone.verdict.level, among.verdict.level) == ("weak", "ok")
    assert any("disagree on sick" in text for text in among.verdict.sentences)


def test_sources_that_share_no_class_are_told_first() -> None:
    frame = pd.DataFrame(
        {"source": ["shop"] * 40 + ["lab"] * 40, "label": ["cup", "jar"] * 20 + ["fly", "bee"] * 20}
    )
    pool = unskew.Pool.from_frame(frame)
    weights = unskew.debias(pool, unskew.bias.Strata("label"), unskew.Target.uniform("label"))
    verdict = summary_of(pool, weights).verdict
    assert verdict.level == "weak"
    assert verdict.headline.startswith("Class and source cannot be told apart")
    assert "cannot be told apart" in verdict.sentences[0]
    assert {"shop", "lab"} <= set(re.findall(r"\w+", verdict.sentences[0]))


def test_strata_of_one_source_come_first_with_their_share_of_the_target() -> None:
    frame = pd.DataFrame(
        {"source": ["a"] * 40 + ["b"] * 40, "label": ["x", "y"] * 20 + ["x", "z"] * 20}
    )
    pool = unskew.Pool.from_frame(frame)
    target = unskew.Target.margins({"label": {"x": 0.5, "y": 0.3, "z": 0.2}})
    verdict = summary_of(pool, unskew.debias(pool, unskew.bias.Strata("label"), target)).verdict
    assert (verdict.level, verdict.placeholder) == ("ok", False)
    assert "50.0% of the target" in verdict.sentences[0]


def test_a_source_that_is_taken_as_unbiased_is_named() -> None:
    pool = unskew.Pool.from_frame(mixed_frame(90))
    target = unskew.Target.source("camera 1")
    verdict = summary_of(pool, unskew.debias(pool, unskew.bias.Tilt(["x"]), target)).verdict
    assert any(sentence.startswith("camera 1 is taken") for sentence in verdict.sentences)


def test_images_whose_class_is_missing_are_not_to_be_collected() -> None:
    assert _what_links(["label = cat"]) == "Collect images of label = cat from a second source."
    both = _what_links(["label = cat", "label = (missing)"])
    assert both.startswith("Collect images of label = cat from a second source. Fill in")
    assert "Collect" not in _what_links(["label = (missing)"])
