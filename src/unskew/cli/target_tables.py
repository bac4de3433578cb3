"""Several targets as tables for a terminal: verdicts, outcomes, and a model on each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unskew.cli.evaluation_tables import METRICS, show_metric
from unskew.cli.terminal import (
    effective,
    percent,
    print_pairs,
    print_paragraph,
    print_place,
    print_table,
    visible,
)

if TYPE_CHECKING:
    from rich.console import Console

    from unskew.report.summary.outcome_record import OutcomeByTarget, TargetsPanel
    from unskew.runs.evaluate import EvaluationsByTarget

_WORD = {"ok": "yes", "weak": "yes, weakly", "no": "NO"}


def print_target_panel(console: Console, panel: TargetsPanel) -> None:
    """Print the verdict on every target, and the outcomes by target."""
    rows = [
        (
            f"{row.name} (main)" if row.is_main else row.name,
            _WORD[row.level],
            percent(row.uncovered),
            effective(row.ess),
        )
        for row in panel.rows
    ]
    columns = ("target", "can be reached", "not covered", "effective images")
    if rows:
        print_table(console, "Targets", columns, rows, text_columns=2)
    refused = [row for row in panel.rows if row.level == "no"]
    print_pairs(console, [(f"{row.name}:", row.message) for row in refused])
    for own in panel.sets:
        if not own.outcomes:
            continue
        print_table(
            console,
            f"Over the set of margins{f' of {own.name}' if own.name else ''}",
            ("outcome", "lowest", "as given", "highest", "difference", "hangs on the choice"),
            [_outcome_row(outcome) for outcome in own.outcomes],
        )
    if panel.outcomes:
        names = [row.name for row in panel.rows]
        print_table(
            console,
            "Means by target",
            ("outcome", *names, "largest difference", "hangs on the choice"),
            [_outcome_row(outcome) for outcome in panel.outcomes],
        )


def _outcome_row(outcome: OutcomeByTarget) -> list[str]:
    def show(value: float | None, error: float | None) -> str:
        if value is None or error is None:
            return "–"
        if outcome.is_share:
            return f"{100 * value:.1f} ± {100 * error:.1f} %"
        return f"{value:.4g} ± {error:.2g}"

    means = [show(mean.value, mean.stderr) for mean in outcome.means]
    hangs = "yes" if outcome.hangs else "not visibly"
    return [outcome.outcome, *means, show(outcome.difference, outcome.stderr), hangs]


def print_targets(console: Console, evaluations: EvaluationsByTarget, written: Path | None) -> None:
    """Print the metrics of one model on every target, and the worst case."""
    names = list(evaluations.evaluations)
    figures = [own.overall.figures for own in evaluations.evaluations.values()]
    metrics = [metric for metric in METRICS if metric in evaluations.metrics]
    rows = [
        [
            METRICS[metric][0],
            *(show_metric(own[metric], metric) for own in figures),
            evaluations.worst(metric),
        ]
        for metric in metrics
    ]
    level = next(iter(evaluations.evaluations.values())).level
    title = f"On each of {len(names)} targets, with {100 * level:g} % intervals"
    print_table(console, title, ("metric", *names, "worst on"), rows)
    for metric in metrics[:1]:
        worst = evaluations.worst(metric)
        figure = evaluations.evaluations[worst].overall.figures[metric]
        print_paragraph(
            console,
            f"Worst case: {METRICS[metric][0]} {show_metric(figure, metric)} on {visible(worst)}. "
            f"--target {visible(worst)} shows it by class and source.",
        )
    print_pairs(console, _notes(evaluations))
    if written is not None:
        print_place(console, written)


def _notes(evaluations: EvaluationsByTarget) -> list[tuple[str, str]]:
    """Pair every note with the targets it is about; one that is about all has a dot."""
    about: dict[str, list[str]] = {}
    for name, own in evaluations.evaluations.items():
        for note in own.notes:
            about.setdefault(note, []).append(name)
    everywhere = len(evaluations.evaluations)
    return [
        ("·" if len(names) == everywhere else f"{', '.join(names)}:", note)
        for note, names in about.items()
    ]
