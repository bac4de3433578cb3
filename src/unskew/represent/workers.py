"""The threads and processes of a run; results gathered and written.

They take more than a second to start, so threads begin, and all but one give way to processes where
much is left to do. They are started by loky (part of joblib, which scikit-learn needs): unlike
those of the standard library they do not run the user's script again, so it needs no ``if __name__
== "__main__"``.
"""

from __future__ import annotations

import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.engine.parent_watch import end_with_parent, nothing_from_here
from unskew.errors import DataError, wrong_option
from unskew.files.leftovers import temporary_folder
from unskew.files.row_file import RowFile
from unskew.records.arrays import Bools, Ints
from unskew.records.pool import ChosenImages, Images, JoinedImages
from unskew.represent.base import Representation
from unskew.represent.decode import pillow_unlimited
from unskew.represent.feature_cache import KEY_DTYPE, Shelf, open_file_shelf, open_shelf
from unskew.represent.image_tasks import KnownContent, TaskResult, Worker
from unskew.represent.user_functions import OwnFunction


class Processes:
    """Several processes that all know what one `Worker` knows."""

    def __init__(self, worker: Worker, count: int) -> None:
        import joblib
        from joblib.externals.loky import ProcessPoolExecutor

        self._folder = temporary_folder()
        self._file = str(Path(self._folder.name) / "worker")
        # By a file: arrays in it are mapped into memory, once for all processes.
        joblib.dump(worker.shared_among(count + 1, f"{self._file}.lock"), self._file)
        with nothing_from_here():
            self._executor = ProcessPoolExecutor(
                count,
                env={name: "1" for name in (*_THREADS, "PYTHONSAFEPATH")},
                initializer=_start_process,
                initargs=(os.getpid(), self._folder.name),
            )

    def submit(self, rows: Sequence[int]) -> Future[TaskResult]:
        """Compute everything about these rows in one of the processes."""
        with nothing_from_here():
            return self._executor.submit(_work, self._file, rows)  # type: ignore[no-any-return]

    def end(self) -> None:
        """End the processes at once: they write nothing, so only unfinished work is lost."""
        self._executor.shutdown(wait=True, kill_workers=True)
        self._folder.cleanup()


