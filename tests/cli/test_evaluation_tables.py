"""An evaluation on a terminal: every figure with its unit, and dashes for what is unknown."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from evaluation.judging import judge, make_sets
from unskew.cli.evaluation_tables import print_evaluation
from unskew.evaluation.cells import Cell
from unskew.evaluation.matching import Coverage
from unskew.evaluation.metric_value import MetricValue
from unskew.evaluation.predictions import Breakdown, Evaluation
from unskew.records import Agreement, Estimate, SourceEstimate, WithoutSource


def _cell(name: str = "all", **further: Any) -> Cell:
    figures = {
        "accuracy": MetricValue(0.8125, (0.75, 0.875), 0.03, 0.9, 123.4),
        "auroc": MetricValue(0.9, (0.8505, 0.9504), 0.02, 0.95, 123.4),
        "worst_class": MetricValue(0.5, None, None, None, 3.2, few=True, where="lynx"),
        "mae": MetricValue(12345.6, (11000.0, 13000.0), 1.0, None, 1234.5),
    }
    return replace(Cell(name, 1200, None, 0.25, 456.7, None, False, figures), **further)


EVALUATION = Evaluation(
    task="classification",
    classes=("fox", "lynx"),
    positive=None,
    truth="label",
    split="test",
    coverage=Coverage(1500, 1200, 300, 0.8, 0, 0, 0),
    overall=_cell(),
    breakdowns=(),
    level=0.9,
    replicates=100,
    seed=0,
    private=False,
    notes=("300 images have no prediction.",),
)


def _lines(evaluation: Evaluation, written: Path | None = None) -> list[str]:
    text = StringIO()
    print_evaluation(Console(file=text, width=200), evaluation, written)
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def test_shares_are_percent_and_other_figures_are_numbers() -> None:
    lines = _lines(EVALUATION)
    assert lines[0] == "Classification, test: 1,200 of 1,500 images judged, 456.7 effective images."
    assert "metric weighted 90 % interval unweighted effective" in lines
    assert "accuracy 81.2 % 75.0 to 87.5 90.0 % 123.4" in lines
    assert "AUROC 0.900 0.851 to 0.950 0.950 123.4" in lines
    assert "worst class (lynx)* 50.0 % – – 3.2" in lines
    assert "mean absolute error 1.235e+04 1.1e+04 to 1.3e+04 – 1,234" in lines
    assert "· 300 images have no prediction." in lines


def test_a_star_is_explained_where_there_is_one_and_only_there() -> None:
    stars = [line for line in _lines(EVALUATION) if line.startswith("* fewer than")]
    assert len(stars) == 1
    sure = {"accuracy": MetricValue(0.8)}
    clear = replace(EVALUATION, overall=_cell(figures=sure))
    assert not any("*" in line for line in _lines(clear))
    few = Breakdown("site", (_cell("north", figures=sure, few=True),))
    lines = _lines(replace(clear, breakdowns=(few,)))
    assert any(line.startswith("north* ") for line in lines)
    assert any(line.startswith("* fewer than") for line in lines)


def test_cells_of_a_column_with_the_worst_and_the_withheld() -> None:
    part = Breakdown(
        "site",
        (_cell("north"), _cell("south", ess_groups=7.0, figures={"auroc": MetricValue(None)})),
        withheld=2,
        worst=MetricValue(0.5, (0.4, 0.6), where="south"),
    )
    lines = _lines(replace(EVALUATION, breakdowns=(part,)))
    assert "By site" in lines
    assert "site images weight effective accuracy AUROC mean absolute error" in lines
    assert any(
        line.startswith("north 1,200 25.0 % 456.7 81.2 % (75.0 to 87.5) 0.900 ") for line in lines
    )
    assert "south 1,200 25.0 % 7.0 – – –" in lines
    assert "Worst: south, 50.0 % (40.0 to 60.0)." in lines
    assert any(line.startswith("By site: 2 withheld") for line in lines)


def test_a_second_model_is_shown_with_the_difference_in_points() -> None:
    second = {"accuracy": MetricValue(0.7)}
    difference = {"accuracy": MetricValue(-0.1125, (-0.15, -0.05))}
    both = _cell(second=second, difference=difference)
    part = Breakdown("site", (replace(both, name="north"),), worst=MetricValue(0.5, where="north"))
    lines = _lines(replace(EVALUATION, overall=both, breakdowns=(part,)))
    assert any(line.endswith("70.0 % -11.2 pt -15.0 to -5.0") for line in lines)
    # What the second lacks is a dash.
    assert any(line.startswith("AUROC ") and line.endswith("– – –") for line in lines)
    assert any("-11.2 pt (-15.0 to -5.0)" in line for line in lines if line.startswith("north"))
    assert not any(line.startswith("Worst") for line in lines)


def test_names_are_shown_and_not_obeyed_and_the_file_is_named() -> None:
    part = Breakdown("site", (_cell("no[red]rth"), _cell("so\x1b[31muth")))
    lines = _lines(replace(EVALUATION, breakdowns=(part,)), Path("out/evaluation.json"))
    assert lines[-1] == "Written: out/evaluation.json"
    assert any(line.startswith("no[red]rth ") for line in lines)
    assert any(line.startswith("so\\x1b[31muth ") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_the_name_of_a_column_is_shown_and_not_obeyed() -> None:
    part = Breakdown("si\x1b[31mte", (_cell("north"),))
    lines = _lines(replace(EVALUATION, breakdowns=(part,)))
    assert not any("\x1b" in line for line in lines)


def _compared(disagree: bool, **further: Any) -> Evaluation:
    own = SourceEstimate(0.8, 0.02, (0.76, 0.84), 400, 1.0, 1.0)
    agreement = Agreement(
        by_source={"north": own, "night": replace(own, value=0.5, interval=(0.46, 0.54))},
        p=0.4,
        between_sd=0.1,
        scale="logit",
        margin=0.05,
        disagree=disagree,
        agreed=(0.75, 0.875),
        new_source=(0.2, 0.95),
        shared=1.0,
        without=(WithoutSource("night", 0.8, 0.02, 0.6, 0.0, False),),
    )
    estimate = Estimate(0.8125, 0.03, (0.75, 0.875), 0.9, replace(agreement, **further))
    return replace(EVALUATION, compared={"accuracy": estimate})


def test_sources_that_agree_are_one_line() -> None:
    assert "Accuracy: 2 sources agree (p = 0.4)." in _lines(_compared(False))


def test_sources_that_disagree_are_shown_one_by_one() -> None:
    lines = _lines(_compared(True))
    assert "night 400 50.0 % 46.0 to 54.0" in lines
    assert "all, if they agreed 81.2 % 75.0 to 87.5" in lines
    assert "a source like none of these 20.0 to 95.0" in lines
    assert any("Without night the others agree" in line for line in lines)
    hidden = _compared(True).compared["accuracy"].withhold(["night", "north"])
    assert "night – – –" in _lines(replace(EVALUATION, compared={"accuracy": hidden}))
    two = _lines(_compared(True, new_source=None, without=()))
    assert "a source like none of these cannot say" in two
    assert any("quote each source by itself" in line for line in two)


def test_labels_are_shown_as_labels_and_the_worst_as_an_area() -> None:
    table, predictions, _ = make_sets(labels=("[red]cat", "dog"))
    evaluation = judge(table, predictions, replicates=20)
    console = Console(file=StringIO(), width=160)
    print_evaluation(console, evaluation, None)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert shown.startswith("Multi-label")
    assert "By label" in shown
    worst = evaluation.breakdown("label").worst
    assert worst is not None
    assert f"Worst: {worst.where}, {worst.value:.3f} (" in shown
    assert "[red]cat" in shown
