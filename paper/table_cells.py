"""Compute the cells of the tables, one data set, setting, run and arm each, and keep them.

One or more processes compute; the file has one line for each cell.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from paper.experiment import killed_process
from paper.settings import Population, Setting
from paper.table_arms import Weighted, reference_images, weigh_arm
from paper.table_learners import DataSet, Learner, score_answers
from paper.table_settings import REFERENCES, list_rows
from unskew.errors import DataError
from unskew.files.atomic import write_text
from unskew.scenarios import Scenario

# Raised when the same settings give other numbers than before.
_VERSION = 1
Record = dict[str, Any]


@dataclass(frozen=True)
class TableCell:
    """One cell of the tables.

    ``setting`` is the key of a row, "ref", or "fair-50000": an unbiased sample of so many images.
    """

    dataset: str
    setting: str
    run: int
    arm: str


@dataclass(frozen=True)
class Workplace:
    """Everything a process needs to compute a cell."""

    learner: Learner
    data: Path
    features: Path
    cache: Path


class CellStore:
    """A file of JSON lines, one for each cell; the last line of a cell counts.

    Only one process writes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, fingerprints: dict[str, str]) -> dict[TableCell, Record]:
        """Read the cells with these fingerprints of data and learner, {data set: fingerprint}."""
        records: dict[TableCell, Record] = {}
        for record in self._lines():
            if record.get("fingerprint") == fingerprints.get(str(record.get("dataset")), ""):
                records[
                    TableCell(record["dataset"], record["setting"], record["run"], record["arm"])
                ] = record
        return records

    def add(self, record: Record) -> None:
        """Append a line in one write: a killed process leaves at most one cut line at the end."""
        torn = self.path.exists() and self.path.stat().st_size > 0 and not self._ends_whole()
        line = ("\n" if torn else "") + json.dumps(record, ensure_ascii=False) + "\n"
        try:
            with self.path.open("ab", buffering=0) as file:
                file.write(line.encode())
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be written ({error.strerror or error}); all lines before are "
                "kept.",
                path=str(self.path),
            ) from error

    def forget(self, cells: Iterable[TableCell]) -> None:
        """Remove cells, whatever they were computed with."""
        gone = {(cell.dataset, cell.setting, cell.run, cell.arm) for cell in cells}
        kept = [
            record
            for record in self._lines()
            if (record.get("dataset"), record.get("setting"), record.get("run"), record.get("arm"))
            not in gone
        ]
        if self.path.exists():
            write_text(
                self.path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept)
            )

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _lines(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # cut short by a kill
                continue
            if isinstance(record, dict):
                yield record


def cell_fingerprint(learner: Learner, dataset: DataSet) -> str:
    """Return a fingerprint of the learner's settings, the data and the version of the arms."""
    settings = json.dumps([_VERSION, learner.settings, dataset.fingerprint], sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def compute_cell(cell: TableCell, workplace: Workplace) -> Record:
    """Draw the sources, weigh, train, and score on the test images.

    An arm without a solution has no accuracy, but a note.
    """
    begin = time.process_time()
    dataset = load_dataset(workplace, cell.dataset)
    arm = _weighted(cell, dataset)
    record: Record = {
        **asdict(cell),
        "accuracy": None,
        "worst": None,
        "worst_class": None,
        "images": int(arm.index.size),
    }
    if arm.weight is not None:
        folder = (
            workplace.cache
            / f"{workplace.learner.name}-{cell.dataset}-{cell.setting}-{cell.run}-{cell.arm}"
        )
        answer_n = workplace.learner.classify(dataset, arm, cell.run, folder)
        record["accuracy"], record["worst"], record["worst_class"] = score_answers(
            answer_n, dataset.test_label
        )
    return record | {
        "ess": round(arm.ess, 1),
        "note": arm.note,
        "cpu": round(time.process_time() - begin, 2),
        "fingerprint": cell_fingerprint(workplace.learner, dataset),
    }


def load_dataset(workplace: Workplace, name: str) -> DataSet:
    """Load a data set once in each process."""
    return _load(workplace.learner, workplace.data, name, workplace.features)


@lru_cache(maxsize=2)
def _load(learner: Learner, data: Path, name: str, features: Path) -> DataSet:
    return learner.load(data, name, features)


def _weighted(cell: TableCell, dataset: DataSet) -> Weighted:
    if cell.arm in REFERENCES:
        size = dataset.n if cell.arm == "ref" else int(cell.setting.removeprefix("fair-"))
        return reference_images(dataset.population, cell.arm, size, cell.run)
    setting = list_rows()[cell.setting].make(dataset.n, dataset.n_classes)
    return weigh_arm(
        cell.arm,
        setting,
        _scenario(setting, dataset.population, cell.run),
        dataset.population,
        cell.run,
    )


@lru_cache(maxsize=1)
def _scenario(setting: Setting, population: Population, run: int) -> Scenario:
    """Draw the sources once for all arms of a draw, which follow one another."""
    return setting.scenario(population, run)


def run_cells(cells: Sequence[TableCell], workplace: Workplace, jobs: int) -> Iterator[Record]:
    """Compute cells in up to ``jobs`` processes and yield each record when it is done."""
    if jobs == 1 or len(cells) < 2:
        yield from (compute_cell(cell, workplace) for cell in cells)
        return
    import multiprocessing

    # A fork would copy threads of numba and BLAS in mid-work.
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_end_quietly
    )
    try:
        for done in as_completed([pool.submit(compute_cell, cell, workplace) for cell in cells]):
            yield done.result()
    except BrokenProcessPool as error:
        raise killed_process() from error
    finally:
        # After an error or Ctrl-C, cells that did not begin never do.
        pool.shutdown(wait=True, cancel_futures=True)


def _end_quietly() -> None:
    """End a process at Ctrl-C without a message; the parent reports.

    A network may be a day from its end, and its epochs are kept.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
