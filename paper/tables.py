"""``python -m paper tables``: the article's tables with a learner of one's choice, cell by cell;
what is there is not computed again.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper.article_numbers import RUNS
from paper.plotting import figure_style, save_figure
from paper.populations import DATA_SETS, TITLES, present_sets
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
from paper.table_settings import ARMS, Row, images_drawn, list_rows
from paper.table_text import csv_text, gather_entries, markdown_text
from unskew.engine.progress import show_progress
from unskew.errors import ConfigError, DataError, did_you_mean
from unskew.files.atomic import may_write, write_text

LEARNERS = ("probe", "fast", "article")
# What the small network is trained on when nobody says so: where arms differ most.
FAST_SETTINGS = ("classes-0.001", "acquisition-0.1", "classes-0.1-0.3", "missing-500")
FAST_ARMS = ("fair_ref", "naive", "article", "as_published", "exact", "soft_box")
_CACHE = ".cache"
# Cells between two writings of the tables.
_OFTEN = 40


@dataclass(frozen=True)
class TableSet:
    """What ``write_tables`` did: its files, how many cells it computed, how many there are, what a
    reader should know.
    """

    files: tuple[str, ...]
    computed: int
    cells: int
    notes: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True)
class _Selection:
    """Which part of the grid is asked for; None: the learner's own."""

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
    tell: Callable[[str], None] = lambda sentence: None,
) -> TableSet:
    """Compute the cells that are missing, and write tables-LEARNER.csv, .md, and a picture, .png
    and .svg.

    Every cell, one data set, setting, run and arm, is a line of results-LEARNER.jsonl as soon as it
    is computed.

    Parameters
    ----------
    data : the folder that holds cifar10 and cifar100 as sheets; one of the two is enough.
    learner : "probe", "fast", "article", or one of your own.
    runs : draws of the databases; run r has the seed r.
    datasets, settings, arms : keys; all by default, for "fast" `FAST_SETTINGS` and `FAST_ARMS` on
        CIFAR-10.
    features : where cached features lie, or are put; by default below ``out``.
    force : compute the cells that are asked for anew.
    jobs : processes.
    tell : called with what should be known before the work begins, and with every cell.
    """
    if runs < 1:
        raise ConfigError(f"runs is the number of draws of the databases, at least 1; got {runs}.")
    chosen = find_learner(learner) if isinstance(learner, str) else learner
    selection = _select(chosen.name, present_sets(data), datasets, settings, arms, runs)
    _check_folder(out)
    cache = out / _CACHE
    cache.mkdir(parents=True, exist_ok=True)
    place = Workplace(chosen, data, features or cache, cache)
    notes = [
        f"{TITLES[name]} is not in {data}: it is left out."
        for name in DATA_SETS
        if name not in present_sets(data)
    ]
    store = CellStore(out / f"results-{chosen.name}.jsonl")
    wanted, fair, fingerprints = _plan(selection, place)
    if force:
        store.forget(wanted)
    there = store.read(fingerprints)
    waiting = [cell for cell in wanted if cell not in there]
    if waiting and isinstance(chosen, NetworkLearner):
        tell(_time_needed(chosen, waiting, place))
    tables = _Tables(out, chosen.name, selection, wanted, fair)
    commit = find_commit()
    with show_progress("cells", len(wanted), progress) as advance:
        advance(len(wanted) - len(waiting))
        for at, record in enumerate(run_cells(waiting, place, jobs), start=1):
            store.add(record | {"commit": commit})
            advance(1)
            tell(_sentence(record))
            if at % _OFTEN == 0:
                tables.write(store.read(fingerprints), commit)
    found = store.read(fingerprints)
    files = tables.write(found, commit)
    if importlib.util.find_spec("matplotlib") is not None:
        files += tables.draw(found)
    else:
        notes.append("No picture was drawn: that needs matplotlib, pip install matplotlib.")
    return TableSet(
        (*files, store.path.name), len(waiting), len(found), tuple(notes + _unsolved(found, wanted))
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
    _check_names("data set", datasets, DATA_SETS)
    _check_names("setting", settings, rows)
    _check_names("arm", arms, ("ref", *ARMS))
    missing = [name for name in datasets if name not in present]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)} is not in the folder of the data; there is {', '.join(present)}."
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


