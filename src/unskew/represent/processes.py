"""Processes that represent images, where Python's lock keeps threads from running in parallel.

They take more than a second to start, so threads begin, and processes replace all but one of them
where much is left to do. They are started by loky (part of joblib, which scikit-learn needs):
unlike those of the standard library they do not run the user's script again, so it needs no ``if
__name__ == "__main__"``.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from unskew.errors import DataError
from unskew.records.images import ChosenImages, Images, JoinedImages
from unskew.represent.base import Representation
from unskew.represent.decode import pillow_unlimited
from unskew.represent.image_tasks import TaskResult, Worker
from unskew.represent.user_functions import OwnFunction


class Processes:
    """Several processes that all know what one `Worker` knows."""

    def __init__(self, worker: Worker, count: int) -> None:
        import joblib
        from joblib.externals.loky import ProcessPoolExecutor

        self._folder = tempfile.TemporaryDirectory(prefix="unskew-")
        self._file = str(Path(self._folder.name) / "worker")
        # By a file: arrays in it are mapped into memory, once for all processes.
        joblib.dump(worker.shared_among(count + 1), self._file)
        self._executor = ProcessPoolExecutor(count, env={name: "1" for name in _THREADS})

    def submit(self, rows: Sequence[int]) -> Future[TaskResult]:
        """Compute everything about these rows in one of the processes."""
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


def _work(file: str, rows: Sequence[int]) -> TaskResult:
    """Run a task in one of the processes; the worker is read when it is first needed."""
    if file not in _WORKERS:
        import joblib

        # Ctrl-C reaches all processes of a terminal; the one that started these decides.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _WORKERS[file] = joblib.load(file, mmap_mode="r")
    with pillow_unlimited():
        return _WORKERS[file].work(rows)
