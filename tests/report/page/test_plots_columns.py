"""Distributions and love plots."""

from __future__ import annotations

from report.page.samples import page_of
from unskew.report.page.plots_columns import plot_distribution
from unskew.report.summary.record import DistributionPanel


def test_love_plots_keep_fitted_and_unfitted_apart() -> None:
    page = page_of("five")
    fitted = page[
        page.index("<bdi>Fitted attributes") : page.index("<bdi>Attributes that were not fitted")
    ]
    unfitted = page[
        page.index("<bdi>Attributes that were not fitted") : page.index('id="distributions"')
    ]
    assert "label = roe deer" in fitted
    assert "temperature" not in fitted
    assert "temperature" in unfitted
    # The model read it, but there is nothing to compare it with: no distance from a target is
    # claimed.
    assert "brightness" not in fitted
    assert "brightness" in unfitted[unfitted.index("Fitted, with no target to compare with") :]


def test_a_withheld_bin_is_a_gap_and_not_a_zero() -> None:
    panel = DistributionPanel(
        "x", "feature", False, (0.0, 1.0, 2.0, 3.0), (), (0.5, None, 0.5), (None, None, None), None
    )
    drawing = str(plot_distribution(panel).drawing)
    assert drawing.count('class="area pool"') == 2
    assert "debiased" not in drawing