def _check_names(what: str, given: Sequence[str], known: Sequence[str] | Mapping[str, Any]) -> None:
    for each in given:
        if each not in known:
            raise ConfigError(
                f"there is no {what} {each!r}; there are "
                f"{', '.join(known)}.{did_you_mean(each, known)}"
            )


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError(
            f"{str(out)!r} is a file; tables are written into a folder. Give another one with -o."
        )
    if not may_write(out):
        raise DataError(
            f"nothing can be written into {str(out)!r}: it is read-only for you. Give another "
            "folder with -o."
        )


def _plan(
    selection: _Selection, place: Workplace
) -> tuple[list[TableCell], dict[tuple[str, str], str], dict[str, str]]:
    """(cells in the order in which they are computed, the setting of each row's fair Ref,
    fingerprints by data set).

    References come once: Ref once for each data set (once for each run where the learner is
    random), fair Ref once for each run and size.
    """
    cells: dict[TableCell, None] = {}
    fair: dict[tuple[str, str], str] = {}
    fingerprints = {}
    for name in selection.datasets:
        dataset = load_dataset(place, name)
        place.learner.prepare(dataset, place.cache)
        fingerprints[name] = cell_fingerprint(place.learner, dataset)
        for run in range(selection.runs):
            if "ref" in selection.arms and (run == 0 or place.learner.is_random):
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


def _time_needed(learner: NetworkLearner, waiting: Sequence[TableCell], place: Workplace) -> str:
    dataset = load_dataset(place, waiting[0].dataset)
    rate = learner.images_per_second(dataset, place.cache / "two-steps")
    hours = learner.epochs * dataset.n / rate / 3600
    return (
        f"{_count(len(waiting), 'cell')} with the learner {learner.name}, "
        f"{_count(learner.epochs, 'epoch')} each. "
        f"Two steps ran at {rate:.0f} images a second: a cell takes about {_duration(hours)}, "
        f"all of them about {_duration(hours * len(waiting))} one after the other. "
        "Stop it at any time: the same command goes on where it was."
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

    def write(self, found: Mapping[TableCell, Record], commit: str) -> tuple[str, ...]:
        """Of the cells that were asked for, those that are there."""
        cells = self._asked_for(found)
        entries = gather_entries(cells, self.selection.rows, self.fair)
        facts = {
            "learner": self.learner,
            "command": self._command(),
            "commit": ", ".join(
                dict.fromkeys(str(each.get("commit", commit)) for each in cells.values())
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

    def draw(self, found: Mapping[TableCell, Record]) -> tuple[str, ...]:
        """The picture, as PNG and SVG; none without a fair Ref to compare with."""
        with figure_style():
            figure = draw_entries(
                gather_entries(self._asked_for(found), self.selection.rows, self.fair),
                self.selection.rows,
            )
            if figure is None:
                return ()
            slug = f"tables-{self.learner}"
            save_figure(figure, self.out, slug)
        return (f"{slug}.png", f"{slug}.svg")

    def _asked_for(self, found: Mapping[TableCell, Record]) -> dict[TableCell, Record]:
        return {cell: found[cell] for cell in self.wanted if cell in found}

    def _command(self) -> str:
        """What gives these tables, without the folders of this machine."""
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
    place = f"{record['dataset']} {record['setting']} run {record['run']} {record['arm']}"
    if record["accuracy"] is None:
        return f"{place}: no solution, {record['note']}"
    return f"{place}: {record['accuracy']:.2f}, worst class {record['worst']:.2f}"


def _unsolved(found: Mapping[TableCell, Record], wanted: Sequence[TableCell]) -> list[str]:
    """How many cells have no solution, and the first by name."""
    without = [cell for cell in wanted if cell in found and found[cell]["accuracy"] is None]
    if not without:
        return []
    first = without[0]
    return [
        f"{len(without)} of {len(wanted)} cells have no solution; the tables count them. The "
        f"first: {first.dataset} {first.setting} "
        f"run {first.run} {first.arm} ({found[first]['note']})."
    ]


def find_commit() -> str:
    """The commit of the checkout that runs, with a remark if files differ from it; the version
    where there is no checkout.
    """
    from unskew.files.fingerprints import find_versions

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "../..")
    except (OSError, subprocess.CalledProcessError):
        return f"of version {find_versions()['unskew']}"
    return commit + (" with uncommitted changes" if changed else "")
