"""The panel of the forecast."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

from report.page import samples
from report.page.samples import SAMPLES, page_of
from unskew.report.page.html import LARGEST_PAGE, render_page


def _panel(page: str) -> str:
    return page.split('<section id="forecast"')[1].split("</section>")[0]


def test_the_forecast_s_figures_and_tables_hold_its_numbers() -> None:
    shown = unescape(re.sub(r"<[^>]+>", " ", _panel(page_of("five"))))
    words = " ".join(shown.split())
    for text in (
        "+4.0 ± 0.8",
        "+2.4 to +5.6",
        "31 → 61",
        "conditional on the bias model",
        "2,204 of 4,812; 780 independent",
    ):
        assert text in words
    for arm in ("naive", "debiased", "class_balanced"):
        assert arm in words
    assert (
        "Predicted accuracy in points, with 95% intervals: naive 78.0 ± 1.1; debiased 80.0 ± 1.1"
        in _panel(page_of("five"))
    )


def test_an_objection_is_shown_with_the_recommendation_which_is_no_longer_green() -> None:
    from unskew.report.page.plots_forecast import forecast_level

    panel = samples.forecast_panel()
    assert forecast_level(panel) == "ok"
    assert forecast_level(replace(panel, objection="no")) == "weak"
    assert forecast_level(replace(panel, verdict="don't")) == "no"
    assert forecast_level(replace(panel, verdict="don't bother")) == ""
    assert "The test of the fit objects" in _panel(page_of("weak"))
    assert "The test of the fit objects" not in _panel(page_of("five"))


def test_a_page_without_a_forecast_says_so_or_why() -> None:
    summary = SAMPLES["bare"]()
    assert "None was made" in _panel(render_page(summary))
    told = replace(
        summary,
        notes={
            **summary.notes,
            "forecast": "A forecast was asked for, and none can be made: <b>no labels</b>.",
        },
    )
    assert "none can be made: &lt;b&gt;no labels" in _panel(render_page(told))


def test_a_forecast_survives_json_and_numbers_that_do_not_exist() -> None:
    from unskew.report.summary.plain import plain_value, summary_from_json, summary_to_json

    summary = plain_value(SAMPLES["five"]())
    assert summary_from_json(summary_to_json(summary)).forecast == summary.forecast
    panel = summary.forecast
    none = replace(
        panel.arms[1],
        stderr=None,
        interval=(None, None),
        gain=None,
        gain_stderr=None,
        worst=None,
        worst_class=None,
    )
    empty = replace(
        panel, arms=(panel.arms[0], none), classes=(), ess_units=None, heavy_share=None, images=None
    )
    assert "±" in _panel(render_page(replace(summary, forecast=empty)))


def test_hundreds_of_classes_stay_small() -> None:
    panel = samples.forecast_panel(
        [f"class {k} " + "x" * 60 for k in range(3)] + [f"c{k}" for k in range(1000)]
    )
    page = render_page(replace(SAMPLES["five"](), forecast=panel))
    assert len(page) < LARGEST_PAGE
    assert "503 more rows are in report.json" in page
