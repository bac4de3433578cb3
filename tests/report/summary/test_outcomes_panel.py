"""Which interval comes first, and why, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unskew
from simulations import make_pool
from summary_pools import summary_of
from unskew.bias import Strata
from unskew.report.summary.outcome_record import OutcomePanel
from unskew.report.summary.outcomes_panel import show_amount, show_ends
from unskew.report.summary.record import Summary

NAMES = ("north", "south", "east", "night", "moon")


def summary_of_shares(
    p_k: list[float], *, lone: bool = False, images: int = 400, **options: Any
) -> Summary:
    """Sources with shares ``p_k`` of the sick and two strata; ``lone``: a third that one sees."""
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(len(p_k)), images)
    shade = np.where(rng.random(source.size) < 0.5, "dark", "light").astype(object)
    mass = {"dark": 0.4, "light": 0.6}
    if lone:
        shade[(source == 0) & (np.arange(source.size) % 4 == 0)] = "dusk"
        mass = {"dark": 0.4, "light": 0.5, "dusk": 0.1}
    sick = (rng.random(source.size) < np.array(p_k)[source]).astype(float)
    pool = make_pool(source, NAMES[: len(p_k)], shade=shade)
    weights = unskew.debias(pool, Strata("shade"), unskew.Target.margins({"shade": mass}))
    return summary_of(pool, weights, outcomes={"sick": sick}, **options)


def panel_of(p_k: list[float], **options: Any) -> OutcomePanel:
    (panel,) = summary_of_shares(p_k, **options).outcomes
    return panel


@pytest.mark.parametrize("n_sources", [3, 5])
def test_sources_that_agree(n_sources: int) -> None:
    panel = panel_of([0.3] * n_sources)
    assert (panel.verdict, panel.heads, panel.interval) == ("agree", "agreed", panel.agreed)
    assert panel.new_source is not None
    assert panel.odd_source is None
    assert len(panel.by_source) == len(panel.without) == n_sources
    assert "agree" in panel.sentences[0]
    assert show_amount(panel, panel.agreed[0]) in panel.sentences[0]
    # The size is given in points, with the limit that it is compared with.
    assert "percentage points" in panel.sentences[1]
    assert "p-value" in panel.sentences[1]


def test_one_source_that_is_off_is_named() -> None:
    panel = panel_of([0.3, 0.3, 0.3, 0.55])
    assert (panel.verdict, panel.heads, panel.interval) == (
        *("disagree", "new source"),
        panel.new_source,
    )
    assert panel.odd_source == "night"
    assert [row.name for row in panel.without if not row.disagree] == ["night"]
    text = " ".join(panel.sentences)
    assert f"{show_amount(panel, panel.by_source[3].value)} (night)" in text
    assert "Without night the others agree" in text
    for interval in (panel.agreed, panel.new_source):
        assert interval is not None
        assert " to ".join(show_amount(panel, end) for end in interval) in panel.sentences[0]


def test_where_no_source_alone_is_off_none_is_named() -> None:
    panel = panel_of([0.1, 0.2, 0.3, 0.4, 0.5])
    assert panel.odd_source is None
    assert any("No single source" in sentence for sentence in panel.sentences)
    of_three = panel_of([0.2, 0.35, 0.5])
    assert of_three.verdict == "disagree"
    assert not any("Without" in sentence for sentence in of_three.sentences)


def test_two_sources_cannot_say_for_a_third() -> None:
    panel = panel_of([0.3, 0.6])
    assert (panel.verdict, panel.heads, panel.new_source) == ("disagree", "all sources", None)
    assert panel.without == ()
    assert panel.interval == (panel.by_source[0].interval[0], panel.by_source[1].interval[1])
    assert "cannot say" in panel.sentences[0]
    alike = panel_of([0.3, 0.3])
    assert (alike.verdict, alike.heads, alike.new_source) == ("agree", "agreed", None)


def test_one_source_has_nothing_to_compare() -> None:
    panel = panel_of([0.3])
    assert (panel.verdict, panel.heads) == ("not compared", "agreed")
    assert panel.new_source is None
    assert panel.p_value is None
    assert len(panel.sentences) == 1


def test_a_stratum_that_one_source_sees_is_named() -> None:
    for p_k in ([0.3, 0.3, 0.3], [0.3, 0.3, 0.6]):
        panel = panel_of(p_k, lone=True)
        assert panel.shared == pytest.approx(0.9)
        (sentence,) = [text for text in panel.sentences if "Nothing can be compared" in text]
        assert "shade = dusk" in sentence
        assert "10.0%" in sentence


def test_sources_without_a_common_stratum_are_not_compared() -> None:
    source = np.repeat([0, 1], 60)
    shade = np.where(source == 0, "dark", "light").astype(object)
    pool = make_pool(source, NAMES[:2], shade=shade)
    target = unskew.Target.margins({"shade": {"dark": 0.4, "light": 0.6}})
    weights = unskew.debias(pool, Strata("shade"), target)
    values = np.random.default_rng(1).normal(size=120)
    (panel,) = summary_of(pool, weights, outcomes={"height": values}).outcomes
    assert (panel.verdict, panel.shared) == ("not compared", 0.0)
    assert panel.by_source[0].value is None
    assert any("Nothing can be compared" in text for text in panel.sentences)


def test_a_label_that_the_strata_balance_is_not_objected_to() -> None:
    rng = np.random.default_rng(3)
    source = np.repeat([0, 1, 2], 100)
    label = np.where(rng.random(300) < 0.4, "a", "b").astype(object)
    pool = make_pool(source, NAMES[:3], label=label)
    target = unskew.Target.margins({"label": {"a": 0.5, "b": 0.5}})
    weights = unskew.debias(pool, Strata("label"), target)
    panels = summary_of(pool, weights, outcomes=["label"]).outcomes
    assert {panel.verdict for panel in panels} == {"not compared"}
    assert all("by construction" in panel.sentences[0] for panel in panels)


def test_those_that_disagree_come_first() -> None:
    rng = np.random.default_rng(4)
    source = np.repeat([0, 1, 2], 400)
    pool = make_pool(source, NAMES[:3], x=rng.normal(size=1200))
    weights = unskew.debias_weights(np.ones((1200, 3)), source, names=NAMES[:3])
    values = {
        "alike": (rng.random(1200) < 0.3) * 1.0,
        "apart": (rng.random(1200) < np.array([0.3, 0.3, 0.6])[source]) * 1.0,
        "height": rng.normal(size=1200),
    }
    panels = summary_of(pool, weights, outcomes=values).outcomes
    assert [panel.outcome for panel in panels] == ["apart", "alike", "height"]
    assert panels[2].scale == "value"
    assert show_amount(panels[2], 1234.5) == "1.23e+03"
    assert show_amount(panels[2], None) == "–"


def test_a_private_page_shows_no_source_in_which_few_have_it() -> None:
    summary = summary_of_shares([0.01, 0.3, 0.3, 0.5], privacy="aggregate")
    (panel,) = summary.outcomes
    hidden = [row for row in panel.by_source if row.withheld]
    assert "north" in {row.name for row in hidden}
    assert len(hidden) >= 2
    assert all(row.value is None and row.interval == (None, None) for row in hidden)
    assert all(row.share is None for row in panel.by_source)
    assert all(row.value is None for row in panel.without)
    assert any("withheld" in sentence for sentence in panel.sentences)
    words = " ".join([*panel.sentences, *summary.verdict.sentences, *summary.verdict.next_steps])
    assert "(north)" not in words
    assert "(north)" not in show_ends(panel)