# Each process uses one core: these libraries would start threads of their own.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def can_use_processes(worker: Worker, jobs: int) -> bool:
    """Tell whether these images are files and the representations are part of unskew.

    Arrays would have to be copied to the processes; a function of the user's own may be known to
    this process alone; a network uses all cores by itself. Processes that were started by
    `multiprocessing` as daemons may not start others.
    """
    import multiprocessing

    n = len(worker.images)
    return (
        jobs > 1
        and n > 0
        and not multiprocessing.current_process().daemon
        and _are_known_files(worker.images)
        and all(worker.images.place(row) is not None for row in {0, n // 2, n - 1})
        and all(_is_known(representation) for representation in worker.representations)
    )


def _is_known(representation: Representation) -> bool:
    kind = type(representation)
    return _comes_with_unskew(kind) and kind is not OwnFunction and not representation.one_at_a_time


def _are_known_files(images: Images) -> bool:
    """Tell whether another process can open these images, too."""
    if isinstance(images, JoinedImages):
        return all(_are_known_files(part) for part in images.parts)
    if isinstance(images, ChosenImages):
        return _are_known_files(images.images)
    return _comes_with_unskew(type(images))


def _comes_with_unskew(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "unskew"


def result_of(future: Future[TaskResult]) -> TaskResult:
    """Return what a process or thread computed, or raise a clear error where a process died."""
    from concurrent.futures import BrokenExecutor

    try:
        return future.result()
    except BrokenExecutor as error:
        raise DataError(
            "a process that decoded images ended abruptly: memory ran out, or a file makes the "
            "decoder crash. With a cache, what was computed is kept. Run again with one job "
            "(--jobs 1, jobs=1), which starts no processes.",
            option="jobs",
        ) from error


_WORKERS: dict[str, Worker] = {}


def _start_process(parent: int, folder: str) -> None:
    """Leave it to the process that started this one when to end, and end with it."""
    # Ctrl-C and SIGHUP reach all processes of a terminal, and SIGTERM all those of a job.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has two of them
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    end_with_parent(parent, folder)


def _work(file: str, rows: Sequence[int]) -> TaskResult:
    """Run a task in one of the processes; the worker is read when it is first needed."""
    if file not in _WORKERS:
        import joblib

        _WORKERS[file] = joblib.load(file, mmap_mode="r")
    with pillow_unlimited():
        return _WORKERS[file].work(rows)


_ROWS_PER_TASK = 64
_FEW_JOBS = 8
# How often results are written: what a killed run can lose.
_WRITE_ROWS, _WRITE_BYTES, _WRITE_SECONDS = 4096, 64 * 2**20, 15.0
# Work left, in seconds of all threads, from which on processes are started, which takes one or two.
_WORTH_PROCESSES = 4.0
# Larger tables of values (embeddings of many images) are kept in a temporary file instead of
# memory.
_LARGEST_IN_MEMORY = 256 * 2**20


class Results:
    """Values of all rows, filled as they come: (n, d) for each representation once d is known.

    With ``memory``, tables of more megabytes than that are a `RowFile`.
    """

    def __init__(
        self,
        n: int,
        representations: Sequence[Representation],
        shelves: Sequence[Shelf] | None,
        files: Shelf | None,
        hashes: bool = False,
        memory: int | None = None,
    ) -> None:
        self.n, self.representations, self.memory = n, representations, memory
        self.shelves, self.files, self.hashes = shelves, files, hashes
        self.content = np.zeros(n, dtype=KEY_DTYPE)
        self.failed: dict[int, str] = {}
        self.values: list[Any] = [None] * len(representations)
        self._done = np.zeros((len(representations), n), dtype=bool)
        self._unwritten: list[TaskResult] = []
        self._last_write = time.monotonic()

    def take(self, result: TaskResult) -> None:
        """Enter the result of a task, and write to the cache when enough is waiting."""
        for row, key in result.content.items():
            self.content[row] = key
        for number, rows, values in result.values:
            self._enter(number, np.asarray(rows), values)
        self.failed.update(result.failed)
        self._unwritten.append(result)
        waiting = sum(result.n_rows for result in self._unwritten)
        n_bytes = sum(values.nbytes for result in self._unwritten for _, _, values in result.values)
        if (
            waiting >= _WRITE_ROWS
            or n_bytes > _WRITE_BYTES
            or time.monotonic() - self._last_write > _WRITE_SECONDS
        ):
            self.write()

    def write(self) -> None:
        """Put what is new into the cache."""
        unwritten, self._unwritten = self._unwritten, []
        self._last_write = time.monotonic()
        if self.shelves is None or self.files is None:
            return
        for number, shelf in enumerate(self.shelves):
            parts = [
                (rows, values)
                for result in unwritten
                for at, rows, values in result.values
                if at == number
            ]
            if parts:
                # Copies of one image are written once.
                keys, first = np.unique(
                    self.content[np.concatenate([rows for rows, _ in parts])], return_index=True
                )
                shelf.add(keys, np.concatenate([values for _, values in parts])[first])
        stamps = {key: content for result in unwritten for key, content in result.stamp.items()}
        if stamps:
            content = np.array([[content.decode()] for content in stamps.values()], dtype=object)
            self.files.add(np.array(list(stamps), dtype=KEY_DTYPE), content)

    def recall(self) -> None:
        """Read from the cache what was not computed in this run."""
        for number, shelf in enumerate(self.shelves or ()):
            wanted = ~self._done[number]
            wanted[list(self.failed)] = False
            rows = np.flatnonzero(wanted)
            if rows.size:
                for at, values in shelf.find(self.content[rows]):
                    self._enter(number, rows[at], values)

    def lacking(self) -> list[int]:
        """List the usable rows without a value: the cache lost it during the run."""
        lacking: Bools = np.logical_not(self._done.all(axis=0))
        lacking[list(self.failed)] = False
        return np.flatnonzero(lacking).tolist()

    def _enter(self, number: int, rows: Ints, values: npt.NDArray[Any]) -> None:
        table = self.values[number]
        if table is None:
            table = self.values[number] = _empty_table(self.n, values, self.memory)
        table[rows] = values
        self._done[number, rows] = True


def run_rows(
    worker_of: Callable[[KnownContent | None], Worker],
    results: Results,
    *,
    jobs: int,
    advance: Callable[[int], None],
    give_up: Callable[[int], None],
) -> None:
    """Compute what is not known.

    ``give_up(number of failures)`` may raise; before any exception leaves, what was computed is
    written.
    """
    rows: list[int] = list(range(results.n))
    # A second pass only for values that another process removed from the cache during the first.
    for attempt in range(2):
        worker = worker_of(what_is_known(results) if attempt == 0 else _nothing_known(results))
        _run_tasks(
            worker, rows, results, jobs, advance if attempt == 0 else lambda count: None, give_up
        )
        results.recall()
        rows = results.lacking()
        if not rows:
            return


def what_is_known(results: Results) -> KnownContent | None:
    """Return the sorted keys of the cache.

    None where there is no cache and hashes are not asked for: then none are computed.
    """
    if results.shelves is None or results.files is None:
        return _nothing_known(results) if results.hashes else None
    keys = tuple(shelf.keys() for shelf in results.shelves)
    complete = (
        reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), keys)
        if keys
        else np.empty(0, dtype=KEY_DTYPE)
    )
    stamp = results.files.keys()
    content = np.zeros(len(stamp), dtype=KEY_DTYPE)
    for at, values in results.files.find(stamp):
        content[at] = values[:, 0].astype(KEY_DTYPE)
    return KnownContent(stamp, content, complete, keys)


def _nothing_known(results: Results) -> KnownContent:
    none = np.empty(0, dtype=KEY_DTYPE)
    return KnownContent(none, none, none, tuple(none for _ in results.representations))


def _run_tasks(
    worker: Worker,
    rows: list[int],
    results: Results,
    jobs: int,
    advance: Callable[[int], None],
    give_up: Callable[[int], None],
) -> None:
    tasks = iter(
        [rows[start : start + _ROWS_PER_TASK] for start in range(0, len(rows), _ROWS_PER_TASK)]
    )
    with pillow_unlimited(), _Crew(worker, jobs) as crew:
        left = len(rows)
        try:
            while crew.fill(tasks):
                for result in crew.wait():
                    results.take(result)
                    advance(result.n_rows)
                    left -= result.n_rows
                give_up(len(results.failed))
                crew.strengthen(left)
        finally:
            for result in crew.stop():
                results.take(result)
            results.write()


class _Crew:
    """Threads begin; where seconds of work are left, processes replace all but one of them."""

    def __init__(self, worker: Worker, jobs: int) -> None:
        self._worker, self._jobs = worker, jobs
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="unskew")
        self._processes: Processes | None = None
        self._may_strengthen = can_use_processes(worker, jobs)
        self._by_threads: set[Future[TaskResult]] = set()
        self._by_processes: set[Future[TaskResult]] = set()
        self._pace = _Pace()

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown()
        if self._processes is not None:
            self._processes.end()

    def fill(self, tasks: Iterator[list[int]]) -> bool:
        """Submit tasks, a few at a time so that results do not pile up; tell whether any runs."""
        threads = self._jobs if self._processes is None else 1
        while len(self._by_threads) < 2 * threads and (task := next(tasks, None)) is not None:
            self._by_threads.add(self._threads.submit(self._worker.work, task))
        if self._processes is not None:
            while (
                len(self._by_processes) < 2 * (self._jobs - 1)
                and (task := next(tasks, None)) is not None
            ):
                self._by_processes.add(self._processes.submit(task))
        return bool(self._by_threads or self._by_processes)

    def wait(self) -> list[TaskResult]:
        """Wait for the next results."""
        done, _ = wait(self._by_threads | self._by_processes, return_when=FIRST_COMPLETED)
        self._by_threads -= done
        self._by_processes -= done
        results = [result_of(future) for future in done]
        self._pace.note(sum(result.n_rows for result in results))
        return results

    def strengthen(self, left: int) -> None:
        """Start processes where they are worth it."""
        if (
            self._may_strengthen
            and self._processes is None
            and self._pace.seconds(left) > _WORTH_PROCESSES
        ):
            self._processes = Processes(self._worker, self._jobs - 1)

    def stop(self) -> list[TaskResult]:
        """Return what threads have computed; tasks that processes have begun are lost."""
        self._worker.stop.set()
        kept = [
            future
            for future in self._by_threads
            if not future.cancel() and future.exception() is None
        ]
        return [future.result() for future in kept]


