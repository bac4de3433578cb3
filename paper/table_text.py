"""Write the tables as CSV and Markdown: mean ± two standard deviations over the runs.

The numbers that the article prints are in a column of their own.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paper import article_numbers
from paper.cifar_data import TITLES
from paper.table_cells import Record, TableCell
from paper.table_settings import ARMS, TABLES, Row

COLUMNS = (
    *("dataset", "table", "setting", "arm", "runs", "unsolved", "accuracy", "accuracy_2sd"),
    *("worst_class", "worst_class_2sd", "ess", "notes"),
)
MEASURES = {"accuracy": "Test accuracy", "worst": "Accuracy of the worst class"}


@dataclass(frozen=True)
class Entry:
    """The runs of one arm of one row.

    Attributes
    ----------
    accuracy, worst : (mean, two standard deviations) in points; no deviation with one run; None
        without any.
    runs, unsolved : how many runs have a model, and how many have none because the draw has no
        solution.
    notes : what cells say, with how many say so.
    """

    dataset: str
    table: str
    setting: str
    arm: str
    accuracy: tuple[float, float | None] | None
    worst: tuple[float, float | None] | None
    runs: int
    unsolved: int = 0
    ess: float | None = None
    notes: str = ""


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None] | None:
    """Return (mean, two standard deviations √(Σ (x − mean)²/(R − 1))).

    The second is None for one value.
    """
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    return mean, 2.0 * math.sqrt(
        math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    )


def gather_entries(
    cells: Mapping[TableCell, Record],
    rows: Sequence[Row],
    fair_settings: Mapping[tuple[str, str], str],
) -> list[Entry]:
    """Make an entry for each data set, row and arm with cells, and for every printed number.

    ``fair_settings`` : {(data set, row): the setting of its fair Ref}.
    """
    by_place: dict[tuple[str, str, str], list[Record]] = {}
    for cell in sorted(cells, key=lambda item: item.run):
        by_place.setdefault((cell.dataset, cell.setting, cell.arm), []).append(cells[cell])
    entries = []
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        entries.append(
            _entry(dataset, "reference", "ref", "ref", by_place.get((dataset, "ref", "ref"), []))
        )
        entries += _printed(dataset, "reference", "ref")
        for row in rows:
            for arm in ARMS:
                setting = (
                    fair_settings.get((dataset, row.key), "") if arm == "fair_ref" else row.key
                )
                entries.append(
                    _entry(
                        dataset, row.table, row.key, arm, by_place.get((dataset, setting, arm), [])
                    )
                )
            entries += _printed(dataset, row.table, row.key)
    return [entry for entry in entries if entry.runs or entry.unsolved]


def _entry(dataset: str, table: str, setting: str, arm: str, records: Sequence[Record]) -> Entry:
    solved = [record for record in records if record["accuracy"] is not None]
    notes = Counter(record["note"] for record in records if record["note"])
    return Entry(
        *(dataset, table, setting, arm),
        accuracy=mean_and_spread([record["accuracy"] for record in solved]),
        worst=mean_and_spread([record["worst"] for record in solved]),
        runs=len(solved),
        unsolved=len(records) - len(solved),
        ess=math.fsum(record["ess"] for record in solved) / len(solved) if solved else None,
        notes="; ".join(
            f"{note} ({count} of {len(records)} runs)" for note, count in notes.items()
        ),
    )


def _printed(dataset: str, table: str, setting: str) -> list[Entry]:
    number = article_numbers.PRINTED.get((dataset, setting))
    return (
        []
        if number is None
        else [Entry(dataset, table, setting, "printed", number, None, article_numbers.RUNS)]
    )


def csv_text(entries: Sequence[Entry]) -> str:
    """Write one line for each entry; arm "printed" is the article's own number."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in entries:
        numbers = [
            _digits(value)
            for pair in (entry.accuracy, entry.worst)
            for value in (pair or (None, None))
        ]
        ess = "" if entry.ess is None else f"{entry.ess:.0f}"
        writer.writerow(
            [
                entry.dataset,
                entry.table,
                entry.setting,
                entry.arm,
                entry.runs,
                entry.unsolved,
                *numbers,
                ess,
                entry.notes,
            ]
        )
    return file.getvalue()


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def markdown_text(entries: Sequence[Entry], rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Write a page: origin, accuracy and worst class of every table, and what has no solution."""
    purpose = (
        "Read this page to compare every arm with what the article prints. What rows and columns "
        "are: docs/article-tables.md."
    )
    title = f"# The article's tables, learner {facts['learner']}"
    parts = [title, "", purpose, "", _provenance(facts), ""]
    for dataset in dict.fromkeys(entry.dataset for entry in entries):
        of_set = [entry for entry in entries if entry.dataset == dataset]
        parts += [f"## {TITLES.get(dataset, dataset)}", "", _reference(of_set), ""]
        for table, title in TABLES.items():
            for measure, words in MEASURES.items():
                parts += _table(
                    f"### {title}: {words.lower()}",
                    [entry for entry in of_set if entry.table == table],
                    [row for row in rows if row.table == table],
                    measure,
                )
        parts += _notes(of_set)
    return "\n".join(parts).rstrip() + "\n"


def _provenance(facts: Mapping[str, Any]) -> str:
    return (
        f"Written by `{facts['command']}`; do not edit by hand. Commit {facts['commit']}; runs are "
        f"the seeds {facts['seeds']}, each with its own draw of the databases; {facts['cells']} of "
        f"{facts['wanted']} cells are available. Mean ± two standard deviations over the runs, in "
        "points. Printed: what the article prints (ResNet-56, 205 epochs, 8 runs). Fair Ref: an "
        "unbiased sample of the same size, drawn with replacement."
    )


def _reference(entries: Sequence[Entry]) -> str:
    references = {entry.arm: entry for entry in entries if entry.setting == "ref"}
    words = []
    if "ref" in references:
        words.append(
            f"Ref, all training images: {_shown(references['ref'].accuracy)}, worst class "
            f"{_shown(references['ref'].worst)}."
        )
    if "printed" in references:
        words.append(f"The article's Ref: {_shown(references['printed'].accuracy, 2)}.")
    return " ".join(words)


def _table(heading: str, entries: Sequence[Entry], rows: Sequence[Row], measure: str) -> list[str]:
    by_cell = {(entry.setting, entry.arm): entry for entry in entries}
    arms = {arm: title for arm, title in ARMS.items() if any(entry.arm == arm for entry in entries)}
    if not arms:
        return []
    printed = measure == "accuracy" and any(entry.arm == "printed" for entry in entries)
    lines = [
        heading,
        "",
        "| | " + " | ".join([*arms.values(), *(["printed"] if printed else [])]) + " |",
    ]
    lines.append("|---" * (1 + len(arms) + printed) + "|")
    for row in rows:
        if not any((row.key, arm) in by_cell for arm in arms):
            continue
        shown = [_cell(by_cell.get((row.key, arm)), measure) for arm in arms]
        if printed:
            number = by_cell.get((row.key, "printed"))
            shown.append("" if number is None else _shown(number.accuracy, 2))
        lines.append(f"| {row.label} | " + " | ".join(shown) + " |")
    return [*lines, ""]


def _cell(entry: Entry | None, measure: str) -> str:
    if entry is None:
        return ""
    shown = _shown(entry.accuracy if measure == "accuracy" else entry.worst)
    return (
        shown
        if not entry.unsolved
        else f"{shown} ({entry.unsolved} of {entry.runs + entry.unsolved} runs without a solution)"
    )


def _shown(pair: tuple[float, float | None] | None, digits: int = 1) -> str:
    if pair is None:
        return "–"
    mean, spread = pair
    return f"{mean:.{digits}f}" if spread is None else f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _notes(entries: Sequence[Entry]) -> list[str]:
    lines = [
        f"- {entry.setting}, {ARMS.get(entry.arm, entry.arm)}: {entry.notes}"
        for entry in entries
        if entry.notes
    ]
    return [] if not lines else ["What single runs say:", "", *lines, ""]
