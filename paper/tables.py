"""Write the article's tables with a chosen learner, cell by cell: ``python -m paper tables``.

Cells that exist are not computed again.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paper.arguments import check_names, check_output_folder, check_runs
from paper.article_numbers import RUNS
from paper.cifar_data import DATA_SETS, TITLES, present_sets
from paper.plotting import figure_style, save_figure
from paper.table_cells import (
    CellStore,
    Record,
    TableCell,
    Workplace,
    cell_fingerprint,
    load_dataset,
    run_cells,
)
from paper.table_learners import Learner, NetworkLearner, find_learner
from paper.table_picture import draw_entries
from paper.table_settings import ARMS, Row, images_drawn, images_learned, list_rows
from paper.table_text import csv_text, gather_entries, markdown_text
from unskew.engine.progress import show_progress
from unskew.errors import ConfigError
from unskew.files.atomic import write_text

LEARNERS = ("probe", "fast", "article")
# What the small network is trained on when nobody says so: where arms differ most.
FAST_SETTINGS = ("classes-0.001", "acquisition-0.1", "classes-0.1-0.3", "missing-500")
FAST_ARMS = ("fair_ref", "naive", "article", "as_published", "exact", "soft_box")
_CACHE = ".cache"
# Cells between two writings of the tables.
_OFTEN = 40


@dataclass(frozen=True)
class TableSet:
    """The result of ``write_tables``: files, cells computed and available, notes for the reader."""

    files: tuple[str, ...]
    computed: int
    cells: int
    notes: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True)
class _Selection:
    """The selected part of the grid."""

    datasets: tuple[str, ...]
    rows: tuple[Row, ...]
    arms: tuple[str, ...]
    runs: int


def write_tables(
    data: Path,
    out: Path,
    learner: str | Learner = "probe",
    *,
    runs: int = RUNS,
    datasets: Sequence[str] = (),
    settings: Sequence[str] = (),
    arms: Sequence[str] = (),
    features: Path | None = None,
    force: bool = False,
    jobs: int = 1,
    progress: bool | None = None,
    report: Callable[[str], None] = lambda sentence: None,
) -> TableSet:
    """Compute the missing cells, and write tables-LEARNER.csv, .md and a picture, .png and .svg.

    Every cell, one data set, setting, run and arm, is a line of results-LEARNER.jsonl as soon as it
    is computed.

    Parameters
    ----------
    data : where CIFAR-10 and CIFAR-100 are (`paper.cifar_data`); one of the two is enough.
    learner : "probe", "fast", "article", or one of your own.
    runs : draws of the databases; run r has the seed r.
    datasets, settings, arms : keys; all by default, for "fast" `FAST_SETTINGS` and `FAST_ARMS` on
        CIFAR-10.
    features : folder of the cached features; by default below ``out``.
    force : compute the requested cells again.
    jobs : processes.
    report : called with what should be known before the work begins, and with every cell.
    """
    check_runs(runs)
    chosen = find_learner(learner) if isinstance(learner, str) else learner
    selection = _select(chosen.name, present_sets(data), datasets, settings, arms, runs)
    check_output_folder(out, "tables")
    cache = out / _CACHE
    cache.mkdir(parents=True, exist_ok=True)
    workplace = Workplace(chosen, data, features or cache, cache)
    notes = [
        f"{TITLES[name]} is not in {data}: it is left out."
        for name in DATA_SETS
        if name not in present_sets(data)
    ]
    store = CellStore(out / f"results-{chosen.name}.jsonl")
    wanted, fair, fingerprints = _plan(selection, workplace)
    if force:
        store.forget(wanted)
    there = store.read(fingerprints)
    waiting = [cell for cell in wanted if cell not in there]
    if waiting and isinstance(chosen, NetworkLearner):
        report(_time_needed(chosen, waiting, workplace))
    tables = _Tables(out, chosen.name, selection, wanted, fair)
    commit = find_commit()
    with show_progress("cells", len(wanted), progress) as advance:
        advance(len(wanted) - len(waiting))
        for at, record in enumerate(run_cells(waiting, workplace, jobs), start=1):
            store.add(record | {"commit": commit})
            advance(1)
            report(_sentence(record))
            if at % _OFTEN == 0:
                tables.write(store.read(fingerprints), commit)
    records = store.read(fingerprints)
    files = tables.write(records, commit)
    if importlib.util.find_spec("matplotlib") is not None:
        files += tables.draw(records)
    else:
        notes.append("No picture was drawn: that needs matplotlib, pip install matplotlib.")
    return TableSet(
        (*files, store.path.name),
        len(waiting),
        len(records),
        tuple(notes + _unsolved(records, wanted)),
    )


def _select(
    learner: str,
    present: Sequence[str],
    datasets: Sequence[str],
    settings: Sequence[str],
    arms: Sequence[str],
    runs: int,
) -> _Selection:
    rows = list_rows()
    check_names("data set", datasets, DATA_SETS)
    check_names("setting", settings, rows)
    check_names("arm", arms, ("ref", *ARMS))
    missing = [name for name in datasets if name not in present]
    if missing:
        raise ConfigError(
            f"the data folder has {', '.join(present)}, but not {', '.join(missing)}.",
            value=missing,
            allowed=list(present),
        )
    is_fast = learner == "fast"
    default_sets = [name for name in present if name == "cifar10" or not is_fast] or list(present)
    return _Selection(
        tuple(name for name in DATA_SETS if name in (datasets or default_sets)),
        tuple(
            rows[key] for key in rows if key in (settings or (FAST_SETTINGS if is_fast else rows))
        ),
        tuple(arms or (FAST_ARMS if is_fast else ("ref", *ARMS))),
        runs,
    )


def _plan(
    selection: _Selection, workplace: Workplace
) -> tuple[list[TableCell], dict[tuple[str, str], str], dict[str, str]]:
    """Return (cells in order of computation, each row's fair Ref, fingerprints by data set).

    References come once: Ref once for each data set (once for each run where the learner is
    random), fair Ref once for each run and size.
    """
    cells: dict[TableCell, None] = {}
    fair: dict[tuple[str, str], str] = {}
    fingerprints = {}
    for name in selection.datasets:
        dataset = load_dataset(workplace, name)
        workplace.learner.prepare(dataset, workplace.cache)
        fingerprints[name] = cell_fingerprint(workplace.learner, dataset)
        for run in range(selection.runs):
            if "ref" in selection.arms and (run == 0 or workplace.learner.is_random):
                cells[TableCell(name, "ref", run, "ref")] = None
            for row in selection.rows:
                fair[name, row.key] = f"fair-{images_drawn(row, dataset.n, dataset.n_classes)}"
                if "fair_ref" in selection.arms:
                    cells[TableCell(name, fair[name, row.key], run, "fair_ref")] = None
                cells |= {
                    TableCell(name, row.key, run, arm): None
                    for arm in row.arms
                    if arm in selection.arms
                }
    return list(cells), fair, fingerprints


def _time_needed(
    learner: NetworkLearner, waiting: Sequence[TableCell], workplace: Workplace
) -> str:
    dataset = load_dataset(workplace, waiting[0].dataset)
    rate = learner.images_per_second(dataset, workplace.cache / "two-steps")
    rows = list_rows()
    images = [
        images_learned(rows[cell.setting], cell.arm, dataset.n, dataset.n_classes)
        if cell.setting in rows
        else dataset.n
        for cell in waiting
    ]
    hours = [learner.epochs * count / rate / 3600 for count in images]
    return (
        f"{_count(len(waiting), 'cell')} with the learner {learner.name}, "
        f"{_count(learner.epochs, 'epoch')} each. "
        f"Two steps ran at {rate:.0f} images a second: a cell takes up to {_duration(max(hours))}, "
        f"all of them about {_duration(sum(hours))} one after the other. "
        "Stop it at any time: the same command resumes."
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def _duration(hours: float) -> str:
    if hours < 1:
        return f"{max(60 * hours, 0.1):.1f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


@dataclass(frozen=True)
class _Tables:
    out: Path
    learner: str
    selection: _Selection
    wanted: Sequence[TableCell]
    fair: Mapping[tuple[str, str], str]

    def write(self, records: Mapping[TableCell, Record], commit: str) -> tuple[str, ...]:
        """Write the tables of those requested cells that exist."""
        cells = self._asked_for(records)
        entries = gather_entries(cells, self.selection.rows, self.fair)
        facts = {
            "learner": self.learner,
            "command": self._command(),
            "commit": ", ".join(
                dict.fromkeys(str(record.get("commit", commit)) for record in cells.values())
            )
            or commit,
            "seeds": "0" if self.selection.runs == 1 else f"0 … {self.selection.runs - 1}",
            "cells": len(cells),
            "wanted": len(self.wanted),
        }
        names = (f"tables-{self.learner}.csv", f"tables-{self.learner}.md")
        write_text(self.out / names[0], csv_text(entries))
        write_text(self.out / names[1], markdown_text(entries, self.selection.rows, facts))
        return names

    def draw(self, records: Mapping[TableCell, Record]) -> tuple[str, ...]:
        """Draw the picture as PNG and SVG; none without a fair Ref to compare with."""
        with figure_style():
            figure = draw_entries(
                gather_entries(self._asked_for(records), self.selection.rows, self.fair),
                self.selection.rows,
            )
            if figure is None:
                return ()
            slug = f"tables-{self.learner}"
            save_figure(figure, self.out, slug)
        return (f"{slug}.png", f"{slug}.svg")

    def _asked_for(self, records: Mapping[TableCell, Record]) -> dict[TableCell, Record]:
        return {cell: records[cell] for cell in self.wanted if cell in records}

    def _command(self) -> str:
        """Return the command that makes these tables, without the folders of this machine."""
        words = [
            "python -m paper tables --data DATA -o OUT",
            f"--learner {self.learner}",
            f"--runs {self.selection.runs}",
        ]
        if len(self.selection.datasets) < len(DATA_SETS):
            words.append(f"--datasets {','.join(self.selection.datasets)}")
        if len(self.selection.rows) < len(list_rows()):
            words.append(f"--settings {','.join(row.key for row in self.selection.rows)}")
        if len(self.selection.arms) < 1 + len(ARMS):
            words.append(f"--arms {','.join(self.selection.arms)}")
        return " ".join(words)


def _sentence(record: Record) -> str:
    cell = f"{record['dataset']} {record['setting']} run {record['run']} {record['arm']}"
    if record["accuracy"] is None:
        return f"{cell}: no solution, {record['note']}"
    return f"{cell}: {record['accuracy']:.2f}, worst class {record['worst']:.2f}"


def _unsolved(records: Mapping[TableCell, Record], wanted: Sequence[TableCell]) -> list[str]:
    """Say how many cells have no solution, and name the first."""
    without = [cell for cell in wanted if cell in records and records[cell]["accuracy"] is None]
    if not without:
        return []
    first = without[0]
    return [
        f"{len(without)} of {len(wanted)} cells have no solution; the tables count them. The "
        f"first: {first.dataset} {first.setting} "
        f"run {first.run} {first.arm} ({records[first]['note']})."
    ]


def find_commit() -> str:
    """Return the commit of the checkout, noting uncommitted changes; without one the version."""
    from unskew.files.fingerprints import find_versions

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src", ".")
    except (OSError, subprocess.CalledProcessError):
        return f"of version {find_versions()['unskew']}"
    return commit + (" with uncommitted changes" if changed else "")