class _Pace:
    """Time per row in the last tenth of a second: rows in the cache are faster than others."""

    def __init__(self) -> None:
        self._since, self._rows, self._seconds_per_row = time.monotonic(), 0, 0.0

    def note(self, rows: int) -> None:
        self._rows += rows
        passed = time.monotonic() - self._since
        if passed > 0.1 and self._rows:
            self._seconds_per_row = passed / self._rows
            self._since, self._rows = time.monotonic(), 0

    def seconds(self, rows: int) -> float:
        return self._seconds_per_row * rows


def count_jobs(jobs: int | None) -> int:
    """Return the number of threads or processes: as asked for, or all processors available.

    More than there are processors, or than a few, only take memory.
    """
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if jobs is None:
        return available
    if type(jobs) is not int or jobs < 1:
        raise wrong_option(
            "jobs is the number of cores to use, a whole number of at least 1, or None for all "
            "processors",
            jobs=jobs,
        )
    return min(jobs, max(available, _FEW_JOBS))


def open_shelves(
    cache: str | os.PathLike[str] | None, representations: Sequence[Representation]
) -> tuple[list[Shelf] | None, Shelf | None]:
    """Open the shelves of a cache: one for each representation, and the one of files."""
    if cache is None:
        return None, None
    return [
        open_shelf(cache, representation) for representation in representations
    ], open_file_shelf(cache)


def _empty_table(n: int, values: npt.NDArray[Any], memory: int | None) -> Any:
    shape, dtype = (n, values.shape[1]), values.dtype
    if dtype.hasobject:
        return np.full(shape, None, dtype=object)
    if memory is not None:
        if math.prod(shape) * dtype.itemsize > memory * 2**20:
            return RowFile(shape, dtype)
    elif n * values.shape[1] * dtype.itemsize > _LARGEST_IN_MEMORY:
        # The file has no name any more once it is open, and is gone with the array.
        with tempfile.TemporaryFile(prefix="unskew-") as file:
            return np.memmap(file, dtype=dtype, mode="w+", shape=shape)
    return np.full(shape, np.nan if dtype.kind == "f" else 0, dtype=dtype)
