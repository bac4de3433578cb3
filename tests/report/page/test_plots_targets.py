"""The tables and figures of several targets have the numbers of the record, and escape names."""

from __future__ import annotations

from unskew.report.page.plots_targets import (
    distance_table,
    moves_table,
    plot_targets,
    target_table,
)
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


def test_the_tables_hold_the_numbers_of_the_record() -> None:
    panel = make_panel()
    table = target_table(panel)
    assert [row[0].text for row in table.rows] == ["city (main)", "farm"]
    assert table.marked == {1}
    moves = moves_table(panel)
    texts = [cell.text for cell in moves.rows[0]]
    assert texts[1:5] == ["20.0%", "farm", "60.0%", "city"]
    assert texts[6] == "28.0% to 52.0%"
    assert moves.marked == {0}
    assert [cell.text for cell in distance_table(panel).rows[0]] == ["city", "farm", "45.0%"]


def test_a_figure_has_a_row_for_every_target_and_no_markup_of_a_name() -> None:
    figure = plot_targets(make_panel("<b>farm</b>").outcomes[0])
    assert len(figure.table.rows) == 2
    assert "<b>" not in str(figure.drawing)
    assert "60.0% (50.0% to 70.0%)" in str(figure.drawing)
