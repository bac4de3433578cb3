"""The models of a training on the page and in report.json."""

from __future__ import annotations

from dataclasses import replace

from report.page.samples import small_summary
from unskew.report.page.html import render_page
from unskew.report.summary.plain import summary_from_json, summary_to_json
from unskew.report.summary.training_record import TrainedArm, TrainingPanel, TriedWay

HOSTILE = "<b>a|b</b>"


def _panel(seeds: tuple[int, ...], spread: float | None) -> TrainingPanel:
    worst = (HOSTILE, 0.5, (0.3, 0.7))
    main = TrainedArm("debiased", 0.824, (0.7, 0.9), *worst, spread, None, (None, None))
    other = replace(main, name=HOSTILE, worst=None, gain=0.13, gain_interval=(-0.002, 0.266))
    main = replace(main, calibration=0.021, calibration_interval=(0.0, 0.045))
    return TrainingPanel("debiased", "test", 195, 0.95, seeds, (main, other), (f"Know: {HOSTILE}",))


def test_the_models_are_on_the_page_with_their_intervals_and_no_name_is_markup() -> None:
    assert 'id="training"' not in render_page(small_summary())
    summary = replace(small_summary(), training=_panel((0, 1, 2), 0.03))
    again = summary_from_json(summary_to_json(summary))
    assert again.training == summary.training
    page = render_page(again)
    section = page.split('<section id="training"')[1].split("</section>")[0]
    assert '<a href="#training">Training</a>' in page
    intervals = ("82.4 (70.0 to 90.0)", "50.0 (30.0 to 70.0)", "+13.0 (-0.2 to +26.6)")
    for text in (*intervals, "Calibration error (95%)", "2.1 (0.0 to 4.5)", "3.0", "195"):
        assert text in section
    assert "<b>" not in section
    assert "Way of" not in section
    tried = (TriedWay("logit", 0.8, 0.012, 0.004, True), TriedWay("half", 0.788, 0.0, 0.0, False))
    panel = replace(summary.training, way=f"logit: {HOSTILE}.", ways=tried)
    page = render_page(summary_from_json(summary_to_json(replace(summary, training=panel))))
    section = page.split('<section id="training"')[1].split("</section>")[0]
    words = "Way of <bdi>debiased</bdi> (first seed):</strong> logit: &lt;b&gt;"
    for text in (words, "logit (chosen)", "+1.2"):
        assert text in section
    once = render_page(replace(small_summary(), training=_panel((0,), None)))
    assert "Spread" not in once.split('<section id="training"')[1].split("</section>")[0]
