"""An experiment behind figures: many small cells, computed in any order by any number of processes, each kept until all are done."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unskew.progress import show_progress
from unskew.saving import write_text

log = logging.getLogger(__name__)

# What a cell is asked for, and what it gives: rows of one or more tables, by the table's name.
Cell = Mapping[str, Any]
Tables = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Place:
    """Where a cell finds its data, and where it may keep what it computes."""

    data: Path
    cache: Path


@dataclass(frozen=True)
class Experiment:
    """What is computed for one or more figures.

    Attributes
    ----------
    name : of its folder while it is unfinished.
    settings : everything that its numbers depend on; a change makes them anew.
    cells : independent parts, plain values only.
    compute : a function at the top of a module, of a cell and a place.
    """

    name: str
    settings: Mapping[str, Any] = field(repr=False)
    cells: Sequence[Cell] = field(repr=False)
    compute: Callable[[Cell, Place], Tables] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Changes with the settings, and with nothing else."""
        return _digest({"settings": self.settings, "cells": list(self.cells)})


def run_experiment(experiment: Experiment, place: Place, folder: Path, *, jobs: int = 1, progress: bool | None = None) -> Tables:
    """The tables of all cells, in the order of the cells. What an interrupted run computed is found in ``folder`` and not computed again."""
    kept = folder / f"{experiment.name}-{experiment.fingerprint}"
    kept.mkdir(parents=True, exist_ok=True)
    files = [kept / f"{_digest(cell)}.json" for cell in experiment.cells]
    waiting = [(cell, file) for cell, file in zip(experiment.cells, files, strict=True) if not file.is_file()]
    with show_progress(experiment.name, len(files), progress) as advance:
        advance(len(files) - len(waiting))
        for _ in _computed(experiment, place, waiting, jobs):
            advance(1)
    tables: Tables = {}
    for file in files:
        for name, rows in json.loads(file.read_text(encoding="utf-8")).items():
            tables.setdefault(name, []).extend(rows)
    return tables


def forget_cells(experiment: Experiment, folder: Path) -> None:
    """Remove what was kept of the cells: the experiment's tables are written, or it shall be computed anew."""
    for each in folder.glob(f"{experiment.name}-*"):
        shutil.rmtree(each, ignore_errors=True)


def _computed(experiment: Experiment, place: Place, waiting: Sequence[tuple[Cell, Path]], jobs: int) -> Iterator[None]:
    if jobs == 1 or len(waiting) < 2:
        for cell, file in waiting:
            _keep(experiment.compute, cell, place, file)
            yield
        return
    import multiprocessing

    # A fork would copy threads of numba and BLAS in mid-work.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(waiting)), mp_context=context, initializer=_be_a_worker) as workers:
        left = {workers.submit(_keep, experiment.compute, cell, place, file) for cell, file in waiting}
        try:
            while left:
                done, left = wait(left, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
                    yield
        finally:
            # After an error or Ctrl-C, cells that did not begin never do.
            workers.shutdown(wait=False, cancel_futures=True)


def _be_a_worker() -> None:
    """Ctrl-C goes to the parent, which tells; one thread each, since there are as many processes as cores."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _keep(compute: Callable[[Cell, Place], Tables], cell: Cell, place: Place, file: Path) -> None:
    write_text(file, json.dumps(compute(cell, place)))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
