"""Distributions of columns."""

from __future__ import annotations

from unskew.report.page.plots_columns import plot_distribution
from unskew.report.summary.record import DistributionPanel


def test_a_withheld_bin_is_a_gap_and_not_a_zero() -> None:
    panel = DistributionPanel(
        "x", "feature", False, (0.0, 1.0, 2.0, 3.0), (), (0.5, None, 0.5), (None, None, None), None
    )
    drawing = str(plot_distribution(panel).drawing)
    assert drawing.count('class="area pool"') == 2
    assert "debiased" not in drawing
