"""Ranges of target means."""

from __future__ import annotations

import re

from unskew.report.page.plots_rows import plot_sensitivity
from unskew.report.summary.record import SensitivityRow


def test_each_outcome_has_an_axis_of_its_own() -> None:
    """A share and a mean in the thousands on one axis would hide the first."""
    rows = [
        SensitivityRow(name, 2.0, 1.5 * size, size, 2.0 * size, (0.5 * size, 2.5 * size))
        for name, size in (("a", 0.1), ("b", 1e4))
    ]
    widths = re.findall(
        r'x1="([\d.]+)%" x2="([\d.]+)%" y1="10"', str(plot_sensitivity(rows).drawing)
    )
    assert len(widths) == 2
    assert widths[0] == widths[1]
