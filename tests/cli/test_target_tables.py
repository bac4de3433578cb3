"""Several targets on a terminal: each with its verdict, and every outcome by target."""

from __future__ import annotations

import io

from rich.console import Console

from unskew.cli.target_tables import print_target_panel
from unskew.report.summary.outcome_record import TargetRow
from unskew.report.summary.record import MeanOnTarget, OutcomeByTarget, TargetsPanel


def make_panel(name: str = "farm") -> TargetsPanel:
    """Two targets, the second not reached; one outcome from 20% to 60%."""
    rows = (
        TargetRow("city", True, "ok", "linked", "the target", 0.0, 120.5),
        TargetRow(name, False, "weak", "few images", "the target", 0.25, 30.0),
    )
    means = (
        MeanOnTarget("city", 0.6, 0.05, (0.5, 0.7)),
        MeanOnTarget(name, 0.2, 0.04, (0.12, 0.28)),
    )
    interval = (0.28, 0.52)
    outcome = OutcomeByTarget(
        "share of label = fox", True, 0.95, means, name, "city", 0.4, 0.06, interval, True
    )
    return TargetsPanel(rows, (outcome,), (("city", name, 0.45),), ("It hangs.",))


def test_every_target_and_outcome_is_printed_and_nothing_is_read_as_markup() -> None:
    stream = io.StringIO()
    print_target_panel(Console(file=stream, width=200), make_panel("[red]farm"))
    text = stream.getvalue()
    assert "[red]farm" in text
    assert "city (main)" in text
    for piece in ("60.0 ± 5.0 %", "20.0 ± 4.0 %", "40.0 ± 6.0 %", "25.0 %", "yes, weakly"):
        assert piece in text
