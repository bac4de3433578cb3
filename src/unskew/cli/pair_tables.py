"""Error rates of compared pairs as tables for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unskew.cli.terminal import (
    effective,
    number,
    print_pairs,
    print_paragraph,
    print_place,
    print_table,
    visible,
)

if TYPE_CHECKING:
    from rich.console import Console

    from unskew.evaluation.pair_cells import PairGap, PairPoint
    from unskew.evaluation.pair_intervals import PairFigure
    from unskew.evaluation.pairs import PairBreakdown, PairEvaluation


def print_pair_evaluation(
    console: Console, evaluation: PairEvaluation, written: Path | None
) -> None:
    """Print the error rates: over all, by subgroup, and the largest gaps."""
    covered, cell = evaluation.coverage, evaluation.overall
    print_paragraph(
        console,
        f"{visible(evaluation.split).capitalize()}: {number(covered.genuine)} genuine and "
        f"{number(covered.impostor)} impostor pairs, {effective(cell.persons)} effective "
        "persons.\n",
    )
    interval = f"{100 * evaluation.level:g} % interval"
    rows = [["equal error rate", "", *_cells(cell.equal_error)]]
    for point in cell.points:
        rows.append([f"FMR at {_place(point)}", f"{point.threshold:.4g}", *_cells(point.fmr)])
        rows.append([f"FNMR at {_place(point)}", f"{point.threshold:.4g}", *_cells(point.fnmr)])
    columns = ("rate", "threshold", "weighted", interval, "unweighted")
    print_table(console, "On the target", columns, rows)
    for part in evaluation.breakdowns:
        _print_breakdown(console, part, interval)
    if any(cell.few for part in evaluation.breakdowns for cell in part.cells) or cell.few:
        few = f"* fewer than {evaluation.few_effective:g} effective persons: too few to say much."
        print_paragraph(console, few)
    print_pairs(console, [("·", note) for note in evaluation.notes])
    if written is not None:
        print_place(console, written)


def _print_breakdown(console: Console, part: PairBreakdown, interval: str) -> None:
    if part.cells:
        points = part.cells[0].points
        heads = [f"{rate} at {_place(point)}" for point in points for rate in ("FMR", "FNMR")]
        rows = [
            [
                cell.name + ("*" if cell.few else ""),
                number(cell.genuine),
                number(cell.impostor),
                _with_interval(cell.equal_error),
                *(_with_interval(rate) for at in cell.points for rate in (at.fmr, at.fnmr)),
            ]
            for cell in part.cells
        ]
        columns = (part.column, "genuine", "impostor", "EER", *heads)
        print_table(console, f"By {visible(part.column)}", columns, rows)
    if part.largest:
        rows = [
            [
                f"{gap.rate.upper()} at {_place(gap)}",
                f"{gap.first} − {gap.second}",
                *_cells(gap.figure, " pt"),
            ]
            for gap in part.largest
        ]
        columns = ("rate", "subgroups", "gap", interval, "unweighted")
        title = f"Largest gaps by {visible(part.column)} (intervals count the choice)"
        print_table(console, title, columns, rows, text_columns=2)
    if part.withheld:
        print_paragraph(
            console,
            f"By {visible(part.column)}: {part.withheld} withheld, which have fewer than ten or "
            "would reveal those that do.\n",
        )


def _place(point: PairPoint | PairGap) -> str:
    if point.target_fmr is not None:
        return f"FMR {100 * point.target_fmr:g} %"
    return f"{point.threshold:.4g}"


def _share(value: float | None, unit: str = " %") -> str:
    return "–" if value is None else f"{100 * value:.3g}{unit}"


def _ends(figure: PairFigure) -> str:
    if figure.interval is None:
        return "–"
    return " to ".join(_share(end, "") for end in figure.interval)


def _cells(figure: PairFigure, unit: str = " %") -> list[str]:
    return [_share(figure.value, unit), _ends(figure), _share(figure.unweighted, unit)]


def _with_interval(figure: PairFigure) -> str:
    return "–" if figure.value is None else f"{_share(figure.value)} ({_ends(figure)})"
