"""Processes that represent images: Python's lock lets two threads gain little where an image is
more than its decoding.

They take more than a second to start, so threads begin, and all but one give way to processes where
much is left to do. They are started by loky (part of joblib, which scikit-learn needs): unlike
those of the standard library they do not run the user's script again, so it needs no ``if __name__
== "__main__"``.
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
from unskew.represent.image_tasks import Found, Worker
from unskew.represent.user_functions import OwnFunction


class Processes:
    """So many processes, which all know what one `Worker` knows; a context that ends them."""

    def __init__(self, worker: Worker, count: int) -> None:
        import joblib
        from joblib.externals.loky import ProcessPoolExecutor

        self._folder = tempfile.TemporaryDirectory(prefix="unskew-")
        self._place = str(Path(self._folder.name) / "worker")
        # By a file: arrays in it are mapped into memory, once for all processes.
        joblib.dump(worker.shared_among(count + 1), self._place)
        self._executor = ProcessPoolExecutor(count, env={name: "1" for name in _THREADS})

    def submit(self, rows: Sequence[int]) -> Future[Found]:
        """Everything about these rows, in one of the processes."""
        return self._executor.submit(_work, self._place, rows)  # type: ignore[no-any-return]

    def end(self) -> None:
        """End the processes as they are: they write nothing, so what is under way is lost and
        nothing else.
        """
        self._executor.shutdown(wait=True, kill_workers=True)
        self._folder.cleanup()


# In each process one core is one core: libraries that would start threads of their own.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def can_use_processes(worker: Worker, jobs: int) -> bool:
    """Are these images files, and do the representations come from here?

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
    """Images that another process can open, too."""
    if isinstance(images, JoinedImages):
        return all(_are_known_files(part) for part in images.parts)
    if isinstance(images, ChosenImages):
        return _are_known_files(images.images)
    return _comes_with_unskew(type(images))


def _comes_with_unskew(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "unskew"


def result_of(future: Future[Found]) -> Found:
    """What a process, or a thread, found; an error in words where a process died."""
    from concurrent.futures import BrokenExecutor

    try:
        return future.result()
    except BrokenExecutor as error:
        raise DataError(
            "a process that decoded images ended abruptly: memory ran out, or a file makes the "
            "decoder crash. What was computed is kept "
            "where there is a cache. Run it again with one job (--jobs 1, jobs=1), which starts no "
            "processes."
        ) from error


_WORKERS: dict[str, Worker] = {}


def _work(place: str, rows: Sequence[int]) -> Found:
    """Called in the processes; the worker is read when it is first asked for."""
    if place not in _WORKERS:
        import joblib

        # Ctrl-C reaches all processes of a terminal; the one that started these decides.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _WORKERS[place] = joblib.load(place, mmap_mode="r")
    with pillow_unlimited():
        return _WORKERS[place].work(rows)
