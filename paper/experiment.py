"""Run the experiments behind figures: many small cells, computed in any order by processes.

Each cell is kept in a file until all are done.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unskew.engine.progress import show_progress
from unskew.errors import DataError
from unskew.files.atomic import write_text

# Fewer cells than this are done sooner than a process has started.
_FEW = 4
# What a cell is asked for, and what it gives: rows of one or more tables, by the table's name.
Cell = Mapping[str, Any]
Tables = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Folders:
    """The folder of the data, if any, and the folder where a cell may keep what it computes."""

    data: Path | None
    cache: Path


@dataclass(frozen=True)
class Experiment:
    """What is computed for one or more figures.

    Attributes
    ----------
    name : of its folder while it is unfinished.
    settings : everything that its numbers depend on; a change computes them again.
    cells : independent parts, plain values only.
    compute : a function at the top of a module, of a cell and a folders.
    """

    name: str
    settings: Mapping[str, Any] = field(repr=False)
    cells: Sequence[Cell] = field(repr=False)
    compute: Callable[[Cell, Folders], Tables] = field(repr=False)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """List the values that the cells take, by name."""
        names = dict.fromkeys(key for cell in self.cells for key in cell)
        return {
            name: list(dict.fromkeys(cell[name] for cell in self.cells if name in cell))
            for name in names
        }

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the settings."""
        return _digest({"settings": self.settings, "cells": list(self.cells)})


class Workers:
    """Up to ``jobs`` processes, started when the first cells need them.

    With one job everything is computed in this process.
    """

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            # After an error or Ctrl-C, cells that did not begin never do.
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        compute: Callable[[Cell, Folders], Tables],
        folders: Folders,
        waiting: Sequence[tuple[Cell, Path]],
    ) -> Iterator[None]:
        """Compute cells, keep each in its file, and yield as they are done."""
        if self.jobs == 1 or len(waiting) < _FEW:
            for cell, file in waiting:
                _keep(compute, cell, folders, file)
                yield
            return
        if self._pool is None:
            import multiprocessing

            # A fork would copy threads of numba and BLAS in mid-work.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=context, initializer=_be_a_worker
            )
        try:
            for done in as_completed(
                [self._pool.submit(_keep, compute, cell, folders, file) for cell, file in waiting]
            ):
                done.result()
                yield
        except BrokenProcessPool as error:
            raise killed_process() from error


def run_experiment(
    experiment: Experiment,
    folders: Folders,
    folder: Path,
    *,
    workers: Workers | None = None,
    progress: bool | None = None,
) -> Tables:
    """Compute the tables of all cells, in the order of the cells.

    Cells that an interrupted run kept in ``folder`` are not computed again.
    """
    kept = folder / f"{experiment.name}-{experiment.fingerprint}"
    kept.mkdir(parents=True, exist_ok=True)
    files = [kept / f"{_digest(cell)}.json" for cell in experiment.cells]
    waiting = [
        (cell, file)
        for cell, file in zip(experiment.cells, files, strict=True)
        if not file.is_file()
    ]
    with show_progress(experiment.name, len(files), progress) as advance:
        advance(len(files) - len(waiting))
        for _ in (workers or Workers()).run(experiment.compute, folders, waiting):
            advance(1)
    tables: Tables = {}
    for file in files:
        for name, rows in json.loads(file.read_text(encoding="utf-8")).items():
            tables.setdefault(name, []).extend(rows)
    return tables


def killed_process() -> DataError:
    """Make the error for a process that the system ended."""
    return DataError(
        "one of the processes was killed, most likely because memory ran out. What was computed is "
        "kept: run the same command again, with --jobs 1 if memory is short."
    )


def forget_cells(experiment: Experiment, folder: Path) -> None:
    """Remove the stored cells of an experiment.

    Its tables are written, or everything is to be computed again.
    """
    for kept in folder.glob(f"{experiment.name}-*"):
        shutil.rmtree(kept, ignore_errors=True)


def _be_a_worker() -> None:
    """Leave Ctrl-C to the parent, and use one thread: there are as many processes as cores."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process with its parent: a killed parent would leave workers waiting forever."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _keep(
    compute: Callable[[Cell, Folders], Tables], cell: Cell, folders: Folders, file: Path
) -> None:
    write_text(file, json.dumps(compute(cell, folders)))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
